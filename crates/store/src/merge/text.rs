//! Three-way merge of text, line by line.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

/// Larger files are not merged line by line.
const MAX_INPUT: usize = 4 << 20;
/// Bytes searched for NUL to recognise binary files.
const PROBE: usize = 8 << 10;
/// After this time the comparison becomes coarser: still correct, but with more conflicts than necessary.
const PATIENCE: Duration = Duration::from_secs(2);

/// The result of a merge of text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TextMerge {
    /// The merged text, with markers where both sides changed the same lines.
    pub text: Vec<u8>,
    /// Number of places with markers.
    pub conflicts: usize,
}

/// A change of the base: its lines `base` became the lines `new` of one side.
struct Hunk {
    base: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
}

/// Merges the changes that two sides made to a text. Changes of the same or of adjacent lines conflict unless they are
/// equal. Returns nothing if one of the three is not text or is too large.
pub fn merge_text(base: &[u8], ours: &[u8], theirs: &[u8], labels: (&str, &str)) -> Option<TextMerge> {
    if [base, ours, theirs].iter().any(|text| !is_text(text)) {
        return None;
    }
    let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
    let (our_hunks, their_hunks) = (hunks(&base, &ours), hunks(&base, &theirs));
    let mut merged = TextMerge { text: Vec::new(), conflicts: 0 };
    let (mut our_at, mut their_at, mut done) = (0, 0, 0);
    loop {
        let next = [our_hunks.get(our_at), their_hunks.get(their_at)].into_iter().flatten();
        let Some(start) = next.map(|hunk| hunk.base.start).min() else { break };
        merged.text.extend(base.get(done..start).unwrap_or_default().concat());
        let (our_first, their_first) = (our_at, their_at);
        let mut end = start;
        // Hunks that overlap or touch belong together.
        loop {
            let before = (our_at, their_at);
            for (hunks, at) in [(&our_hunks, &mut our_at), (&their_hunks, &mut their_at)] {
                while let Some(hunk) = hunks.get(*at).filter(|hunk| hunk.base.start <= end) {
                    end = end.max(hunk.base.end);
                    *at += 1;
                }
            }
            if before == (our_at, their_at) {
                break;
            }
        }
        let our_part = side(&base, &ours, our_hunks.get(our_first..our_at).unwrap_or_default(), start..end);
        let their_part =
            side(&base, &theirs, their_hunks.get(their_first..their_at).unwrap_or_default(), start..end);
        let is_ours_changed = our_at > our_first;
        let is_theirs_changed = their_at > their_first;
        if !is_theirs_changed || our_part == their_part {
            merged.text.extend(our_part);
        } else if !is_ours_changed {
            merged.text.extend(their_part);
        } else {
            merged.conflicts += 1;
            mark(&mut merged.text, "<<<<<<< ", labels.0);
            merged.text.extend(our_part);
            mark(&mut merged.text, "=======", "");
            merged.text.extend(their_part);
            mark(&mut merged.text, ">>>>>>> ", labels.1);
        }
        done = end;
    }
    merged.text.extend(base.get(done..).unwrap_or_default().concat());
    Some(merged)
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() <= MAX_INPUT && !bytes.get(..PROBE).unwrap_or(bytes).contains(&0)
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

fn hunks(base: &[&[u8]], side: &[&[u8]]) -> Vec<Hunk> {
    let deadline = Instant::now().checked_add(PATIENCE);
    let operations = capture_diff_slices_deadline(Algorithm::Myers, base, side, deadline);
    let hunk = |operation: &DiffOp| {
        let is_change = !matches!(operation, DiffOp::Equal { .. });
        is_change.then(|| Hunk { base: operation.old_range(), new: operation.new_range() })
    };
    operations.iter().filter_map(hunk).collect()
}

/// The lines of one side in place of a range of the base.
fn side(base: &[&[u8]], new: &[&[u8]], hunks: &[Hunk], range: std::ops::Range<usize>) -> Vec<u8> {
    let mut text = Vec::new();
    let mut at = range.start;
    for hunk in hunks {
        text.extend(base.get(at..hunk.base.start).unwrap_or_default().concat());
        text.extend(new.get(hunk.new.clone()).unwrap_or_default().concat());
        at = hunk.base.end;
    }
    text.extend(base.get(at..range.end).unwrap_or_default().concat());
    text
}

fn mark(text: &mut Vec<u8>, marker: &str, label: &str) {
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(marker.as_bytes());
    text.extend_from_slice(label.as_bytes());
    text.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn merged(base: &str, ours: &str, theirs: &str) -> (String, usize) {
        let result =
            merge_text(base.as_bytes(), ours.as_bytes(), theirs.as_bytes(), ("ours", "theirs")).unwrap();
        (String::from_utf8(result.text).unwrap(), result.conflicts)
    }

    #[test]
    fn changes_of_different_lines_are_both_taken() {
        assert_eq!(merged("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n"), ("A\nb\nc\nD\n".to_owned(), 0));
        assert_eq!(merged("a\nb\nc\n", "0\na\nb\nc\n", "a\nb\nc\n9\n"), ("0\na\nb\nc\n9\n".to_owned(), 0));
        assert_eq!(merged("a\nb\nc\nd\n", "a\nc\nd\n", "a\nb\nc\nx\nd\n"), ("a\nc\nx\nd\n".to_owned(), 0));
    }

    #[test]
    fn different_changes_of_one_line_are_marked() {
        let (text, conflicts) = merged("a\nb\nc\n", "a\nours\nc\n", "a\ntheirs\nc\n");
        assert_eq!(text, "a\n<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\nc\n");
        assert_eq!(conflicts, 1);
    }

    #[test]
    fn equal_changes_are_taken_once() {
        assert_eq!(merged("a\nb\n", "a\nx\n", "a\nx\n"), ("a\nx\n".to_owned(), 0));
    }

    #[test]
    fn a_missing_final_newline_does_not_swallow_a_marker() {
        let (text, _) = merged("a", "b", "c");
        assert_eq!(text, "<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\n");
    }

    #[test]
    fn binary_files_are_not_merged() {
        assert_eq!(merge_text(b"a", b"b\0", b"c", ("o", "t")), None);
    }

    proptest! {
        #[test]
        fn the_change_of_one_side_is_that_side(base in "[ab\n]{0,40}", side in "[abc\n]{0,40}") {
            prop_assert_eq!(merged(&base, &side, &base), (side.clone(), 0));
            prop_assert_eq!(merged(&base, &base, &side), (side.clone(), 0));
            prop_assert_eq!(merged(&base, &side, &side), (side.clone(), 0));
        }

        #[test]
        fn swapping_the_sides_does_not_change_a_clean_merge(
            base in "[ab\n]{0,40}", ours in "[abc\n]{0,40}", theirs in "[abd\n]{0,40}"
        ) {
            let (one, one_conflicts) = merged(&base, &ours, &theirs);
            let (two, two_conflicts) = merged(&base, &theirs, &ours);
            prop_assert_eq!(one_conflicts, two_conflicts);
            if one_conflicts == 0 {
                prop_assert_eq!(one, two);
            }
        }
    }
}
