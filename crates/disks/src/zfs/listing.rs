//! Listing the dataset, with one call.

use std::collections::BTreeMap;

use agentiso_core::ports::{Dataset, ZpoolError};

use super::name::{Snapshot, Volume, Volumes};
use super::tool::zfs;

/// The property of a volume that names its link.
pub(super) const LINK: &str = "agentiso:link";

const COLUMNS: &str = "type,name,origin,clones,createtxg,usedbydataset,used,referenced,agentiso:link";

/// Our volumes and snapshots. Others, recognised by their names, are left out.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Listing {
    pub volumes: BTreeMap<Volume, VolumeRow>,
    pub snapshots: BTreeMap<Snapshot, SnapshotRow>,
}

/// A volume.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct VolumeRow {
    /// The snapshot it was cloned from.
    pub origin: Option<Snapshot>,
    /// The path of its link when the volume was created.
    pub link: Option<String>,
    /// Bytes that only it uses, without its snapshots.
    pub own: u64,
    /// Bytes that can be read through it.
    pub referenced: u64,
}

/// A snapshot.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SnapshotRow {
    /// The transaction group of its creation, which orders the snapshots of a volume.
    pub created: u64,
    /// Bytes that only it uses.
    pub own: u64,
    /// Whether it has clones outside of our dataset.
    pub has_strangers: bool,
}

impl Listing {
    /// Lists everything.
    pub(super) fn read(dataset: &Dataset) -> Result<Self, ZpoolError> {
        let name = dataset.as_str();
        let printed =
            zfs("list", name).run(&["list", "-Hpr", "-t", "volume,snapshot", "-o", COLUMNS, name])?;
        Self::parse(dataset, &printed).ok_or_else(|| ZpoolError::Failed {
            doing: "list",
            name: name.to_owned(),
            said: "it printed something else than was asked for".to_owned(),
        })
    }

    /// Parses the output. `None` if it has another format; unknown names are left out.
    fn parse(dataset: &Dataset, printed: &str) -> Option<Self> {
        let mut listing = Self::default();
        for line in printed.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [kind, name, origin, clones, created, own, used, referenced, link] = fields[..] else {
                return None;
            };
            match kind {
                "volume" => {
                    let Some(volume) = dataset.volume_named(name) else { continue };
                    let row = VolumeRow {
                        origin: dataset.snapshot_named(origin),
                        link: (link != "-").then(|| link.to_owned()),
                        own: own.parse().ok()?,
                        referenced: referenced.parse().ok()?,
                    };
                    listing.volumes.insert(volume, row);
                }
                "snapshot" => {
                    let Some(snapshot) = dataset.snapshot_named(name) else { continue };
                    let mut clones = clones.split(',').filter(|name| !matches!(*name, "" | "-"));
                    let row = SnapshotRow {
                        created: created.parse().ok()?,
                        own: used.parse().ok()?,
                        has_strangers: clones.any(|name| dataset.volume_named(name).is_none()),
                    };
                    listing.snapshots.insert(snapshot, row);
                }
                _ => return None,
            }
        }
        Some(listing)
    }

    /// Bytes that removing a volume would free.
    pub(super) fn freed_by_removal(&self, volume: &Volume) -> Option<u64> {
        let row = self.volumes.get(volume)?;
        let clones_of = |snapshot: &Snapshot| {
            self.volumes.values().filter(|row| row.origin.as_ref() == Some(snapshot)).count()
        };
        // A clone takes over the shared data.
        let has_heirs = self.snapshots.keys().any(|one| one.volume == *volume && clones_of(one) > 0);
        let origin = row.origin.as_ref().filter(|origin| !has_heirs && clones_of(origin) == 1);
        let origin = origin.and_then(|origin| self.snapshots.get(origin)).filter(|row| !row.has_strangers);
        Some(row.own + origin.map_or(0, |row| row.own))
    }

    /// Bytes that can be read through a volume.
    pub(super) fn referenced(&self, volume: &Volume) -> Option<u64> {
        self.volumes.get(volume).map(|row| row.referenced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dataset() -> Dataset {
        Dataset::parse("tank/a").unwrap()
    }

    fn volume(leaf: &str) -> Volume {
        dataset().volume_named(&format!("tank/a/0123456789abcdef/{leaf}")).unwrap()
    }

    const H: &str = "tank/a/0123456789abcdef";

    #[test]
    fn volumes_snapshots_and_strangers_are_read() {
        let printed = format!(
            "volume\t{H}/a\t-\t\t5\t8192\t9000\t4096\tdisks/a.zvol\n\
             volume\t{H}/b\t{H}/a@t\t\t6\t100\t100\t4096\t-\n\
             volume\ttank/a/other\t-\t\t5\t8192\t9000\t4096\t-\n\
             snapshot\t{H}/a@t\t-\t{H}/b\t6\t-\t700\t4096\t-\n\
             snapshot\t{H}/a@u\t-\t{H}/b,tank/mine\t7\t-\t0\t4096\t-\n"
        );
        let listing = Listing::parse(&dataset(), &printed).unwrap();
        assert_eq!(listing.volumes.len(), 2);
        assert_eq!(listing.volumes[&volume("a")].link.as_deref(), Some("disks/a.zvol"));
        let strangers: Vec<bool> = listing.snapshots.values().map(|row| row.has_strangers).collect();
        assert_eq!(strangers, [false, true]);
        // Of `b`, its own and what only the snapshot under it has; of `a`, its own: `b` inherits the rest.
        assert_eq!(listing.freed_by_removal(&volume("b")), Some(800));
        assert_eq!(listing.freed_by_removal(&volume("a")), Some(8192));
        assert_eq!(listing.freed_by_removal(&volume("c")), None);
    }

    #[test]
    fn something_else_is_no_listing() {
        for printed in ["volume\n", "filesystem\ttank\t-\t\t5\t1\t1\t1\t-\n", "no datasets available\n"] {
            assert_eq!(Listing::parse(&dataset(), printed), None, "{printed:?}");
        }
        let odd = format!("volume\t{H}/a\t-\t\t5\tmany\t9000\t4096\t-\n");
        assert_eq!(Listing::parse(&dataset(), &odd), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(printed in "((volume|snapshot|x)(\t(tank/a/0123456789abcdef/[a@.-]{1,4}|-|[0-9]{0,25}|)){7,9}\n|\\PC*\n?){0,6}") {
            let _ = Listing::parse(&dataset(), &printed);
        }

        #[test]
        fn what_zfs_prints_is_read_back(rows in proptest::collection::btree_map("[a-z][a-z0-9.-]{0,10}", (any::<u64>(), any::<u64>()), 0..8)) {
            let printed: String =
                rows.iter().map(|(leaf, (own, referenced))| format!("volume\t{H}/{leaf}\t-\t\t5\t{own}\t1\t{referenced}\t-\n")).collect();
            let listing = Listing::parse(&dataset(), &printed).unwrap();
            prop_assert_eq!(listing.volumes.len(), rows.len());
            for (leaf, (own, referenced)) in rows {
                prop_assert_eq!(listing.freed_by_removal(&volume(&leaf)), Some(own));
                prop_assert_eq!(listing.referenced(&volume(&leaf)), Some(referenced));
            }
        }
    }
}
