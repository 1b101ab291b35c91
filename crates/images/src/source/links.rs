//! Symbolic links among the parents of a path, followed without a file system.

use super::PathFault;
use super::path::PATH_MAX;

/// How many links Linux follows before it suspects a loop.
const LINKS_MAX: usize = 40;

/// Follows the symbolic links above the last name of a normalised path, as a process would whose root is the tree
/// that `link` knows: absolute targets start at that root, and `..` never leads out of it.
///
/// The last name itself is kept: it is what an entry is about.
pub(super) fn follow_parents<'t>(
    path: &[u8],
    link: impl Fn(&[u8]) -> Option<&'t [u8]>,
) -> Result<Vec<u8>, PathFault> {
    let Some(last_slash) = path.iter().rposition(|byte| *byte == b'/') else { return Ok(path.to_vec()) };
    let mut here = Vec::with_capacity(path.len());
    let mut ahead: Vec<&[u8]> = names(&path[..last_slash]).rev().collect();
    let mut followed = 0;
    while let Some(name) = ahead.pop() {
        match name {
            b"" | b"." => continue,
            b".." => {
                here.truncate(parent_length(&here));
                continue;
            }
            _ => push(&mut here, name)?,
        }
        let Some(target) = link(&here) else { continue };
        followed += 1;
        if followed > LINKS_MAX {
            return Err(PathFault::TooManyLinks);
        }
        here.truncate(if target.starts_with(b"/") { 0 } else { parent_length(&here) });
        ahead.extend(names(target).rev());
    }
    push(&mut here, &path[last_slash + 1..])?;
    Ok(here)
}

fn names(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/')
}

/// How much of a path is its parent.
pub(super) fn parent_length(path: &[u8]) -> usize {
    path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)
}

fn push(path: &mut Vec<u8>, name: &[u8]) -> Result<(), PathFault> {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    if path.len() < PATH_MAX { Ok(()) } else { Err(PathFault::TooLong) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::normalise;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn follow(path: &str, links: &[(&str, &str)]) -> Result<String, PathFault> {
        let links: BTreeMap<&[u8], &[u8]> =
            links.iter().map(|(from, to)| (from.as_bytes(), to.as_bytes())).collect();
        let followed = follow_parents(path.as_bytes(), |at| links.get(at).copied())?;
        Ok(String::from_utf8(followed).unwrap())
    }

    #[test]
    fn parents_are_followed_and_the_last_name_is_not() {
        let merged = [("bin", "usr/bin"), ("lib", "/usr/lib"), ("usr/bin/sh", "dash")];
        assert_eq!(follow("bin/sh", &merged).unwrap(), "usr/bin/sh");
        assert_eq!(follow("lib/x/y", &merged).unwrap(), "usr/lib/x/y");
        assert_eq!(follow("bin", &merged).unwrap(), "bin");
        assert_eq!(follow("etc/passwd", &merged).unwrap(), "etc/passwd");
    }

    #[test]
    fn links_lead_through_links_and_upwards_but_never_out() {
        let links = [("a", "b/c"), ("b", "/d"), ("d/c", "../e"), ("out", "../../../../etc"), ("here", ".")];
        assert_eq!(follow("a/x", &links).unwrap(), "e/x");
        assert_eq!(follow("out/passwd", &links).unwrap(), "etc/passwd");
        assert_eq!(follow("here/here/x", &links).unwrap(), "x");
    }

    #[test]
    fn loops_and_endless_growth_are_refused() {
        assert_eq!(follow("a/x", &[("a", "b"), ("b", "a")]), Err(PathFault::TooManyLinks));
        assert_eq!(follow("a/x", &[("a", "a/a")]), Err(PathFault::TooManyLinks));
        let long = "n/".repeat(2000);
        assert_eq!(follow("a/x", &[("a", &long), (&format!("{long}n"), &long)]), Ok(format!("{long}x")));
        assert_eq!(follow(&format!("a/{}/x", "m".repeat(200)), &[("a", &long)]), Err(PathFault::TooLong));
    }

    proptest! {
        #[test]
        fn whatever_the_links_say_the_result_is_a_plain_path_inside(
            path in "[abc](/[abc]){0,4}",
            links in proptest::collection::btree_map("[abc](/[abc]){0,2}", "/?([abc.]|\\.\\.)(/([abc.]|\\.\\.)){0,3}", 0..8),
        ) {
            let look_up = |at: &[u8]| {
                links.get(std::str::from_utf8(at).unwrap()).map(|target: &String| target.as_bytes())
            };
            if let Ok(followed) = follow_parents(path.as_bytes(), look_up) {
                prop_assert_eq!(normalise(&followed).unwrap(), followed.clone());
                prop_assert_eq!(follow_parents(&followed, look_up).unwrap(), followed);
            }
        }
    }
}
