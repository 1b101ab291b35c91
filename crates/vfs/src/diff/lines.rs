//! Line by line comparison of two texts.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// Bytes that are searched for NUL to recognise binary files.
const PROBE: usize = 8 << 10;
/// After this time the comparison becomes coarser, and stays correct.
const PATIENCE: Duration = Duration::from_secs(2);

/// What happened to a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineKind {
    /// Both texts have it.
    Context,
    /// Only the second text has it.
    Add,
    /// Only the first text has it.
    Remove,
}

/// A line of a difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Line {
    /// What happened to it.
    pub kind: LineKind,
    /// Its number in the first text, from 1.
    pub old_line: Option<u64>,
    /// Its number in the second text, from 1.
    pub new_line: Option<u64>,
    /// The line, with its end if it has one.
    pub text: Vec<u8>,
}

/// Changes that are close to each other, with lines around them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hunk {
    /// First line in the first text, from 1; the line before it if there are none.
    pub old_start: u64,
    /// Number of lines of the first text.
    pub old_len: u64,
    /// First line in the second text.
    pub new_start: u64,
    /// Number of lines of the second text.
    pub new_len: u64,
    /// The lines.
    pub lines: Vec<Line>,
}

/// The difference of two files.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FileDiff {
    /// Whether the bytes are the same.
    pub is_identical: bool,
    /// At least one of the files is not text: there are no hunks.
    pub is_binary: bool,
    /// What differs, in order.
    pub hunks: Vec<Hunk>,
}

/// Compares two texts; each hunk has up to `context` unchanged lines around its changes.
pub fn diff_lines(before: &[u8], after: &[u8], context: usize) -> FileDiff {
    if before == after {
        return FileDiff { is_identical: true, ..FileDiff::default() };
    }
    let is_binary = [before, after].iter().any(|text| text.get(..PROBE).unwrap_or(text).contains(&0));
    if is_binary {
        return FileDiff { is_binary, ..FileDiff::default() };
    }
    let (old, new) = (lines(before), lines(after));
    let deadline = Instant::now().checked_add(PATIENCE);
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    let hunks = group_diff_ops(operations, context).iter().map(|group| hunk(group, &old, &new)).collect();
    FileDiff { is_identical: false, is_binary: false, hunks }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn hunk(group: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) -> Hunk {
    let range = |range: fn(&DiffOp) -> std::ops::Range<usize>| {
        let start = group.first().map_or(0, |operation| range(operation).start);
        let end = group.last().map_or(start, |operation| range(operation).end);
        // As in unified diffs, an empty range is named by the line before it.
        ((start + usize::from(end > start)) as u64, (end - start) as u64)
    };
    let ((old_start, old_len), (new_start, new_len)) = (range(DiffOp::old_range), range(DiffOp::new_range));
    let mut lines = Vec::new();
    for operation in group {
        let (olds, news) = (operation.old_range(), operation.new_range());
        if operation.tag() == DiffTag::Equal {
            for (left, right) in olds.zip(news) {
                let (old_line, new_line) = (Some(left as u64 + 1), Some(right as u64 + 1));
                lines.push(Line { kind: LineKind::Context, old_line, new_line, text: at(old, left) });
            }
            continue;
        }
        lines.extend(olds.map(|index| {
            let old_line = Some(index as u64 + 1);
            Line { kind: LineKind::Remove, old_line, new_line: None, text: at(old, index) }
        }));
        lines.extend(news.map(|index| {
            let new_line = Some(index as u64 + 1);
            Line { kind: LineKind::Add, old_line: None, new_line, text: at(new, index) }
        }));
    }
    Hunk { old_start, old_len, new_start, new_len, lines }
}

fn at(lines: &[&[u8]], index: usize) -> Vec<u8> {
    lines.get(index).map(|line| line.to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unified(diff: &FileDiff) -> String {
        let mut text = String::new();
        for hunk in &diff.hunks {
            let Hunk { old_start, old_len, new_start, new_len, .. } = hunk;
            text.push_str(&format!("@@ -{old_start},{old_len} +{new_start},{new_len} @@\n"));
            for line in &hunk.lines {
                text.push(match line.kind {
                    LineKind::Context => ' ',
                    LineKind::Add => '+',
                    LineKind::Remove => '-',
                });
                text.push_str(std::str::from_utf8(&line.text).unwrap());
            }
        }
        text
    }

    #[test]
    fn an_inserted_line_does_not_change_the_others() {
        let diff = diff_lines(b"a\nb\nc\nd\n", b"a\nx\nb\nc\nd\n", 1);
        assert_eq!(unified(&diff), "@@ -1,2 +1,3 @@\n a\n+x\n b\n");
        let diff = diff_lines(b"", b"x\n", 3);
        assert_eq!(unified(&diff), "@@ -0,0 +1,1 @@\n+x\n");
    }

    #[test]
    fn equal_and_binary_files_have_no_hunks() {
        assert!(diff_lines(b"a\0", b"a\0", 3).is_identical);
        let diff = diff_lines(b"a\0", b"b", 3);
        assert!(diff.is_binary && !diff.is_identical && diff.hunks.is_empty());
    }

    proptest! {
        #[test]
        fn the_lines_of_a_whole_difference_are_both_texts(before in "[ab\n]{0,60}", after in "[ab\n]{0,60}") {
            let diff = diff_lines(before.as_bytes(), after.as_bytes(), usize::MAX >> 2);
            if !diff.is_identical {
                let side = |without: LineKind| -> Vec<u8> {
                    let lines = diff.hunks.iter().flat_map(|hunk| &hunk.lines);
                    lines.filter(|line| line.kind != without).flat_map(|line| line.text.clone()).collect()
                };
                prop_assert_eq!(side(LineKind::Add), before.into_bytes());
                prop_assert_eq!(side(LineKind::Remove), after.into_bytes());
            }
        }
    }
}
