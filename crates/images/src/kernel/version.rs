//! Ordering kernels by version.

use std::cmp::Ordering;

/// Prefixes of versions that boot but are known to break guests.
///
/// Debian's 6.1.192: while a file grows and memory is short, ext4 follows a null pointer (in `ext4_mb_load_buddy_gfp`),
/// and all writers to the disk hang from then on.
const BROKEN: [&str; 1] = ["6.1.0-55-"];

/// Whether this version is known to break guests.
pub(super) fn is_broken(version: &str) -> bool {
    BROKEN.iter().any(|start| version.starts_with(start))
}

/// Orders versions by preference: broken ones first, otherwise older before newer.
pub(super) fn by_worth(a: &str, b: &str) -> Ordering {
    is_broken(b).cmp(&is_broken(a)).then_with(|| by_version(a, b))
}

/// Orders versions numerically: 6.9 before 6.12.
pub(super) fn by_version(a: &str, b: &str) -> Ordering {
    numbers(a).cmp(&numbers(b)).then_with(|| a.cmp(b))
}

/// Replacements for a version, best first: of the same series and flavour, and not broken.
pub(super) fn instead_of<'a>(version: &str, others: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let kind = kind(version);
    let mut fit: Vec<&str> =
        others.filter(|other| kind.is_some() && self::kind(other) == kind && !is_broken(other)).collect();
    fit.sort_by(|a, b| by_version(b, a));
    fit
}

/// Series and flavour: `6.1.0` and `cloud-amd64` of `6.1.0-55-cloud-amd64`.
fn kind(version: &str) -> Option<(&str, &str)> {
    let (series, rest) = version.split_once('-')?;
    let (number, flavour) = rest.split_once('-')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some((series, flavour))
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_later_whatever_their_digits() {
        assert_eq!(by_version("6.9.1-x", "6.12.0-x"), Ordering::Less);
        assert_eq!(by_version("6.1.0-54-cloud", "6.1.0-9-cloud"), Ordering::Greater);
    }

    #[test]
    fn a_broken_kernel_is_worth_less_than_an_older_one() {
        assert_eq!(by_worth("6.1.0-55-cloud-amd64", "6.1.0-9-cloud-amd64"), Ordering::Less);
        assert_eq!(by_worth("6.1.0-56-cloud-amd64", "6.1.0-54-cloud-amd64"), Ordering::Greater);
        assert!(!is_broken("6.1.0-5-cloud-amd64") && is_broken("6.1.0-55-amd64"));
    }

    #[test]
    fn another_kernel_of_its_kind_takes_the_place_of_a_broken_one() {
        let known = [
            "6.1.0-9-cloud-amd64",
            "6.1.0-54-cloud-amd64",
            "6.1.0-54-amd64",
            "6.1.0-54-cloud-amd64-dbg",
            "6.1.0-55-cloud-amd64",
            "6.12.115+deb12-cloud-amd64",
            "cloud-amd64",
        ];
        let instead = instead_of("6.1.0-55-cloud-amd64", known.into_iter());
        assert_eq!(instead, ["6.1.0-54-cloud-amd64", "6.1.0-9-cloud-amd64"]);
        assert!(instead_of("odd", known.into_iter()).is_empty());
    }
}
