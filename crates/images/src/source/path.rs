//! Normalising the paths in archives.

/// The longest path and name on Linux.
pub(super) const PATH_MAX: usize = 4096;
const NAME_MAX: usize = 255;

/// Why a path was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PathFault {
    /// It contains `..` beyond the root.
    #[error("its path contains '..'")]
    Climbs,
    /// It contains a NUL byte.
    #[error("its path contains a NUL byte")]
    Nul,
    /// It, or a name in it, is too long.
    #[error("its path is too long")]
    TooLong,
    /// The symbolic links above it lead in circles.
    #[error("there are too many symbolic links above it")]
    TooManyLinks,
}

/// Turns a path of an archive into a relative one without empty, `.` or `..` components; the root is empty.
pub fn normalise(raw: &[u8]) -> Result<Vec<u8>, PathFault> {
    if raw.contains(&0) {
        return Err(PathFault::Nul);
    }
    let mut path = Vec::with_capacity(raw.len().min(PATH_MAX));
    for name in raw.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => continue,
            b".." => return Err(PathFault::Climbs),
            _ if name.len() > NAME_MAX => return Err(PathFault::TooLong),
            _ => {}
        }
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        if path.len() >= PATH_MAX {
            return Err(PathFault::TooLong);
        }
    }
    Ok(path)
}

/// The path's parents, outermost first, without the root and the path itself.
pub(super) fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// The path of an entry for people: printable and of limited length.
pub(super) fn shown(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(&path[..path.len().min(200)]).escape_debug().to_string();
    if path.len() > 200 { format!("{text}…") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_way_to_write_a_path_comes_out_the_same() {
        for raw in ["usr/bin/sh", "/usr/bin/sh", "./usr/bin/sh", "//usr/./bin//sh/", "/./usr/bin/sh/."] {
            assert_eq!(normalise(raw.as_bytes()).unwrap(), b"usr/bin/sh", "{raw}");
        }
        for root in ["", ".", "/", "./", "/./"] {
            assert_eq!(normalise(root.as_bytes()).unwrap(), b"", "{root}");
        }
    }

    #[test]
    fn hostile_paths_are_refused_for_what_they_are() {
        for raw in ["..", "../etc/passwd", "a/../b", "/..", "a/.."] {
            assert_eq!(normalise(raw.as_bytes()), Err(PathFault::Climbs), "{raw}");
        }
        assert_eq!(normalise(b"a\0b"), Err(PathFault::Nul));
        assert_eq!(normalise(&[b'a'; 256]), Err(PathFault::TooLong));
        assert_eq!(normalise("ab/".repeat(1400).as_bytes()), Err(PathFault::TooLong));
        assert!(normalise(&[b'a'; 255]).is_ok());
        assert_eq!(normalise(b"...").unwrap(), b"...");
    }

    #[test]
    fn parents_come_outermost_first() {
        assert_eq!(parents(b"a/b/c").collect::<Vec<_>>(), [&b"a"[..], b"a/b"]);
        assert_eq!(parents(b"a").count(), 0);
    }

    proptest! {
        #[test]
        fn what_passes_can_never_leave_the_root(raw in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'a'), any::<u8>()], 0..600))
        {
            if let Ok(path) = normalise(&raw) {
                prop_assert!(path.len() < PATH_MAX);
                prop_assert!(!path.contains(&0));
                if !path.is_empty() {
                    for name in path.split(|byte| *byte == b'/') {
                        prop_assert!(!name.is_empty() && name != b"." && name != b".." && name.len() <= NAME_MAX);
                    }
                }
                prop_assert_eq!(normalise(&path).unwrap(), path);
            }
        }
    }
}
