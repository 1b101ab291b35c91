//! The suite, and what it works with.

use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskSource, Disks, Freezing};

use super::{Scribe, basics, bytes, collapsing};

/// A back end, somebody who writes into its disks, and a place for them.
#[derive(Clone, Copy)]
pub struct Lab<'a> {
    /// The back end.
    pub disks: &'a dyn Disks,
    /// Writes into disks as a machine would.
    pub scribe: &'a dyn Scribe,
    /// An empty directory.
    pub dir: &'a Path,
    /// What the sizes of disks are multiples of.
    pub grain: u64,
    /// How far from the truth what the back end says about bytes may be.
    pub slack: u64,
}

/// Runs a back end through everything that is promised of all of them.
///
/// # Panics
///
/// If the back end breaks a promise.
pub fn conformance(lab: Lab<'_>) {
    let run = |name: &str, promise: fn(Lab<'_>)| {
        let dir = lab.dir.join(name);
        std::fs::create_dir(&dir).expect("a directory");
        promise(Lab { dir: &dir, ..lab });
    };
    run("basics", basics::all);
    run("bytes", bytes::all);
    run("collapsing", collapsing::all);
}

impl<'a> Lab<'a> {
    /// A back end that takes any size and counts every byte.
    pub fn new(disks: &'a dyn Disks, scribe: &'a dyn Scribe, dir: &'a Path) -> Self {
        Self { disks, scribe, dir, grain: 512, slack: 0 }
    }

    /// A path for a disk of this name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name).with_extension(self.disks.extension())
    }

    /// Makes a disk.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn create(&self, name: &str, source: &DiskSource, size: u64) -> PathBuf {
        let path = self.path(name);
        self.disks.create(&path, source, size).expect("a disk");
        self.disks.admit(&path, None).expect("a disk that can be opened");
        path
    }

    /// Freezes what is in `active` at this instant, the back end's way. Returns the frozen disk and the one that is
    /// written to from now on.
    ///
    /// # Panics
    ///
    /// If it cannot be done.
    pub fn freeze(&self, active: &Path, name: &str, size: u64) -> (PathBuf, PathBuf) {
        let fresh = self.create(name, &DiskSource::Layer(active.to_owned()), size);
        match self.disks.freezing() {
            Freezing::Overlay => (active.to_owned(), fresh),
            Freezing::Copy => (fresh, active.to_owned()),
        }
    }

    /// Whether two counts of bytes are the same, as far as the back end can tell.
    pub(super) fn agree(&self, one: u64, other: u64) -> bool {
        one.abs_diff(other) <= self.slack
    }

    /// Host bytes a disk takes for itself, with everything that was written to any so far.
    pub(super) fn own_bytes(&self, path: &Path) -> u64 {
        self.scribe.settle();
        self.disks.own_bytes(path).expect("bytes")
    }

    /// Bytes that can be read through a disk, with everything that was written to any so far.
    pub(super) fn referenced_bytes(&self, path: &Path) -> u64 {
        self.scribe.settle();
        self.disks.referenced_bytes(path).expect("bytes")
    }

    /// Reads a piece of a disk.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn read(&self, path: &Path, offset: u64, length: usize) -> Vec<u8> {
        let mut buffer = vec![0xee; length];
        self.disks
            .open(path)
            .expect("a disk that opens")
            .read_at(offset, &mut buffer)
            .expect("a disk that reads");
        buffer
    }

    /// Everything in the directory, in order.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir).expect("the directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
            .collect();
        names.sort();
        names
    }
}
