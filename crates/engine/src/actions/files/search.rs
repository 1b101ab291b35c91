//! Finding files by name and by content.

use agentiso_core::action::{FileEntry, FileGlob, FileGrep, FilesFound, TextFound, TextMatch};
use agentiso_core::ports::link::{Find, Grep};
use agentiso_core::{Code, Failure};

use super::read::{kind, moment, permissions};
use super::write::{about_path, absolute};
use crate::act::Context;
use crate::actions::commands::bounded;
use crate::{Access, Perform};

const FOUND: u64 = 1000;
const MOST_FOUND: u64 = 10_000;
const MATCHES: u64 = 200;
const MOST_MATCHES: u64 = 5000;
const MOST_CONTEXT: u8 = 10;
const LONGEST_PATTERN: usize = 1024;

impl Perform for FileGlob {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<FilesFound, Failure> {
        let root = self.path.unwrap_or_else(|| "/".to_owned());
        absolute(&root)?;
        let glob = relative(&root, &self.pattern)?.to_owned();
        pattern(&glob)?;
        let max = bounded("max_results", self.max_results.map(u64::from), FOUND, 1, MOST_FOUND)?;
        let find = Find {
            root: root.as_bytes().to_vec(),
            glob,
            max: u32::try_from(max).unwrap_or(u32::MAX),
            hidden: self.hidden,
        };
        let found = context.guest().await?.find(find).await.map_err(|error| about_path(error, &root))?;
        let files = found.entries.iter().map(|file| FileEntry {
            name: below(&root, &file.path),
            kind: kind(file.kind),
            size: file.size,
            permissions: permissions(file.mode),
            modified: moment(file.modified_ns),
            target: None,
        });
        Ok(FilesFound { files: files.collect(), truncated: found.truncated })
    }
}

/// A pattern as it is below a directory: an absolute one matches nothing there unless its beginning is taken off.
fn relative<'a>(root: &str, pattern: &'a str) -> Result<&'a str, Failure> {
    if !pattern.starts_with('/') {
        return Ok(pattern);
    }
    let rest = pattern.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
    rest.ok_or_else(|| {
        Failure::new(Code::InvalidArgument, format!("the pattern is absolute and not below {root}"))
            .with_remedy("give a pattern relative to path, such as **/*.rs")
    })
}

impl Perform for FileGrep {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<TextFound, Failure> {
        let root = self.path.unwrap_or_else(|| "/".to_owned());
        absolute(&root)?;
        pattern(&self.pattern)?;
        let max = bounded("max_results", self.max_results.map(u64::from), MATCHES, 1, MOST_MATCHES)?;
        let lines = self.context.unwrap_or(0);
        if lines > MOST_CONTEXT {
            let message = format!("context must be at most {MOST_CONTEXT}, not {lines}");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let grep = Grep {
            root: root.as_bytes().to_vec(),
            pattern: self.pattern,
            fixed: self.fixed,
            ignore_case: self.ignore_case,
            glob: self.glob,
            max_matches: u32::try_from(max).unwrap_or(u32::MAX),
            max_per_file: None,
            context: lines,
            hidden: self.hidden,
        };
        let found = context.guest().await?.grep(grep).await.map_err(|error| about_path(error, &root))?;
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        let matches = found.matches.iter().map(|one| TextMatch {
            path: below(&root, &one.path),
            line_number: one.line_number,
            line: text(&one.line),
            before: one.before.iter().map(text).collect(),
            after: one.after.iter().map(text).collect(),
        });
        Ok(TextFound {
            matches: matches.collect(),
            files_searched: found.files_searched.into(),
            truncated: found.truncated,
        })
    }
}

/// The absolute path of a match, as other actions take it. A file that was itself the place to search has no path below.
fn below(root: &str, path: &[u8]) -> String {
    let path = String::from_utf8_lossy(path);
    match path.as_ref() {
        "" => root.to_owned(),
        path => format!("{}/{}", root.trim_end_matches('/'), path.trim_start_matches('/')),
    }
}

fn pattern(pattern: &str) -> Result<(), Failure> {
    if (1..=LONGEST_PATTERN).contains(&pattern.len()) {
        return Ok(());
    }
    let message = format!("pattern must have 1 to {LONGEST_PATTERN} bytes, not {}", pattern.len());
    Err(Failure::new(Code::InvalidArgument, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_has_its_whole_path() {
        for (root, path, whole) in [
            ("/", "etc/hosts", "/etc/hosts"),
            ("/s", "a/b", "/s/a/b"),
            ("/s/", "a", "/s/a"),
            ("/s/f", "", "/s/f"),
        ] {
            assert_eq!(below(root, path.as_bytes()), whole);
        }
    }

    #[test]
    fn an_absolute_pattern_is_taken_below_its_directory() {
        assert_eq!(relative("/", "/etc/*.conf").unwrap(), "etc/*.conf");
        assert_eq!(relative("/srv/", "/srv/*.c").unwrap(), "*.c");
        assert_eq!(relative("/srv", "**/*.c").unwrap(), "**/*.c");
        assert_eq!(relative("/srv", "/srvx/*.c").unwrap_err().code(), Code::InvalidArgument);
    }
}
