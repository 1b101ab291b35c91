//! The files of a disk as the source of an image.
//!
//! Guests write these disks, so the host neither mounts nor repairs them. Our own ext4 reader turns them into entries,
//! which are checked like those of an archive.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use agentiso_core::ports::{DiskView, EntryKind, Extent, Origin, RootfsEntry, RootfsSink, Timestamp};
use agentiso_core::progress::Progress;
use agentiso_diff::{EntryKind as FileKind, Found, WalkError, walk};
use agentiso_images::source::{CheckedSink, ImportLimits, RootfsSource, SourceError, Summary};
use agentiso_images::store::{ImageSource, OciDefaults};

/// A new file system has its own.
const LOST_AND_FOUND: &[u8] = b"lost+found";
/// After how many files progress is reported.
const TELL_EVERY: u64 = 1000;

/// The files of a disk.
pub(crate) struct DiskTree {
    pub(crate) view: Box<dyn DiskView>,
    pub(crate) source: ImageSource,
    pub(crate) defaults: Option<OciDefaults>,
}

impl RootfsSource for DiskTree {
    fn describe(&self) -> ImageSource {
        self.source.clone()
    }

    fn size_hint(&self) -> u64 {
        self.view.size()
    }

    fn stream(
        &mut self,
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError> {
        let origin = &self.source.reference;
        let mut checked = CheckedSink::new(sink, limits, origin);
        let streamed = stream(self.view.as_ref(), &mut checked, limits.entries, progress);
        // The reason for a rejected entry says more than that the walk stopped.
        let summary = checked.finish()?;
        streamed.map_err(|error| match error {
            WalkError::Disk(error) => {
                SourceError::Corrupt { origin: origin.clone(), source: io::Error::other(error) }
            }
            WalkError::Visitor(source) => SourceError::Sink { entry: origin.clone(), source },
        })?;
        Ok(Summary { defaults: self.defaults.clone(), ..summary })
    }
}

/// Sends all files of a disk to the sink, parents and link targets first. Sockets are left out.
pub(crate) fn stream(
    view: &dyn DiskView,
    sink: &mut dyn RootfsSink,
    max_entries: u64,
    progress: &dyn Progress,
) -> Result<(), WalkError> {
    progress.step("Copying files", None);
    let mut linked = HashMap::new();
    let mut count = 0_u64;
    walk(view, max_entries, &mut |found, content| {
        if found.path == LOST_AND_FOUND || found.path.starts_with(b"lost+found/") {
            return Ok(());
        }
        let Some(entry) = entry(found, &mut linked) else { return Ok(()) };
        count += 1;
        if count.is_multiple_of(TELL_EVERY) {
            progress.note(&format!("{count} files"));
        }
        sink.entry(&entry, content)
    })?;
    progress.done(&format!("{count} files"));
    Ok(())
}

fn entry(found: Found<'_>, linked: &mut HashMap<u32, Vec<u8>>) -> Option<RootfsEntry> {
    let info = found.info;
    let (major, minor) = found.device;
    let mut kind = match info.kind {
        FileKind::Directory => EntryKind::Directory,
        FileKind::File => EntryKind::File { size: info.size },
        FileKind::Symlink => EntryKind::Symlink { target: found.target },
        FileKind::CharacterDevice => EntryKind::CharDevice { major, minor },
        FileKind::BlockDevice => EntryKind::BlockDevice { major, minor },
        FileKind::Fifo => EntryKind::Fifo,
        FileKind::Socket => return None,
    };
    if info.kind != FileKind::Directory && info.nlink > 1 {
        match linked.get(&found.inode) {
            Some(first) => kind = EntryKind::Hardlink { target: first.clone() },
            None => _ = linked.insert(found.inode, found.path.to_vec()),
        }
    }
    Some(RootfsEntry {
        path: found.path.to_vec(),
        kind,
        mode: u32::from(info.mode),
        uid: info.uid,
        gid: info.gid,
        mtime: Timestamp { seconds: info.mtime.seconds, nanos: info.mtime.nanoseconds },
        xattrs: found.xattrs,
    })
}

/// A raw disk image that nobody writes to.
pub(crate) struct RawDisk {
    file: File,
    size: u64,
}

impl RawDisk {
    #[expect(clippy::disallowed_methods, reason = "called off the async threads")]
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { file, size })
    }
}

impl DiskView for RawDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        match self.size.checked_sub(offset) {
            Some(length @ 1..) => Ok(Extent { origin: Origin::Unknown, length }),
            _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the disk")),
        }
    }
}
