//! Notices changes of other programs as they happen.
//!
//! ```text
//! open: watch every folder ──► scan ──► wait ──► events ──► look at those files ──► wait …
//!                                        │
//!                                        ├─ a new folder: watch it, then look at what is in it
//!                                        └─ the kernel dropped events: watch every folder again, scan
//! ```

use std::collections::{BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;

use crate::error::NotesError;
use crate::notes::Notes;
use crate::path::{FolderPath, NotePath};

/// Watches the directory of notes. One is enough for all processes: they share the index.
#[derive(Debug)]
pub struct Watcher {
    notes: Notes,
    events: OwnedFd,
    /// The folder of each watch.
    folders: HashMap<i32, FolderPath>,
}

/// What a batch of events says.
#[derive(Default)]
struct Batch {
    files: BTreeSet<NotePath>,
    folders: BTreeSet<FolderPath>,
    /// Everything has to be looked at.
    is_incomplete: bool,
}

impl Watcher {
    /// Begins to watch, and brings the index up to date.
    pub fn open(notes: &Notes) -> Result<Self, NotesError> {
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(NotesError::os("watch", notes.path()))?;
        let mut watcher = Self { notes: notes.clone(), events, folders: HashMap::new() };
        watcher.watch_below(&FolderPath::root())?;
        notes.scan()?;
        Ok(watcher)
    }

    /// A file descriptor that is readable when there is something to do.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    /// Waits until files change, at most this long, and brings the index up to date. Returns how many files had changed
    /// by other programs.
    pub fn wait(&mut self, timeout: Duration) -> Result<u64, NotesError> {
        let failed = || NotesError::os("watch", self.notes.path());
        let timeout =
            Timespec::try_from(timeout).map_err(|_| NotesError::invalid("timeout", "it is too long"))?;
        let mut ready = [PollFd::new(&self.events, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(0),
            Ok(_) => {}
            Err(error) => return Err(failed()(error)),
        }
        let batch = self.read_events()?;
        if batch.is_incomplete {
            self.folders.clear();
            self.watch_below(&FolderPath::root())?;
            let report = self.notes.scan()?;
            return Ok(report.changed + report.removed);
        }
        let mut files = batch.files;
        for folder in batch.folders {
            files.extend(self.watch_below(&folder)?);
        }
        let files: Vec<NotePath> = files.into_iter().collect();
        if files.is_empty() { Ok(0) } else { self.notes.refresh(&files) }
    }

    /// Watches a folder and those below it. Returns the files in them: they may have been created before the watch.
    fn watch_below(&mut self, from: &FolderPath) -> Result<Vec<NotePath>, NotesError> {
        let inner = self.notes.0.clone();
        let mut files = Vec::new();
        if !self.watch(from)? {
            return Ok(files);
        }
        inner.directory.walk(&inner.config, from, |listed| {
            if listed.file.is_some() {
                files.extend(NotePath::parse(&listed.path));
                return Ok(false);
            }
            match FolderPath::parse(&listed.path) {
                Ok(folder) => self.watch(&folder),
                Err(_) => Ok(false),
            }
        })?;
        Ok(files)
    }

    /// Returns false if the folder does not exist any more.
    fn watch(&mut self, folder: &FolderPath) -> Result<bool, NotesError> {
        let Some(opened) = self.notes.0.directory.folder(folder.as_str())? else { return Ok(false) };
        let flags = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        // By its descriptor, so that no link is followed in between.
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        match add_watch(&self.events, path, flags) {
            Ok(watch) => {
                self.folders.insert(watch, folder.clone());
                Ok(true)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(NotesError::os("watch", self.notes.0.directory.host(folder.as_str()))(error)),
        }
    }

    fn read_events(&mut self) -> Result<Batch, NotesError> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 64 << 10];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut batch = Batch::default();
        let mut gone = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(NotesError::os("watch", self.notes.path())(error)),
            };
            let kind = event.events();
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                batch.is_incomplete = true;
                continue;
            }
            let Some(folder) = self.folders.get(&event.wd()) else { continue };
            if kind.contains(ReadFlags::IGNORED) {
                gone.push(event.wd());
                continue;
            }
            let Some(name) = event.file_name().and_then(|name| name.to_str().ok()) else { continue };
            let path = folder.join(name);
            if !kind.contains(ReadFlags::ISDIR) {
                batch.files.extend(NotePath::parse(&path));
            } else if kind.intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE) {
                // What was in a folder that was moved away is known by its old path; so is its watch.
                batch.is_incomplete = !name.starts_with('.') || batch.is_incomplete;
            } else if let Ok(below) = FolderPath::parse(&path) {
                let is_included = !self.notes.0.config.is_excluded(&format!("{below}/x"));
                batch.folders.extend(is_included.then_some(below));
            }
        }
        for watch in gone {
            self.folders.remove(&watch);
        }
        Ok(batch)
    }
}
