//! Names and paths inside a tree: bytes, checked.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::StoreError;
use crate::limits::{MAX_NAME, MAX_PATH};

/// Whether a directory may have an entry of this name: 1 to 255 bytes, no NUL, no slash, not `.` or `..`.
pub fn is_valid_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// A path inside a tree, relative to its root. The root is the empty path. Paths are ordered as a walk visits them:
/// a directory, then everything in it, then the next name.
#[derive(Clone, Default, Eq, Hash, PartialEq)]
pub struct TreePath(Vec<u8>);

impl TreePath {
    /// The root of a tree.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// Reads a path. Leading, trailing and repeated slashes and `.` do not count; `..` is refused.
    pub fn parse(bytes: impl AsRef<[u8]>) -> Result<Self, StoreError> {
        let bytes = bytes.as_ref();
        let mut path = Self::root();
        for part in bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".") {
            if !is_valid_name(part) {
                let reason = "a name must have 1 to 255 bytes, without NUL, and must not be \"..\"";
                return Err(StoreError::invalid(Self(bytes.to_vec()), reason));
            }
            path.push(part);
        }
        if path.0.len() > MAX_PATH {
            return Err(StoreError::invalid("the path", format_args!("it is longer than {MAX_PATH} bytes")));
        }
        Ok(path)
    }

    fn push(&mut self, name: &[u8]) {
        if !self.0.is_empty() {
            self.0.push(b'/');
        }
        self.0.extend_from_slice(name);
    }

    /// The path of an entry of this directory. The name must be valid.
    pub fn join(&self, name: &[u8]) -> Self {
        let mut path = Self(Vec::with_capacity(self.0.len() + 1 + name.len()));
        path.0.extend_from_slice(&self.0);
        path.push(name);
        path
    }

    /// This path below another one.
    pub fn below(&self, parent: &Self) -> Self {
        if self.is_root() { parent.clone() } else { parent.join(&self.0) }
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this path is `other` or inside it.
    pub fn is_within(&self, other: &Self) -> bool {
        other.is_root()
            || self.0 == other.0
            || (self.0.starts_with(&other.0) && self.0.get(other.0.len()) == Some(&b'/'))
    }

    /// Number of components.
    pub fn depth(&self) -> usize {
        self.components().count()
    }

    /// The names from the root down.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
    }

    /// The directory and the name in it; nothing for the root.
    pub fn split(&self) -> Option<(Self, &[u8])> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (Self(self.0[..slash].to_vec()), &self.0[slash + 1..]),
            None => (Self::root(), &self.0[..]),
        })
    }

    /// The bytes of the path, without a leading slash.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The path for system calls: `.` for the root.
    pub fn as_host(&self) -> &Path {
        Path::new(OsStr::from_bytes(if self.is_root() { b"." } else { &self.0 }))
    }
}

impl Ord for TreePath {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compared by names, which is by bytes with the slash before all others.
        const STEP: usize = 64;
        let equal = self.0.chunks(STEP).zip(other.0.chunks(STEP)).take_while(|(a, b)| a == b).count() * STEP;
        let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        let a = self.0.get(equal..).unwrap_or_default().iter().map(key);
        let b = other.0.get(equal..).unwrap_or_default().iter().map(key);
        a.cmp(b)
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Escapes what is not printable, so that a hostile name cannot forge a line of a report.
impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("/")?;
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                if letter.is_control() || letter == '\\' {
                    write!(f, "{}", letter.escape_default())?;
                } else {
                    write!(f, "{letter}")?;
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_normalised_and_never_climb() {
        assert_eq!(TreePath::parse("//a/./b/").unwrap().as_bytes(), b"a/b");
        assert!(TreePath::parse("/").unwrap().is_root());
        for bad in ["..", "a/../b", "a\0b"] {
            assert!(TreePath::parse(bad).is_err(), "{bad:?}");
        }
        assert!(TreePath::parse(vec![b'x'; 256]).is_err());
        assert!(TreePath::parse(b"ab/".repeat(2000)).is_err());
    }

    #[test]
    fn a_directory_comes_before_its_entries_and_those_before_the_next_name() {
        let mut paths: Vec<_> =
            ["a.b", "a", "a/c", "a b", ""].iter().map(|text| TreePath::parse(text).unwrap()).collect();
        paths.sort();
        let texts: Vec<_> = paths.iter().map(TreePath::to_string).collect();
        assert_eq!(texts, ["/", "/a", "/a/c", "/a b", "/a.b"]);
    }

    proptest! {
        #[test]
        fn the_order_is_that_of_the_names(a in "[ab./ ]{0,200}", b in "[ab./ ]{0,200}") {
            if let (Ok(a), Ok(b)) = (TreePath::parse(a), TreePath::parse(b)) {
                prop_assert_eq!(a.cmp(&b), a.components().cmp(b.components()));
            }
        }
    }

    #[test]
    fn unprintable_bytes_are_escaped() {
        let path = TreePath::parse([b"new\nline/\xff\\", "ü".as_bytes()].concat()).unwrap();
        assert_eq!(path.to_string(), "/new\\nline/\\xff\\\\ü");
    }

    #[test]
    fn within_compares_whole_names() {
        let path = |text: &str| TreePath::parse(text).unwrap();
        assert!(path("a/b").is_within(&path("a")) && path("a").is_within(&path("a")));
        assert!(path("a").is_within(&TreePath::root()));
        assert!(!path("ab").is_within(&path("a")));
    }
}
