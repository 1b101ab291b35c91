//! Parses the output of `git status`.

use agentiso_core::action::GitState;

/// Reads `git status --porcelain=v2 --branch -z`.
pub(super) fn state(text: &str) -> GitState {
    let mut state = GitState {
        branch: None,
        commit_sha: None,
        upstream: None,
        ahead: 0,
        behind: 0,
        staged: Vec::new(),
        modified: Vec::new(),
        untracked: Vec::new(),
        conflicted: Vec::new(),
        dirty: false,
    };
    let mut records = text.split('\0');
    while let Some(record) = records.next() {
        let (kind, rest) = record.split_once(' ').unwrap_or((record, ""));
        match kind {
            "#" => header(&mut state, rest),
            "1" => changed_file(&mut state, rest, 7),
            "2" => {
                changed_file(&mut state, rest, 8);
                // A renamed file's old name is a record of its own.
                records.next();
            }
            "u" => state.conflicted.extend(nth_field(rest, 9)),
            "?" => state.untracked.push(rest.to_owned()),
            _ => {}
        }
    }
    state.dirty = [&state.staged, &state.modified, &state.untracked, &state.conflicted]
        .iter()
        .any(|files| !files.is_empty());
    state
}

fn header(state: &mut GitState, line: &str) {
    let (name, value) = line.split_once(' ').unwrap_or((line, ""));
    match name {
        "branch.oid" if value != "(initial)" => state.commit_sha = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => state.branch = Some(value.to_owned()),
        "branch.upstream" => state.upstream = Some(value.to_owned()),
        "branch.ab" => {
            for part in value.split(' ') {
                let count = part.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
                match part.as_bytes().first() {
                    Some(b'+') => state.ahead = count,
                    Some(b'-') => state.behind = count,
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Parses an entry: `XY`, then `fields` further fields, then the path.
fn changed_file(state: &mut GitState, rest: &str, fields: usize) {
    let Some(path) = nth_field(rest, fields) else { return };
    let mut letters = rest.chars();
    let (index, tree) = (letters.next(), letters.next());
    if index.is_some_and(|letter| letter != '.') {
        state.staged.push(path.clone());
    }
    if tree.is_some_and(|letter| letter != '.') {
        state.modified.push(path);
    }
}

/// The rest of a line after this many fields: a path may contain spaces.
fn nth_field(rest: &str, fields: usize) -> Option<String> {
    rest.splitn(fields + 1, ' ').nth(fields).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_status_is_read_with_renames_conflicts_and_blanks_in_names() {
        let text = [
            "# branch.oid 0123",
            "# branch.head main",
            "# branch.upstream origin/main",
            "# branch.ab +2 -3",
            "1 .M N... 100644 100644 100644 a b README.md",
            "1 A. N... 000000 100644 100644 a b new file",
            "1 MM N... 100644 100644 100644 a b both",
            "2 R. N... 100644 100644 100644 a b R100 after",
            "before",
            "u UU N... 100644 100644 100644 100644 a b c torn",
            "? un known",
            "",
        ]
        .join("\0");
        let state = state(&text);
        assert_eq!(state.branch.as_deref(), Some("main"));
        assert_eq!((state.ahead, state.behind), (2, 3));
        assert_eq!(state.staged, ["new file", "both", "after"]);
        assert_eq!(state.modified, ["README.md", "both"]);
        assert_eq!(state.untracked, ["un known"]);
        assert_eq!(state.conflicted, ["torn"]);
        assert!(state.dirty);
    }

    #[test]
    fn a_new_repository_and_no_branch_are_told_from_others() {
        let text = "# branch.oid (initial)\0# branch.head (detached)\0";
        let state = state(text);
        assert_eq!((state.branch, state.commit_sha, state.dirty), (None, None, false));
    }

    proptest! {
        #[test]
        fn whatever_git_prints_is_read_without_harm(text in "[#12u? .MA\0a-z]{0,200}") {
            state(&text);
        }
    }
}
