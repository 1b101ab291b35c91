//! Receives a tree into a directory.
//!
//! An existing file is replaced when the content is complete; a file under a new name is removed if it never completes.
//! An error leaves the entries received so far. Paths are confined to the directory by `tree_target`.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

use agentiso_proto::{Response, TreeDecoder, TreeEntry, TreeItem, TreeKind, TreeOptions};
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid},
    io::Errno,
};

use crate::{
    atomic::{Temporary, write_all},
    error::{During, OrInvalid, Outcome, invalid, refused, shown},
    paths::checked,
    stream::Stream,
    tree_metadata,
    tree_target::{Place, Target},
};

/// Receives a tree into a directory.
pub(crate) fn receive(stream: &Stream, path: &[u8], options: TreeOptions) -> Outcome<Response> {
    let mut receiver = Receiver {
        stream,
        target: Target::open(checked(path)?, options.owners)?,
        owners: options.owners,
        bytes: 0,
    };
    let mut decoder = TreeDecoder::new();
    // A file is written while its content arrives, so it must not borrow from the receiver.
    let mut file: Option<IncomingFile> = None;
    loop {
        let data = stream.receive()?.ok_or_else(|| invalid("the tree is incomplete"))?;
        let mut rest = data.as_slice();
        while let Some(item) = decoder.next(&mut rest).or_invalid(|| "the tree".to_owned())? {
            match item {
                TreeItem::Entry(entry) => file = receiver.entry(entry)?,
                TreeItem::Content(content) => {
                    let open = file.as_mut().ok_or_else(|| invalid("received content without a file"))?;
                    open.write(&content)?;
                    receiver.bytes += content.len() as u64;
                }
                TreeItem::End => {
                    receiver.target.finish()?;
                    return Ok(Response::Written { bytes: receiver.bytes });
                }
            }
            if let Some(complete) = file.take_if(|file| file.left == 0) {
                complete.finish(options.owners)?;
            }
        }
    }
}

struct Receiver<'a> {
    stream: &'a Stream,
    target: Target,
    owners: bool,
    bytes: u64,
}

impl Receiver<'_> {
    /// Processes one entry. Returns the file whose content follows, if it is one.
    fn entry(&mut self, entry: TreeEntry) -> Outcome<Option<IncomingFile>> {
        let stream = self.stream;
        let check = &mut || stream.check();
        match &entry.kind {
            TreeKind::Directory => self.target.enter(entry, check)?,
            TreeKind::File { size } => {
                let (place, size) = (self.target.place(&entry.path)?, *size);
                return IncomingFile::create(place, entry, size, check).map(Some);
            }
            TreeKind::Symlink { target } => {
                if target.is_empty() || target.contains(&0) {
                    return Err(invalid(format!("the link {} leads nowhere", shown(&entry.path))));
                }
                let place = self.target.place(&entry.path)?;
                place.make(&entry.path, check, |parent, name| {
                    rustix::fs::symlinkat(target.as_slice(), parent, name)
                })?;
                self.dress(&place, &entry)?;
            }
            TreeKind::Hardlink { target } => {
                let earlier = self.target.earlier(target)?;
                let place = self.target.place(&entry.path)?;
                if entry.path != *target {
                    place.make(&entry.path, check, |parent, name| {
                        let earlier_name = earlier.name.as_slice();
                        rustix::fs::linkat(&earlier.parent, earlier_name, parent, name, AtFlags::empty())
                    })?;
                }
            }
            TreeKind::Device { block, major, minor } => {
                let kind = if *block { FileType::BlockDevice } else { FileType::CharacterDevice };
                self.node(&entry, kind, rustix::fs::makedev(*major, *minor))?;
            }
            TreeKind::Fifo => self.node(&entry, FileType::Fifo, 0)?,
            TreeKind::Removed => self.target.place(&entry.path)?.clear(check)?,
            TreeKind::Emptied => self.target.empty(&entry.path, check)?,
            TreeKind::Socket => {}
        }
        self.stream.check()?;
        Ok(None)
    }

    fn node(&mut self, entry: &TreeEntry, kind: FileType, device: u64) -> Outcome<()> {
        let stream = self.stream;
        let place = self.target.place(&entry.path)?;
        place.make(&entry.path, &mut || stream.check(), |parent, name| {
            rustix::fs::mknodat(parent, name, kind, Mode::from_raw_mode(entry.mode & 0o7777), device)
        })?;
        self.dress(&place, entry)
    }

    fn dress(&self, place: &Place, entry: &TreeEntry) -> Outcome<()> {
        tree_metadata::apply_unopened(place.parent.as_fd(), &place.name, entry, self.owners)
    }
}

/// A file whose content is arriving.
struct IncomingFile {
    slot: Slot,
    entry: TreeEntry,
    left: u64,
}

/// Where the content is written until it is complete.
enum Slot {
    /// No entry had the name, so the file is created under it, which costs a quarter of a rename. It is removed if it
    /// is never completed.
    New(NewFile),
    /// The existing entry keeps the name until the file is complete. A replaced file's owner is kept.
    Replacing { temporary: Temporary<Rc<OwnedFd>>, name: Vec<u8>, owner: Option<(Uid, Gid)> },
}

struct NewFile {
    place: Place,
    fd: OwnedFd,
    complete: bool,
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.complete {
            // Best effort: there is nothing left to try.
            let _ = rustix::fs::unlinkat(&self.place.parent, self.place.name.as_slice(), AtFlags::empty());
        }
    }
}

impl IncomingFile {
    fn create(
        place: Place,
        entry: TreeEntry,
        size: u64,
        check: &mut dyn FnMut() -> Outcome<()>,
    ) -> Outcome<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made =
            rustix::fs::openat(&place.parent, place.name.as_slice(), flags, Mode::from_raw_mode(0o600));
        let slot = match made {
            Ok(fd) => Slot::New(NewFile { place, fd, complete: false }),
            Err(Errno::EXIST) => {
                if place.is_directory()? {
                    place.clear(check)?;
                }
                let owner = place.owner_of_file()?;
                Slot::Replacing { temporary: Temporary::create(place.parent)?, name: place.name, owner }
            }
            Err(errno) => return Err(refused(format!("creating {}", shown(&entry.path)), errno)),
        };
        Ok(Self { slot, entry, left: size })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match &self.slot {
            Slot::New(file) => file.fd.as_fd(),
            Slot::Replacing { temporary, .. } => temporary.as_fd(),
        }
    }

    fn write(&mut self, content: &[u8]) -> Outcome<()> {
        write_all(self.fd(), content).during(|| format!("writing {}", shown(&self.entry.path)))?;
        self.left = self.left.saturating_sub(content.len() as u64);
        Ok(())
    }

    fn finish(self, owners: bool) -> Outcome<()> {
        if let Slot::Replacing { temporary, owner: Some((uid, gid)), .. } = &self.slot
            && !owners
        {
            let kept = rustix::fs::fchown(temporary.as_fd(), Some(*uid), Some(*gid));
            match kept {
                // Only happens if the agent is not root.
                Ok(()) | Err(Errno::PERM) => {}
                Err(errno) => {
                    return Err(refused(format!("keeping the owner of {}", shown(&self.entry.path)), errno));
                }
            }
        }
        tree_metadata::apply(self.fd(), &self.entry, owners)?;
        match self.slot {
            Slot::New(mut file) => {
                file.complete = true;
                Ok(())
            }
            Slot::Replacing { temporary, name, .. } => temporary.place(&name),
        }
    }
}
