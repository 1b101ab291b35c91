//! Searches for files and for lines in them.

use agentiso_core::ports::link::{Find, Found, FoundEntry, Grep, GrepMatch, Grepped, GuestError};
use regex::bytes::{Regex, RegexBuilder};

use crate::fake::tree::{Content, Node, Tree, invalid};

pub(super) fn find(tree: &Tree, find: &Find) -> Result<Found, GuestError> {
    let glob = glob(&find.glob)?;
    let entries = below(tree, &find.root, find.hidden)?;
    let mut entries: Vec<FoundEntry> = entries
        .into_iter()
        .filter(|(path, _)| glob.is_match(path))
        .map(|(path, node)| entry(path, node))
        .collect();
    let most = usize::try_from(find.max).unwrap_or(usize::MAX);
    let truncated = entries.len() > most;
    entries.truncate(most);
    Ok(Found { entries, truncated })
}

fn entry(path: &[u8], node: &Node) -> FoundEntry {
    let about = node.metadata();
    FoundEntry {
        path: path.to_vec(),
        kind: about.kind,
        size: about.size,
        mode: about.mode,
        modified_ns: about.modified_ns,
    }
}

pub(super) fn grep(tree: &Tree, grep: &Grep) -> Result<Grepped, GuestError> {
    let pattern = if grep.fixed { regex::escape(&grep.pattern) } else { grep.pattern.clone() };
    let pattern = RegexBuilder::new(&pattern).case_insensitive(grep.ignore_case).build();
    let pattern = pattern.map_err(|error| invalid(error.to_string()))?;
    let wanted = grep.glob.as_deref().map(glob).transpose()?;
    let by_name = grep.glob.as_deref().is_some_and(|glob| !glob.contains('/'));
    let most = usize::try_from(grep.max_matches).unwrap_or(usize::MAX);
    let per_file = grep.max_per_file.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let mut found = Grepped::default();
    for (path, node) in below(tree, &grep.root, grep.hidden)? {
        let Content::File(bytes) = &node.content else { continue };
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let compared = if by_name { name } else { path };
        if wanted.as_ref().is_some_and(|wanted| !wanted.is_match(compared)) || bytes.contains(&0) {
            continue;
        }
        found.files_searched += 1;
        let lines: Vec<&[u8]> =
            bytes.strip_suffix(b"\n").unwrap_or(bytes).split(|byte| *byte == b'\n').collect();
        let matching = lines.iter().enumerate().filter(|(_, line)| pattern.is_match(line)).take(per_file);
        for (index, line) in matching {
            let around = usize::from(grep.context);
            let owned = |lines: &[&[u8]]| lines.iter().map(|line| line.to_vec()).collect();
            found.matches.push(GrepMatch {
                path: path.to_vec(),
                line_number: index as u64 + 1,
                line: line.to_vec(),
                before: owned(&lines[index.saturating_sub(around)..index]),
                after: owned(&lines[index + 1..lines.len().min(index + 1 + around)]),
            });
        }
    }
    found.truncated = found.matches.len() > most;
    found.matches.truncate(most);
    Ok(found)
}

/// Everything below a directory, or a single file under the empty path.
fn below<'a>(tree: &'a Tree, root: &[u8], hidden: bool) -> Result<Vec<(&'a [u8], &'a Node)>, GuestError> {
    let top = tree.resolve(root, true)?;
    let is_file = tree.stat(&top, false)?.kind == agentiso_core::ports::link::FileKind::File;
    let all = tree
        .under(&top)
        .map(|(at, node)| (at[top.len()..].strip_prefix(b"/").unwrap_or(&at[top.len()..]), node));
    let is_hidden = |path: &[u8]| path.split(|byte| *byte == b'/').any(|part| part.starts_with(b"."));
    Ok(all.filter(|(path, _)| is_file || (!path.is_empty() && (hidden || !is_hidden(path)))).collect())
}

fn glob(glob: &str) -> Result<Regex, GuestError> {
    let mut pattern = String::from("^");
    let mut left = glob.chars().peekable();
    let mut choices = 0;
    while let Some(next) = left.next() {
        match next {
            '*' if left.next_if_eq(&'*').is_some() => {
                pattern.push_str(if left.next_if_eq(&'/').is_some() { "(.*/)?" } else { ".*" });
            }
            '*' => pattern.push_str("[^/]*"),
            '?' => pattern.push_str("[^/]"),
            '[' | ']' => pattern.push(next),
            '{' => {
                choices += 1;
                pattern.push('(');
            }
            '}' => {
                choices -= 1;
                pattern.push(')');
            }
            ',' if choices > 0 => pattern.push('|'),
            other => pattern.push_str(&regex::escape(&other.to_string())),
        }
    }
    pattern.push('$');
    Regex::new(&pattern).map_err(|error| invalid(format!("{glob} is not a glob: {error}")))
}
