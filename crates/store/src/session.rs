//! Writing: objects go into a temporary pack, which is published by `commit`.
//!
//! An object that the store already has is not written again. The session keeps the pack open that has it, so even if a
//! garbage collection removes that pack meanwhile, `commit` can copy the object from it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};
use crate::lease::{Lease, Root};
use crate::limits::PACK_TARGET;
use crate::pack::{IndexEntry, Pack, PackWriter, Packed, decode_pending, encode_object};
use crate::steps::Step;
use crate::store::{Objects, PackSet, Store};

thread_local! {
    static RECORD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A change of the store that is not visible to others yet. Dropping it discards everything. Usable by several threads.
#[derive(Debug)]
pub struct Session {
    store: Store,
    lease: Lease,
    /// The packs when the session began; they stay open.
    packs: Arc<PackSet>,
    /// Objects whose copies in the store are not good.
    distrusted: HashSet<ObjectId>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writer: Option<PackWriter>,
    /// Complete packs that have no final name yet.
    sealed: Vec<(Packed, Arc<Pack>)>,
    /// What this session wrote: the number of the pack, and where in it.
    pending: HashMap<ObjectId, (usize, IndexEntry)>,
    /// What it found in the store.
    hits: HashMap<ObjectId, Arc<Pack>>,
}

impl Session {
    pub(crate) fn new(store: Store) -> Result<Self, StoreError> {
        let lease = Lease::new(&store)?;
        let packs = store.refresh()?;
        Ok(Self { store, lease, packs, distrusted: HashSet::new(), state: Mutex::default() })
    }

    /// Stores these objects again, although the store has copies of them.
    pub(crate) fn distrusting(self, distrusted: HashSet<ObjectId>) -> Self {
        Self { distrusted, ..self }
    }

    /// The store that is written to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Stores an object and returns its identity.
    pub fn put(&self, kind: ObjectKind, raw: &[u8]) -> Result<ObjectId, StoreError> {
        let id = ObjectId::of(kind, raw);
        if !self.has(&id) {
            self.write(id, kind, raw)?;
        }
        Ok(id)
    }

    /// Whether the object is in the store or in this session. From then on the session keeps it.
    pub fn has(&self, id: &ObjectId) -> bool {
        {
            let state = self.state();
            if state.pending.contains_key(id) || state.hits.contains_key(id) {
                return true;
            }
        }
        if self.distrusted.contains(id) {
            return false;
        }
        let Some((pack, _)) = self.packs.find(id) else { return false };
        self.state().hits.insert(*id, pack.clone());
        true
    }

    /// Stores an object even if the store has it already, perhaps damaged.
    pub(crate) fn write(&self, id: ObjectId, kind: ObjectKind, raw: &[u8]) -> Result<(), StoreError> {
        RECORD.with_borrow_mut(|record| {
            record.clear();
            let header = encode_object(id, kind, raw, record)?;
            self.append(header, record)
        })
    }

    pub(crate) fn append(&self, header: crate::pack::RecordHeader, record: &[u8]) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.pending.contains_key(&header.id) {
            return Ok(());
        }
        self.store.step(Step::AppendObject)?;
        if state.writer.as_ref().is_some_and(|writer| writer.len() >= PACK_TARGET) {
            self.seal(&mut state)?;
        }
        let number = state.sealed.len();
        let entry = self.writer(&mut state)?.append(header, record)?;
        state.pending.insert(header.id, (number, entry));
        Ok(())
    }

    fn writer<'s>(&self, state: &'s mut State) -> Result<&'s mut PackWriter, StoreError> {
        // Nobody may look for leftovers between creating the file and locking it.
        let _commit = if state.writer.is_none() { Some(self.store.commit_lock(false)?) } else { None };
        self.writer_locked(state)
    }

    fn writer_locked<'s>(&self, state: &'s mut State) -> Result<&'s mut PackWriter, StoreError> {
        let writer = match state.writer.take() {
            Some(writer) => writer,
            None => {
                self.store.step(Step::CreatePack)?;
                PackWriter::create(&self.store.fresh_path("tmp", ".pack")?)?
            }
        };
        Ok(state.writer.insert(writer))
    }

    fn seal(&self, state: &mut State) -> Result<(), StoreError> {
        if let Some(writer) = state.writer.take() {
            self.store.step(Step::SealPack)?;
            let packed = writer.seal()?;
            let pack = Arc::new(Pack::open(&packed.path)?);
            state.sealed.push((packed, pack));
        }
        Ok(())
    }

    /// Keeps a root that is in the store until the session and its lease end.
    pub fn hold(&mut self, root: Root) -> Result<(), StoreError> {
        self.lease.hold(root)
    }

    /// Publishes everything that was written. The roots, which may refer to objects of this session and of the store, are
    /// kept from garbage collection until the returned lease is dropped: record them first.
    pub fn commit(mut self, roots: &[Root]) -> Result<Lease, StoreError> {
        let _commit = self.store.commit_lock(false)?;
        let mut state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        self.rescue(&mut state)?;
        self.seal(&mut state)?;
        self.lease.record(roots)?;
        let is_empty = state.sealed.is_empty();
        for (packed, _) in state.sealed {
            self.store.step(Step::PublishPack)?;
            publish(&self.store, &packed)?;
        }
        if !is_empty {
            self.store.sync_packs()?;
            self.store.refresh()?;
        }
        Ok(self.lease)
    }

    /// Copies the objects that this session relies on and that a garbage collection has removed since.
    fn rescue(&self, state: &mut State) -> Result<(), StoreError> {
        let now = self.store.refresh()?;
        let names: HashSet<&str> = now.packs.iter().map(|pack| pack.name()).collect();
        for (id, pack) in std::mem::take(&mut state.hits) {
            if names.contains(pack.name()) || now.find(&id).is_some() || state.pending.contains_key(&id) {
                continue;
            }
            let Some(entry) = pack.find(&id)? else { continue };
            let record = pack.checked_record(&entry)?;
            let number = state.sealed.len();
            let entry = self.writer_locked(state)?.append(entry.header, &record)?;
            state.pending.insert(id, (number, entry));
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for Session {
    fn object(&self, kind: ObjectKind, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        let state = self.state();
        if let Some((number, entry)) = state.pending.get(id) {
            return match (state.sealed.get(*number), &state.writer) {
                (Some((_, pack)), _) => pack.read(entry),
                (None, Some(writer)) => decode_pending(entry, writer.read(entry)?, kind),
                (None, None) => Err(StoreError::Missing { kind, id: *id }),
            };
        }
        let hit = state.hits.get(id).cloned();
        drop(state);
        // A collection may have removed the pack that this session relies on.
        if let Some(pack) = hit
            && let Some(entry) = pack.find(id)?
            && entry.header.kind == kind
            && let Ok(bytes) = pack.read(&entry)
        {
            return Ok(bytes);
        }
        self.store.object(kind, id)
    }
}

/// Gives a complete pack its final name.
pub(crate) fn publish(store: &Store, packed: &Packed) -> Result<(), StoreError> {
    let name = packed.path.file_name().unwrap_or_default();
    let path = store.root().join("packs").join(name);
    fs::rename(&packed.path, &path).map_err(StoreError::io("create", &path))
}
