//! What datasets may be called. Whatever is handed to `zfs` is one of these, so nothing else can be meant.
//!
//! ```text
//! tank/agentiso                         the dataset of the configuration, marked as ours
//! tank/agentiso/0123456789abcdef        one installation's part of it
//! tank/agentiso/0123456789abcdef/VOLUME one disk
//! tank/agentiso/…/VOLUME@TAG            what another disk was cloned from
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use agentiso_core::ports::PoolError;

/// ZFS takes 255 bytes; what is derived needs the rest.
const LONGEST_DATASET: usize = 100;
const LONGEST_LEAF: usize = 100;
const HOME_DIGITS: usize = 16;
const NODES: &str = "/dev/zvol";

/// The dataset that holds everything of ours.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dataset(String);

/// One installation's part of the dataset.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct HomeId(String);

/// A volume in our dataset.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Volume {
    name: String,
    home: HomeId,
}

/// A snapshot of such a volume.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Snapshot {
    pub volume: Volume,
    pub tag: String,
}

impl Dataset {
    /// Checks a name from the configuration or the command line.
    pub fn parse(name: &str) -> Result<Self, PoolError> {
        let bad = |reason| Err(PoolError::BadName { name: name.to_owned(), reason });
        let parts: Vec<&str> = name.split('/').collect();
        if name.len() > LONGEST_DATASET {
            return bad("the name is too long");
        }
        if !parts.iter().all(|part| is_component(part)) {
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

    /// The dataset `agentiso init` makes in a pool.
    pub fn in_pool(pool: &str) -> Result<Self, PoolError> {
        if pool.contains('/') {
            let reason = "a pool's name has no '/'";
            return Err(PoolError::BadName { name: pool.to_owned(), reason });
        }
        Self::parse(&format!("{pool}/agentiso"))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The pool it is in.
    pub fn pool(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The name of one installation's part.
    pub(super) fn part(&self, home: &HomeId) -> String {
        format!("{}/{}", self.0, home.0)
    }

    /// A volume of an installation; `None` if it cannot be called so.
    pub(super) fn volume(&self, home: &HomeId, leaf: &str) -> Option<Volume> {
        let is_leaf = leaf.len() <= LONGEST_LEAF && is_component(leaf);
        is_leaf.then(|| Volume { name: format!("{}/{leaf}", self.part(home)), home: home.clone() })
    }

    /// The volume of that name, if it can be one of ours.
    pub(super) fn volume_named(&self, name: &str) -> Option<Volume> {
        let inside = name.strip_prefix(&self.0)?.strip_prefix('/')?;
        let (home, leaf) = inside.split_once('/')?;
        self.volume(&HomeId::parse(home)?, leaf)
    }

    /// The volume whose device that is, if it can be one of ours.
    pub(super) fn volume_at(&self, node: &Path) -> Option<Volume> {
        self.volume_named(node.to_str()?.strip_prefix(NODES)?.strip_prefix('/')?)
    }

    /// The snapshot of that name, if it can be of a volume of ours.
    pub(super) fn snapshot_named(&self, name: &str) -> Option<Snapshot> {
        let (volume, tag) = name.split_once('@')?;
        let is_tag = tag.len() <= LONGEST_LEAF && is_component(tag);
        Some(Snapshot { volume: self.volume_named(volume)?, tag: is_tag.then(|| tag.to_owned())? })
    }
}

/// The dataset of the configuration in which something of ours is.
pub(super) fn dataset_of(name: &str) -> &str {
    let name = name.split('@').next().unwrap_or_default();
    let mut end = 0;
    for part in name.split('/') {
        if HomeId::parse(part).is_some() {
            return name[..end].trim_end_matches('/');
        }
        end += part.len() + 1;
    }
    name
}

impl HomeId {
    /// One that nobody has.
    pub(super) fn random() -> std::io::Result<Self> {
        Ok(Self(random_digits()?))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let digits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (text.len() == HOME_DIGITS && text.bytes().all(digits)).then(|| Self(text.to_owned()))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Volume {
    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    pub(super) fn home(&self) -> &HomeId {
        &self.home
    }

    /// Its device.
    pub(super) fn node(&self) -> PathBuf {
        Path::new(NODES).join(&self.name)
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.volume.name, self.tag)
    }
}

/// Sixteen digits that nobody else has drawn.
pub(super) fn random_digits() -> std::io::Result<String> {
    let mut bytes = [0; HOME_DIGITS / 2];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

fn is_component(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphanumeric())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_dataset_is_found_from_whatever_is_in_it() {
        let part = "tank/a/0123456789abcdef";
        for name in ["tank/a", part, &format!("{part}/disk.1"), &format!("{part}/disk.1@tag")] {
            assert_eq!(dataset_of(name), "tank/a", "{name}");
        }
    }

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

    #[test]
    fn only_what_is_in_our_dataset_is_a_volume_of_ours() {
        let dataset = Dataset::parse("tank/agentiso").unwrap();
        let ours = "tank/agentiso/0123456789abcdef/disk.1";
        assert_eq!(dataset.volume_named(ours).unwrap().as_str(), ours);
        let node = dataset.volume_named(ours).unwrap().node();
        assert_eq!(dataset.volume_at(&node), dataset.volume_named(ours));
        assert_eq!(dataset.snapshot_named(&format!("{ours}@t")).unwrap().to_string(), format!("{ours}@t"));
        for name in [
            "tank/agentiso",
            "tank/agentiso/0123456789abcdef",
            "tank/agentiso/0123456789abcdef/",
            "tank/agentiso/0123456789abcdeF/x",
            "tank/agentiso/short/x",
            "tank/agentiso2/0123456789abcdef/x",
            "tank/agentiso/0123456789abcdef/x/y",
            "tank/agentiso/0123456789abcdef/../x",
            "tank/agentiso/0123456789abcdef/..",
            "tank/agentiso/0123456789abcdef/-r",
            "tank/agentiso/0123456789abcdef/x@y",
            "tank/home",
        ] {
            assert_eq!(dataset.volume_named(name), None, "{name}");
        }
        assert_eq!(dataset.volume_at(Path::new("/dev/zvol/tank/agentiso/../home/x")), None);
        assert_eq!(dataset.volume_at(Path::new("/dev/sda")), None);
    }

    proptest! {
        #[test]
        fn whatever_passes_lies_strictly_inside_the_dataset(name in "[a-z0-9/@#., -]{0,40}|tank/a/[0-9a-f]{16}/.{0,8}") {
            let dataset = Dataset::parse("tank/a").unwrap();
            if let Some(volume) = dataset.volume_named(&name) {
                prop_assert_eq!(volume.as_str(), &name);
                prop_assert!(name.starts_with("tank/a/") && name.split('/').count() == 4);
                prop_assert!(!name.contains(['@', '#', ' ', ',']) && !name.contains("/.") && !name.contains("/-"));
            }
        }
    }
}
