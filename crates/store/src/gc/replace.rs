//! Replaces packs by others that have only some of their objects.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;

use crate::error::StoreError;
use crate::id::ObjectId;
use crate::limits::PACK_TARGET;
use crate::locks::Lock;
use crate::pack::{Pack, PackWriter, Packed};
use crate::session::publish;
use crate::steps::Step;
use crate::store::Store;

/// Copies objects out of packs that are to be removed. The caller holds the gc lock.
pub(crate) struct Replacement<'s> {
    store: &'s Store,
    doomed: Vec<Arc<Pack>>,
    writer: Option<PackWriter>,
    sealed: Vec<Packed>,
    copied: HashSet<ObjectId>,
    /// Packs that stay because one of their objects is damaged and has no other copy.
    pub(crate) damaged: Vec<String>,
}

impl<'s> Replacement<'s> {
    pub(crate) fn new(store: &'s Store, doomed: Vec<Arc<Pack>>) -> Self {
        Self { store, doomed, writer: None, sealed: Vec::new(), copied: HashSet::new(), damaged: Vec::new() }
    }

    /// Copies the objects that are wanted and were not copied before. Returns how many.
    pub(crate) fn copy(&mut self, is_wanted: impl Fn(&ObjectId) -> bool) -> Result<u64, StoreError> {
        let mut count = 0;
        for pack in std::mem::take(&mut self.doomed) {
            self.store.step(Step::CopyLive)?;
            match self.copy_pack(&pack, &is_wanted) {
                Ok(copied) => {
                    count += copied;
                    self.doomed.push(pack);
                }
                Err(error) if error.is_damage() => self.damaged.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn copy_pack(&mut self, pack: &Pack, is_wanted: impl Fn(&ObjectId) -> bool) -> Result<u64, StoreError> {
        let mut entries = pack.entries()?;
        entries.retain(|entry| is_wanted(&entry.header.id) && !self.copied.contains(&entry.header.id));
        // In the order of the file: neighbours stay neighbours.
        entries.sort_unstable_by_key(|entry| entry.offset);
        for entry in &entries {
            let record = match pack.checked_record(entry) {
                Ok(record) => record,
                Err(error) if error.is_damage() && self.has_other_copy(pack, &entry.header.id) => continue,
                Err(error) => return Err(error),
            };
            let writer = match &mut self.writer {
                Some(writer) => writer,
                slot => {
                    self.store.step(Step::CreatePack)?;
                    // Only a holder of the gc lock removes leftovers, and this is one.
                    slot.insert(PackWriter::create(&self.store.fresh_path("tmp", ".pack")?)?)
                }
            };
            writer.append(entry.header, &record)?;
            self.copied.insert(entry.header.id);
            if writer.len() >= PACK_TARGET {
                self.seal()?;
            }
        }
        Ok(entries.len() as u64)
    }

    /// Whether another pack has the object, undamaged.
    fn has_other_copy(&self, pack: &Pack, id: &ObjectId) -> bool {
        let set = self.store.packs();
        set.packs.iter().filter(|other| other.name() != pack.name()).any(|other| {
            other.find(id).ok().flatten().is_some_and(|entry| other.checked_record(&entry).is_ok())
        })
    }

    fn seal(&mut self) -> Result<(), StoreError> {
        if let Some(writer) = self.writer.take() {
            self.store.step(Step::SealPack)?;
            self.sealed.push(writer.seal()?);
        }
        Ok(())
    }

    /// Flushes what was copied so far, so that little is left to do under the commit lock.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        self.writer.as_mut().map_or(Ok(()), PackWriter::sync)
    }

    /// Publishes the new packs and removes the old ones; returns the number of those and of their objects. Needs the
    /// commit lock, exclusively.
    pub(crate) fn finish(mut self, _commit: &Lock) -> Result<(u64, u64), StoreError> {
        self.seal()?;
        for packed in &self.sealed {
            self.store.step(Step::PublishPack)?;
            publish(self.store, packed)?;
        }
        if !self.sealed.is_empty() {
            self.store.sync_packs()?;
        }
        let mut objects = 0;
        for pack in &self.doomed {
            self.store.step(Step::RemovePack)?;
            fs::remove_file(pack.path()).map_err(StoreError::io("remove", pack.path()))?;
            objects += pack.count();
        }
        self.store.refresh()?;
        Ok((self.doomed.len() as u64, objects))
    }
}
