//! Compares two versions of a text file.

use std::time::Duration;

pub use agentiso_core::ports::host::TextDiff;

/// Larger files are not compared line by line.
const MAX_INPUT: usize = 4 << 20;
/// Longer results are truncated.
const MAX_OUTPUT: usize = 1 << 20;
/// Number of bytes that are searched for NUL to recognise binary files.
const BINARY_PROBE: usize = 8 << 10;
/// After this time the result becomes coarser: still correct, but longer than necessary.
const PATIENCE: Duration = Duration::from_secs(2);

/// Compares two files line by line. A missing file counts as empty.
pub fn text_diff(before: Option<&[u8]>, after: Option<&[u8]>) -> TextDiff {
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    // Check the size first: the caller may have read only the beginning of a larger file.
    if before.len().max(after.len()) > MAX_INPUT {
        return TextDiff::TooLarge { limit: MAX_INPUT as u64 };
    }
    if before == after {
        return TextDiff::Same;
    }
    let (Some(before), Some(after)) = (as_text(before), as_text(after)) else {
        return TextDiff::Binary;
    };
    let diff = similar::TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut unified = String::new();
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        unified.push_str(&hunk.to_string());
        if unified.len() > MAX_OUTPUT {
            let end = unified.floor_char_boundary(MAX_OUTPUT);
            let end = unified.get(..end).and_then(|kept| kept.rfind('\n')).map_or(0, |line| line + 1);
            unified.truncate(end);
            return TextDiff::Text { unified, truncated: true };
        }
    }
    TextDiff::Text { unified, truncated: false }
}

fn as_text(bytes: &[u8]) -> Option<&str> {
    let probe = bytes.get(..BINARY_PROBE).unwrap_or(bytes);
    if probe.contains(&0) { None } else { std::str::from_utf8(bytes).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown_with_context() {
        let diff = text_diff(Some(b"one\ntwo\nthree\n"), Some(b"one\n2\nthree\n"));
        let unified = "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n".to_owned();
        assert_eq!(diff, TextDiff::Text { unified, truncated: false });
    }

    #[test]
    fn a_new_file_is_all_additions() {
        let diff = text_diff(None, Some(b"one\ntwo\n"));
        let unified = "@@ -0,0 +1,2 @@\n+one\n+two\n".to_owned();
        assert_eq!(diff, TextDiff::Text { unified, truncated: false });
    }

    #[test]
    fn a_missing_final_newline_is_shown() {
        let TextDiff::Text { unified, .. } = text_diff(Some(b"end\n"), Some(b"end")) else { panic!() };
        assert!(unified.contains("No newline at end of file"), "{unified}");
    }

    #[test]
    fn binary_files_are_reported_as_binary() {
        assert_eq!(text_diff(Some(b"a\0b"), Some(b"text")), TextDiff::Binary);
        assert_eq!(text_diff(Some(b"text"), Some(b"\xff\xfe")), TextDiff::Binary);
        assert_eq!(text_diff(Some(b"\0"), Some(b"\0")), TextDiff::Same);
    }

    #[test]
    fn large_files_are_skipped_and_long_results_are_cut_at_a_line() {
        let huge = vec![b'x'; MAX_INPUT + 1];
        assert_eq!(text_diff(Some(&huge), Some(&huge)), TextDiff::TooLarge { limit: MAX_INPUT as u64 });
        assert_eq!(text_diff(Some(&huge), None), TextDiff::TooLarge { limit: MAX_INPUT as u64 });
        let long = "a line with an ü\n".repeat(MAX_OUTPUT / 10);
        let TextDiff::Text { unified, truncated } = text_diff(None, Some(long.as_bytes())) else { panic!() };
        assert!(truncated && unified.len() <= MAX_OUTPUT && unified.ends_with("ü\n"));
    }
}
