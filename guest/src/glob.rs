//! Patterns for paths.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use agentiso_proto::MAX_PATTERN;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{Outcome, invalid};

/// A compiled glob.
pub(crate) struct Glob {
    set: GlobSet,
    /// The directories every match is in, with a slash at the end.
    prefix: Vec<u8>,
    /// In how many directories a match is at most, if that is known.
    depth: Option<usize>,
}

impl Glob {
    pub(crate) fn new(text: &str) -> Outcome<Self> {
        if text.len() > MAX_PATTERN {
            return Err(invalid(format!("the glob is longer than {MAX_PATTERN} bytes")));
        }
        // A set of one: compiling a single glob would panic where this fails.
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        glob.and_then(|glob| GlobSetBuilder::new().add(glob).build())
            .map(|set| Self { set, prefix: prefix(text), depth: depth(text) })
            .map_err(|error| invalid(format!("the glob cannot be used: {}", error.kind())))
    }

    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.set.is_match(OsStr::from_bytes(path))
    }

    /// Whether anything in a directory or below it may match.
    pub(crate) fn may_match_below(&self, directory: &[u8]) -> bool {
        let directory = [directory, b"/"].concat();
        let depth = directory.iter().filter(|&&byte| byte == b'/').count();
        self.depth.is_none_or(|limit| depth <= limit)
            && (directory.starts_with(&self.prefix) || self.prefix.starts_with(&directory))
    }
}

/// Up to the last slash before anything with a meaning.
fn prefix(glob: &str) -> Vec<u8> {
    let plain = glob.find(['*', '?', '[', '{', '\\']).unwrap_or(glob.len());
    let end = glob[..plain].rfind('/').map_or(0, |at| at + 1);
    glob.as_bytes()[..end].to_vec()
}

/// Without `**` each slash in a path is one in the glob; but a class may stand for a slash.
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
    fn globs_mean_what_shells_take_them_for() {
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
        assert!(Glob::new("a?c").unwrap().matches(b"a\xffc"), "names need not be text");
    }

    #[test]
    fn what_cannot_have_a_match_below_is_not_entered() {
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
    fn hostile_globs_are_refused_or_harmless() {
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
        fn no_glob_and_no_path_makes_it_panic(
            glob in "[a-c*?{},!\\[\\]\\\\/-]{0,40}", path in any::<Vec<u8>>(),
        ) {
            if let Ok(glob) = Glob::new(&glob) {
                glob.matches(&path);
            }
        }

        #[test]
        fn every_directory_on_the_way_to_a_match_may_have_a_match_below(
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
