//! Glob patterns for paths, with the bounds that let a walk skip directories.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use agentiso_proto::MAX_PATTERN;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Outcome, invalid};

pub(crate) struct Glob {
    set: GlobSet,
    /// The literal directory prefix of the pattern, with a trailing slash.
    prefix: Vec<u8>,
    /// The maximum number of directories above a match, if the pattern has one.
    depth: Option<usize>,
}

impl Glob {
    pub(crate) fn new(text: &str) -> Outcome<Self> {
        if text.len() > MAX_PATTERN {
            return Err(invalid(format!("the glob is longer than {MAX_PATTERN} bytes")));
        }
        // A set of one: building a single glob panics on some input for which building a set fails.
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        glob.and_then(|glob| GlobSetBuilder::new().add(glob).build())
            .map(|set| Self { set, prefix: prefix(text), depth: depth(text) })
            .map_err(|error| invalid(format!("invalid glob: {}", error.kind())))
    }

    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match(OsStr::from_bytes(path))
    }

    /// Whether anything below `directory` can match.
    pub(crate) fn may_match_below(&self, directory: &[u8]) -> bool {
        let directory = [directory, b"/"].concat();
        let depth = directory.iter().filter(|&&byte| byte == b'/').count();
        self.depth.is_none_or(|limit| depth <= limit)
            && (directory.starts_with(&self.prefix) || self.prefix.starts_with(&directory))
    }
}

/// The part up to the last slash before the first special character.
fn prefix(glob: &str) -> Vec<u8> {
    let plain = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    let end = glob[..plain].rfind('/').map_or(0, |at| at + 1);
    glob.as_bytes()[..end].to_vec()
}

/// Without `**`, each slash in a path matches one in the pattern, except that a character class may match a slash.
fn depth(glob: &str) -> Option<usize> {
    let bounded = !glob.contains("**") && !glob.contains('[');
    bounded.then(|| glob.bytes().filter(|&byte| byte == b'/').count())
}

#[cfg(test)]
mod tests {
    use agentiso_proto::ErrorKind;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn globs_match_as_in_a_shell() {
        for (glob, matching, other) in [
            ("*.rs", "a.rs", "a/b.rs"),
            ("**/*.rs", "a.rs", "a.rb"),
            ("**/*.rs", "a/b/c.rs", "a/b/c.rs/d"),
            ("a/**", "a/b/c", "b/a"),
            ("a/**/z", "a/z", "a/zz"),
            ("?.[ch]", "x.c", "xx.c"),
            ("[!a]", "b", "a"),
            ("{a,b/*}.{c,d}", "b/x.d", "b/x/y.d"),
            ("\\*", "*", "a"),
        ] {
            let glob = Glob::new(glob).unwrap();
            assert!(
                glob.matches(matching.as_bytes()) && !glob.matches(other.as_bytes()),
                "{matching} {other}"
            );
        }
        assert!(Glob::new("a?c").unwrap().matches(b"a\xffc"), "file names need not be UTF-8");
    }

    #[test]
    fn directories_without_possible_matches_are_skipped() {
        for (glob, entered, passed_over) in [
            ("src/*.rs", "src", "src/a"),
            ("src/**/*.rs", "src/a/b", "target"),
            ("a/b/c", "a/b", "a/c"),
            ("*/*", "x", "x/y"),
        ] {
            let glob = Glob::new(glob).unwrap();
            assert!(
                glob.may_match_below(entered.as_bytes()) && !glob.may_match_below(passed_over.as_bytes())
            );
        }
    }

    #[test]
    fn hostile_globs_are_rejected_or_harmless() {
        let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        for glob in ["{", "[", "{a", "[z-a]", "a\\"]
            .map(str::to_owned)
            .into_iter()
            .chain([nested(2000), "x".repeat(5000)])
        {
            assert_eq!(Glob::new(&glob).map(|_| ()).unwrap_err().kind, ErrorKind::Invalid, "{glob:.20}");
        }
        for (glob, path) in [
            ("*a".repeat(1000), "a".repeat(4000)),
            ("**/".repeat(1000) + "a", "b/".repeat(1000) + "a"),
            ("{a,b}".repeat(700), "ab".repeat(350)),
            ("[a-z]".repeat(700), "x".repeat(700)),
        ] {
            assert!(Glob::new(&glob).unwrap().matches(path.as_bytes()), "{glob:.20}");
        }
    }

    proptest! {
        #[test]
        fn no_glob_and_no_path_causes_a_panic(
            glob in "[a-c*?{},!\\[\\]\\\\/-]{0,40}", path in any::<Vec<u8>>(),
        ) {
            if let Ok(glob) = Glob::new(&glob) {
                glob.matches(&path);
            }
        }

        #[test]
        fn every_parent_directory_of_a_match_may_contain_matches(
            glob in "([a-c*?/]|\\*\\*/|\\{a,b/\\*\\}|\\[a-c\\]|\\[.-0\\]|\\\\a){1,6}",
            path in "[a-c]{1,2}(/[a-c]{1,2}){0,4}",
        ) {
            let Ok(glob) = Glob::new(&glob) else { return Ok(()) };
            if glob.matches(path.as_bytes()) {
                for (at, _) in path.match_indices('/') {
                    prop_assert!(glob.may_match_below(&path.as_bytes()[..at]), "{} {}", path, at);
                }
            }
        }
    }
}
