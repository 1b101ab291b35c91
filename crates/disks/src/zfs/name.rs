//! Checked names of datasets. Only these types are passed to `zfs`, so it cannot touch anything else.
//!
//! ```text
//! tank/agentiso                         the dataset of the configuration, marked as ours
//! tank/agentiso/0123456789abcdef        one installation's part of it
//! tank/agentiso/0123456789abcdef/VOLUME one disk
//! tank/agentiso/…/VOLUME@TAG            what another disk was cloned from
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use agentiso_core::ports::{Dataset, is_dataset_component};

const LONGEST_LEAF: usize = 100;
const HOME_DIGITS: usize = 16;
const NODES: &str = "/dev/zvol";

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

/// The volumes and snapshots of a dataset.
pub(super) trait Volumes {
    /// The name of the dataset below which one installation keeps its volumes.
    fn part(&self, home: &HomeId) -> String;
    /// A volume of an installation; `None` if that is not a valid name.
    fn volume(&self, home: &HomeId, leaf: &str) -> Option<Volume>;
    /// The volume of that name, if it is below this dataset.
    fn volume_named(&self, name: &str) -> Option<Volume>;
    /// The volume of a device, if it is below this dataset.
    fn volume_at(&self, node: &Path) -> Option<Volume>;
    /// The snapshot of that name, if its volume is below this dataset.
    fn snapshot_named(&self, name: &str) -> Option<Snapshot>;
}

impl Volumes for Dataset {
    fn part(&self, home: &HomeId) -> String {
        format!("{}/{}", self.as_str(), home.0)
    }

    fn volume(&self, home: &HomeId, leaf: &str) -> Option<Volume> {
        let is_leaf = leaf.len() <= LONGEST_LEAF && is_dataset_component(leaf);
        is_leaf.then(|| Volume { name: format!("{}/{leaf}", self.part(home)), home: home.clone() })
    }

    fn volume_named(&self, name: &str) -> Option<Volume> {
        let inside = name.strip_prefix(self.as_str())?.strip_prefix('/')?;
        let (home, leaf) = inside.split_once('/')?;
        self.volume(&HomeId::parse(home)?, leaf)
    }

    fn volume_at(&self, node: &Path) -> Option<Volume> {
        self.volume_named(node.to_str()?.strip_prefix(NODES)?.strip_prefix('/')?)
    }

    fn snapshot_named(&self, name: &str) -> Option<Snapshot> {
        let (volume, tag) = name.split_once('@')?;
        let is_tag = tag.len() <= LONGEST_LEAF && is_dataset_component(tag);
        Some(Snapshot { volume: self.volume_named(volume)?, tag: is_tag.then(|| tag.to_owned())? })
    }
}

/// The configured dataset of a name.
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
    /// A new, unused name.
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

/// Sixteen random hexadecimal digits.
pub(super) fn random_digits() -> std::io::Result<String> {
    let mut bytes = [0; HOME_DIGITS / 2];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
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
