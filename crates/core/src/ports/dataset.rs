//! The name of the ZFS dataset for disks.

use super::ZpoolError;

/// The longest name. ZFS allows 255 bytes, of which the names of volumes and snapshots need the rest.
const LONGEST_DATASET: usize = 100;

/// The name of the ZFS dataset for all disks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dataset(String);

impl Dataset {
    /// Checks a name from the configuration or the command line.
    pub fn parse(name: &str) -> Result<Self, ZpoolError> {
        let bad = |reason| Err(ZpoolError::BadName { name: name.to_owned(), reason });
        let parts: Vec<&str> = name.split('/').collect();
        if name.len() > LONGEST_DATASET {
            return bad("the name is too long");
        }
        if !parts.iter().all(|part| is_dataset_component(part)) {
            return bad(
                "the parts of a name are letters, digits, '_', '-', '.' and ':', after a letter or digit",
            );
        }
        if !parts[0].starts_with(|first: char| first.is_ascii_alphabetic()) {
            return bad("the name of a pool begins with a letter");
        }
        if parts.len() < 2 {
            return bad("it is a whole pool");
        }
        Ok(Self(name.to_owned()))
    }

    /// The dataset that `agentiso init` creates in a zpool.
    pub fn in_pool(pool: &str) -> Result<Self, ZpoolError> {
        if pool.contains('/') {
            let reason = "a pool's name has no '/'";
            return Err(ZpoolError::BadName { name: pool.to_owned(), reason });
        }
        Self::parse(&format!("{pool}/agentiso"))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its zpool.
    pub fn pool(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }
}

/// Whether a string is a valid component of the name of a dataset, volume or snapshot.
pub fn is_dataset_component(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphanumeric())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_of_its_own_is_accepted() {
        for name in ["tank/agentiso", "rpool/data/vm.disks:1", "t/a"] {
            assert_eq!(Dataset::parse(name).unwrap().as_str(), name);
        }
        assert_eq!(Dataset::in_pool("tank").unwrap().as_str(), "tank/agentiso");
        assert_eq!(Dataset::parse("tank/a/b").unwrap().pool(), "tank");
    }

    #[test]
    fn hostile_names_are_refused_at_the_door() {
        for name in [
            "",
            "tank",
            "tank/",
            "/tank/a",
            "tank//a",
            "tank/..",
            "tank/../x",
            "tank/.",
            "tank/a/../../b",
            "tank/a@b",
            "tank/a#b",
            "-o x",
            "-r",
            "tank/-r",
            "tank/agentiso ",
            " tank/a",
            "tank/a b",
            "tank/a\n",
            "tank/a\0",
            "tank/ä",
            "tank/a%recv",
            "tank/a,b",
            "1tank/a",
            "tank/a;reboot",
        ] {
            assert!(Dataset::parse(name).is_err(), "{name:?}");
        }
        assert!(Dataset::parse(&format!("tank/{}", "a".repeat(100))).is_err());
        for pool in ["", "tank/a", "-f", "tank ", "..", "a@b"] {
            assert!(Dataset::in_pool(pool).is_err(), "{pool:?}");
        }
    }
}
