//! One working directory.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentiso_store::{Lease, Root, TreeId};

use super::dirs::{OLD, WorkDirs, missing};
use super::stamp::{is_empty, stamp};
use super::state::{Kind, State};
use crate::error::MountError;
use crate::files::{names, remove_tree, wait_lock};
use crate::layouts::Base;
use crate::overlay::Overlay;

/// How the files of a working directory are reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Access {
    /// By mounting these layers.
    Overlay(Overlay),
    /// They are in this directory.
    Directory(PathBuf),
}

/// A working directory. Others cannot take it while this lives; dropping it leaves it on disk with its changes.
#[derive(Debug)]
pub struct WorkDir {
    pub(crate) dirs: WorkDirs,
    name: String,
    /// Nothing if another process holds it.
    hold: Option<File>,
    state: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    state: State,
    base: Option<Base>,
    /// Keeps the tree below the writable layer in the store.
    _lease: Lease,
}

impl WorkDir {
    pub(super) fn new(dirs: WorkDirs, name: String, state: State, hold: Option<File>, lease: Lease) -> Self {
        Self { dirs, name, hold, state: Mutex::new(Held { state, base: None, _lease: lease }) }
    }

    /// The name by which it is found again.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its creator called it.
    pub fn label(&self) -> String {
        self.held().state.label.clone()
    }

    /// The tree below the writable layer.
    pub fn tree(&self) -> TreeId {
        self.held().state.tree
    }

    /// The tree that was read from it last, by any process; the one below at first.
    pub fn current(&self) -> Result<TreeId, MountError> {
        Ok(self.read_state()?.current)
    }

    /// How the layers are joined; never `Auto`.
    pub fn kind(&self) -> Kind {
        self.held().state.kind
    }

    /// The directory with the changes: the writable layer, or the plain directory.
    pub fn writable(&self) -> PathBuf {
        let writable = self.held().state.writable();
        self.path().join(writable)
    }

    /// How its files are reached. Makes the lower layers if they are gone, and leases them for as long as this lives.
    pub fn access(&self) -> Result<Access, MountError> {
        let mut held = self.held();
        let directory = self.path();
        let writable = directory.join(held.state.writable());
        if held.state.kind == Kind::Plain {
            return Ok(Access::Directory(writable));
        }
        let base = match held.base.take() {
            Some(base) => base,
            None => self.dirs.layouts().base(held.state.tree)?,
        };
        let overlay = Overlay {
            lowers: base.lowers().to_vec(),
            upper: writable,
            work: directory.join(held.state.work()),
            empty: directory.join("empty"),
            userxattr: held.state.kind == Kind::Overlay,
        };
        held.base = Some(base);
        Ok(Access::Overlay(overlay))
    }

    /// Calls a function with the layouts that it uses.
    pub(crate) fn each_layout(
        &self,
        mut each: impl FnMut(&Path) -> Result<(), MountError>,
    ) -> Result<(), MountError> {
        self.held().base.iter().flat_map(Base::layouts).try_for_each(&mut each)
    }

    /// Whether anything was changed since the tree below. Costs nothing for an overlay; a plain directory is always
    /// assumed to be changed.
    pub fn is_touched(&self) -> Result<bool, MountError> {
        let state = self.held().state.clone();
        if state.kind == Kind::Plain {
            return Ok(true);
        }
        let writable = self.path().join(state.writable());
        match (is_empty(&writable), stamp(&writable)) {
            // A root that its owner may not read was changed.
            (Err(error), _) | (_, Err(error)) if error.is_permission_denied() => Ok(true),
            (is_empty, stamp) => Ok(!is_empty? || stamp? != state.untouched),
        }
    }

    /// Discards all changes and shows another tree. It must not be mounted or in use. The caller keeps the tree in the
    /// store meanwhile.
    pub fn reset(&mut self, tree: TreeId) -> Result<(), MountError> {
        self.require_hold()?;
        let _ingest = self.lock_ingest()?;
        let lease = self.dirs.store().hold(Root::Tree(tree))?;
        let path = self.path();
        let mut state = self.held().state.clone();
        state.generation += 1;
        (state.tree, state.current) = (tree, tree);
        let filled = self.dirs.fill(&path, &mut state).and_then(|()| state.write(&path));
        if let Err(error) = filled {
            // What was made so far is no generation of any state.
            self.remove_old_generations()?;
            return Err(error);
        }
        *self.held() = Held { state, base: None, _lease: lease };
        self.remove_old_generations()?;
        self.access()?;
        Ok(())
    }

    /// Discards it with all changes. It must not be mounted or in use.
    pub fn remove(self) -> Result<(), MountError> {
        self.require_hold()?;
        let path = self.path();
        let aside = self.dirs.directory().join(format!("{OLD}{}", self.name));
        std::fs::rename(&path, &aside).map_err(MountError::io("remove", &path))?;
        remove_tree(&aside)
    }

    /// Removes what resets that were killed have left.
    pub(super) fn remove_old_generations(&self) -> Result<(), MountError> {
        let path = self.path();
        let state = self.read_state()?;
        let kept = [state.writable(), state.work(), "empty".to_owned()];
        for name in names(&path)? {
            let is_generation = ["upper-", "work-", "tree-"].iter().any(|prefix| name.starts_with(prefix))
                || name.starts_with(".tree-");
            if is_generation && !kept.contains(&name) {
                remove_tree(&path.join(name))?;
            }
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dirs.directory().join(&self.name)
    }

    /// The state on disk: other processes may have ingested since.
    pub(crate) fn read_state(&self) -> Result<State, MountError> {
        State::read(&self.path())?.ok_or_else(|| missing(&self.name))
    }

    pub(crate) fn set_state(&self, state: State) {
        self.held().state = state;
    }

    /// One ingest at a time, of all processes.
    pub(crate) fn lock_ingest(&self) -> Result<File, MountError> {
        wait_lock(&self.path().join("ingest"), true)
    }

    fn require_hold(&self) -> Result<(), MountError> {
        if self.hold.is_some() {
            Ok(())
        } else {
            Err(MountError::busy(format!("the working directory {}", self.name)))
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
