//! Writes a layer of an overlay into an empty, private directory. Names come from a tree and are valid; nobody else is in
//! the directory, so paths below it lead where they seem to.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use agentiso_store::{
    Attributes, Content, LinkGroup, Meta, Node, ObjectKind, Objects, Piece, Store, StoreError, TreePath,
    pieces,
};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat,
    fchmod, fchown, fsetxattr, futimens, linkat, mkdirat, mknodat, openat, symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::error::MountError;
use crate::layouts::{Item, Layer};

/// Writes the items of a layer.
pub(crate) fn write_layer(
    store: &Store,
    root: &Path,
    layer: &Layer,
    with_owners: bool,
) -> Result<(), MountError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(CWD, root, flags, Mode::empty()).map_err(MountError::os("open", root))?;
    let mut writer = Writer { store, root: fd, with_owners, links: HashMap::new() };
    for (path, item) in &layer.items {
        writer.item(path, item).map_err(|failed| failed.at(root, path))?;
    }
    // Children before parents: what is put into a directory changes its time, and its mode may forbid it.
    for (path, item) in layer.items.iter().rev() {
        if let Item::Directory(meta) = item {
            writer.finish_directory(path, meta).map_err(|failed| failed.at(root, path))?;
        }
    }
    Ok(())
}

struct Writer<'w> {
    store: &'w Store,
    root: OwnedFd,
    with_owners: bool,
    /// Where the first name of a file with several names is.
    links: HashMap<(LinkGroup, Node), TreePath>,
}

enum Failed {
    Host(&'static str, Errno),
    Write(io::Error),
    Store(StoreError),
}

impl Failed {
    fn host(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| Self::Host(what, error)
    }

    fn at(self, root: &Path, path: &TreePath) -> MountError {
        let path = root.join(path.as_host());
        match self {
            Self::Host(what, error) => MountError::Io { what, path, source: error.into() },
            Self::Write(source) | Self::Store(StoreError::Io { what: "write", source, .. }) => {
                MountError::Io { what: "write", path, source }
            }
            Self::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Writer<'_> {
    fn item(&mut self, path: &TreePath, item: &Item) -> Result<(), Failed> {
        let host = path.as_host();
        match item {
            Item::Directory(_) if path.is_root() => Ok(()),
            Item::Directory(_) => mkdirat(&self.root, host, Mode::RWXU).map_err(Failed::host("create")),
            Item::Whiteout => mknodat(&self.root, host, FileType::CharacterDevice, Mode::empty(), 0)
                .map_err(Failed::host("create")),
            Item::Node(node) => self.node(path, node),
        }
    }

    fn node(&mut self, path: &TreePath, node: &Node) -> Result<(), Failed> {
        let host = path.as_host();
        match node {
            Node::Directory(_) => Ok(()),
            Node::Symlink { meta, target } => {
                symlinkat(&**target, &self.root, host).map_err(Failed::host("create"))?;
                self.unopened(host, meta)
            }
            Node::Fifo { meta } => {
                mknodat(&self.root, host, FileType::Fifo, Mode::RUSR, 0).map_err(Failed::host("create"))?;
                chmodat(&self.root, host, self.mode(meta), AtFlags::empty())
                    .map_err(Failed::host("change the mode of"))?;
                self.unopened(host, meta)
            }
            Node::File(file) => {
                if let Some(group) = file.link {
                    let key = (group, node.clone());
                    if let Some(first) = self.links.get(&key) {
                        return linkat(&self.root, first.as_host(), &self.root, host, AtFlags::empty())
                            .map_err(Failed::host("create"));
                    }
                    self.links.insert(key, path.clone());
                }
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let fd = openat(&self.root, host, flags, Mode::RUSR | Mode::WUSR)
                    .map_err(Failed::host("create"))?;
                let mut host = File::from(fd);
                self.content(&mut host, file.content, file.size)?;
                self.opened(host.as_fd(), &file.meta)
            }
        }
    }

    fn content(&self, host: &mut File, content: Content, size: u64) -> Result<(), Failed> {
        let io = |source| StoreError::Io { what: "write", path: "the file".into(), source };
        pieces(self.store, content, size, |piece| match piece {
            Piece::Hole(len) => host.seek(SeekFrom::Current(len as i64)).map(drop).map_err(io),
            Piece::Data(bytes) => host.write_all(bytes).map_err(io),
        })?;
        // The file may end with a hole.
        if matches!(content, Content::Chunked(_)) {
            host.set_len(size).map_err(Failed::Write)
        } else {
            Ok(())
        }
    }

    fn finish_directory(&self, path: &TreePath, meta: &Meta) -> Result<(), Failed> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.root, path.as_host(), flags, Mode::empty()).map_err(Failed::host("open"))?;
        self.opened(fd.as_fd(), meta)
    }

    fn opened(&self, fd: BorrowedFd<'_>, meta: &Meta) -> Result<(), Failed> {
        if self.with_owners {
            fchown(fd, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))
                .map_err(Failed::host("change the owner of"))?;
        }
        if let Some(id) = meta.attributes {
            let bytes = self.store.object(ObjectKind::Attributes, &id)?;
            for (name, value) in Attributes::decode(&bytes)?.0 {
                set_attribute(fd, &name, &value)?;
            }
        }
        fchmod(fd, self.mode(meta)).map_err(Failed::host("change the mode of"))?;
        futimens(fd, &times(meta)).map_err(Failed::host("set the time of"))
    }

    fn unopened(&self, host: &Path, meta: &Meta) -> Result<(), Failed> {
        if self.with_owners {
            let (uid, gid) = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
            chownat(&self.root, host, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(Failed::host("change the owner of"))?;
        }
        utimensat(&self.root, host, &times(meta), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Failed::host("set the time of"))
    }

    /// Without its owner, a file must not run with the rights of somebody else.
    fn mode(&self, meta: &Meta) -> Mode {
        let allowed = if self.with_owners { 0o7777 } else { 0o1777 };
        Mode::from_raw_mode(u32::from(meta.mode) & allowed)
    }
}

/// Sets an attribute that belongs to a file and not to the host. Those that the file system refuses are left out, as in a
/// layout of the whole tree.
fn set_attribute(fd: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> Result<(), Failed> {
    let is_of_file = (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
        || matches!(name, b"security.capability" | b"system.posix_acl_access" | b"system.posix_acl_default");
    if !is_of_file {
        return Ok(());
    }
    match fsetxattr(fd, name, value, XattrFlags::empty()) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(()),
        Err(error) => Err(Failed::Host("set an attribute of", error)),
    }
}

fn times(meta: &Meta) -> Timestamps {
    let time = Timespec { tv_sec: meta.mtime.seconds, tv_nsec: meta.mtime.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}
