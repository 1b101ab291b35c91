//! Reads every object.

use std::collections::HashSet;

use super::affected::{self, Affected};
use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};
use crate::lease::Root;
use crate::store::Store;

/// A copy of an object, or a whole pack, that is damaged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Damage {
    /// Name of the pack.
    pub pack: String,
    /// The object; nothing if the pack cannot be used at all.
    pub object: Option<(ObjectKind, ObjectId)>,
    /// What is wrong.
    pub reason: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FsckReport {
    /// Packs that were read.
    pub packs: u64,
    /// Objects that were read, counted once for each copy.
    pub objects: u64,
    /// Everything that is damaged.
    pub damage: Vec<Damage>,
    /// Objects that a root needs and that have no good copy, with the paths that need them.
    pub affected: Vec<Affected>,
}

impl FsckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.affected.is_empty()
    }
}

/// Reads and hashes every object, and looks for what the named roots need. Changes nothing.
pub fn check(store: &Store, roots: &[(String, Root)]) -> Result<FsckReport, StoreError> {
    let mut report = FsckReport::default();
    let good = read_all(store, &mut report)?;
    report.affected = affected::find(store, &good, roots)?;
    Ok(report)
}

/// Reads all packs; returns the objects that have a good copy.
pub(super) fn read_all(store: &Store, report: &mut FsckReport) -> Result<HashSet<ObjectId>, StoreError> {
    let set = store.refresh()?;
    let mut good = HashSet::new();
    for (path, error) in &set.damaged {
        let pack = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        report.damage.push(Damage { pack, object: None, reason: reason(error) });
    }
    for pack in &set.packs {
        report.packs += 1;
        let entries = match pack.verify_index().and_then(|()| pack.entries()) {
            Ok(entries) => entries,
            Err(error) if error.is_damage() => {
                let pack = pack.name().to_owned();
                report.damage.push(Damage { pack, object: None, reason: reason(&error) });
                continue;
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            report.objects += 1;
            let error = match pack.read(&entry) {
                Ok(_) => {
                    good.insert(entry.header.id);
                    continue;
                }
                // A block of the disk that cannot be read is damage of this object, not the end of the check.
                Err(error) => error,
            };
            let object = Some((entry.header.kind, entry.header.id));
            report.damage.push(Damage { pack: pack.name().to_owned(), object, reason: reason(&error) });
        }
    }
    Ok(good)
}

fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { reason, .. } => reason.clone(),
        StoreError::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
