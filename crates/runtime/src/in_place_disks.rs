//! Disks as async code may use them.
//!
//! Every method of a disk back end waits for files, and the ZFS back end for child processes. This wrapper runs each one
//! `in_place`, so that no caller in this crate can forget it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_blocking::in_place;
use agentiso_core::ports::{
    DiskCopy, DiskError, DiskSource, DiskUsage, DiskView, Disks, Freezing, StorageStatus,
};

/// A back end whose calls do not stall other tasks.
#[derive(Clone)]
pub(crate) struct InPlaceDisks(pub Arc<dyn Disks>);

impl Disks for InPlaceDisks {
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError> {
        in_place(|| self.0.create(path, source, size))
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn realm(&self) -> String {
        self.0.realm()
    }

    fn qemu_format(&self) -> &'static str {
        self.0.qemu_format()
    }

    fn extension(&self) -> &'static str {
        self.0.extension()
    }

    fn freezing(&self) -> Freezing {
        self.0.freezing()
    }

    fn parent(&self, path: &Path) -> Result<Option<DiskSource>, DiskError> {
        in_place(|| self.0.parent(path))
    }

    fn below(&self, path: &Path) -> Result<Vec<PathBuf>, DiskError> {
        in_place(|| self.0.below(path))
    }

    fn own_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        in_place(|| self.0.own_bytes(path))
    }

    fn referenced_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        in_place(|| self.0.referenced_bytes(path))
    }

    fn freed_by_removal(&self, path: &Path, children: &[PathBuf]) -> Result<u64, DiskError> {
        in_place(|| self.0.freed_by_removal(path, children))
    }

    fn collapse(&self, path: &Path, onto: &DiskSource) -> Result<(), DiskError> {
        in_place(|| self.0.collapse(path, onto))
    }

    fn usage(&self, disks: &[(PathBuf, Vec<PathBuf>)]) -> Result<Vec<DiskUsage>, DiskError> {
        in_place(|| self.0.usage(disks))
    }

    fn prepare_copy(
        &self,
        path: &Path,
        source: &Path,
        size: u64,
    ) -> Result<Option<Box<dyn DiskCopy>>, DiskError> {
        in_place(|| self.0.prepare_copy(path, source, size))
    }

    fn admit(&self, path: &Path, user: Option<(u32, u32)>) -> Result<(), DiskError> {
        in_place(|| self.0.admit(path, user))
    }

    fn let_grow(&self, path: &Path, size: u64) -> Result<(), DiskError> {
        in_place(|| self.0.let_grow(path, size))
    }

    fn sweep(&self) -> Result<(), DiskError> {
        in_place(|| self.0.sweep())
    }

    fn storage_status(&self) -> Result<Option<StorageStatus>, DiskError> {
        in_place(|| self.0.storage_status())
    }

    fn open(&self, path: &Path) -> Result<Box<dyn DiskView>, DiskError> {
        in_place(|| self.0.open(path))
    }
}
