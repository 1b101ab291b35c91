//! The directory in which a command starts.

use super::RequestError;

/// The longest component of a path.
const MAX_NAME: usize = 255;
/// The longest path.
const MAX_PATH: usize = 4096;

/// Resolves a directory of the vault without looking at it: `/` is the top, relative paths begin there. One that leads
/// above the top is refused, not cut off.
pub fn normal_cwd(given: &str) -> Result<String, RequestError> {
    let refused = |reason| Err(RequestError::Cwd { cwd: given.chars().take(200).collect(), reason });
    if given.len() > MAX_PATH {
        return refused("is too long");
    }
    if given.contains('\0') {
        return refused("contains a NUL character");
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in given.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.pop().is_none() => return refused("leads out of the vault"),
            ".." => {}
            long if long.len() > MAX_NAME => return refused("has a name that is too long"),
            other => parts.push(other),
        }
    }
    Ok(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn directories_are_resolved_within_the_vault() {
        for (given, normal) in [
            ("/", "/"),
            ("", "/"),
            ("src", "/src"),
            ("/a//b/./c/", "/a/b/c"),
            ("/a/b/../c", "/a/c"),
            ("a/..", "/"),
        ] {
            assert_eq!(normal_cwd(given).as_deref(), Ok(normal), "{given}");
        }
    }

    #[test]
    fn a_directory_outside_is_refused() {
        for given in ["..", "/..", "/../../x", "a/../..", "/a/b/../../../c", "./.."] {
            assert!(matches!(normal_cwd(given), Err(RequestError::Cwd { .. })), "{given}");
        }
        normal_cwd("a\0b").unwrap_err();
        normal_cwd(&"x".repeat(256)).unwrap_err();
    }

    proptest! {
        #[test]
        fn what_is_accepted_has_no_dots_left(given in "[./ab]{0,16}") {
            if let Ok(normal) = normal_cwd(&given) {
                prop_assert!(normal.starts_with('/'));
                prop_assert!(normal.split('/').all(|part| part != "." && part != ".."));
            }
        }
    }
}
