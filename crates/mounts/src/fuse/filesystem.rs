//! The calls of the kernel, one by one.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{AtFlags, OFlags, RenameFlags, copy_file_range, fdatasync, fstat, fstatvfs, fsync};
use rustix::io::Errno;

use super::attributes::{Wanted, attributes, kind};
use super::handles::Handles;
use super::nodes::{Nodes, ROOT};

/// How long the kernel may keep what it was told. Nobody else changes the overlay.
const TTL: Duration = Duration::from_secs(24 * 3600);
const MAX_IO: u32 = 1 << 20;

/// An overlay that is passed on.
#[derive(Debug)]
pub(super) struct Overlaid {
    pub(super) nodes: Nodes,
    pub(super) handles: Handles,
    /// The writable layer, unless the mount is read-only.
    pub(super) upper: Option<OwnedFd>,
    /// Who the server is.
    pub(super) owner: (u32, u32),
    /// New files are given to who makes them: root serves, and everybody may use the mount.
    pub(super) gives_files: bool,
    /// Held exclusively while a directory is moved by links.
    pub(super) gate_of_moves: RwLock<()>,
}

impl Overlaid {
    fn enter(&self) -> RwLockReadGuard<'_, ()> {
        self.gate_of_moves.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes_of(&self, number: u64, handle: Option<FileHandle>) -> Result<FileAttr, Errno> {
        let stat = match handle.and_then(|handle| self.handles.get(handle.0).ok()) {
            Some(handle) => fstat(&handle.file)?,
            None => fstat(self.nodes.get(number)?.as_fd())?,
        };
        Ok(attributes(number, &stat))
    }
}

fn refused(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

fn entry(reply: ReplyEntry, result: Result<FileAttr, Errno>) {
    match result {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(refused(error)),
    }
}

fn empty(reply: ReplyEmpty, result: Result<(), Errno>) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(refused(error)),
    }
}

fn sized(reply: ReplyXattr, size: u32, result: Result<Vec<u8>, Errno>) {
    match result {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(refused(Errno::RANGE)),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(refused(error)),
    }
}

/// What a lookup of a missing name answers, so that the kernel remembers that too.
fn missing() -> FileAttr {
    let zero = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: zero,
        mtime: zero,
        ctime: zero,
        crtime: zero,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

impl Filesystem for Overlaid {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let mut wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_ASYNC_DIO;
        if !self.gives_files {
            // Without privileges, the overlay clears setuid bits when a file is written.
            wanted |= InitFlags::FUSE_HANDLE_KILLPRIV_V2;
        }
        // Old kernels do without.
        let _ = config.add_capabilities(wanted & config.capabilities());
        let _ = config.set_max_write(MAX_IO);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _gate = self.enter();
        match self.find(parent.0, name.as_bytes()) {
            Err(Errno::NOENT) => reply.entry(&TTL, &missing(), Generation(0)),
            result => entry(reply, result),
        }
    }

    fn forget(&self, _request: &Request, number: INodeNo, lookups: u64) {
        self.nodes.forget(number.0, lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let _gate = self.enter();
        match self.attributes_of(number.0, handle) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _gate = self.enter();
        let wanted = Wanted { mode, uid, gid, atime, mtime };
        match self.change(number.0, handle.map(|handle| handle.0), size, wanted) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let _gate = self.enter();
        match self.target(number.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let _gate = self.enter();
        entry(reply, self.make_node(request, parent.0, name.as_bytes(), mode, device));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let _gate = self.enter();
        entry(reply, self.make_directory(request, parent.0, name.as_bytes(), mode));
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _gate = self.enter();
        empty(reply, self.remove(parent.0, name.as_bytes(), AtFlags::empty()));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _gate = self.enter();
        empty(reply, self.remove(parent.0, name.as_bytes(), AtFlags::REMOVEDIR));
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _gate = self.enter();
        let target = target.as_os_str().as_bytes();
        entry(reply, self.make_link(request, parent.0, name.as_bytes(), target));
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        // Takes the gate itself if it has to.
        let flags = RenameFlags::from_bits_retain(flags.bits());
        let from = (parent.0, name.as_bytes());
        empty(reply, self.change_name(from, (new_parent.0, new_name.as_bytes()), flags));
    }

    fn link(&self, _request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _gate = self.enter();
        entry(reply, self.add_name(number.0, parent.0, name.as_bytes()));
    }

    fn open(&self, _request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let _gate = self.enter();
        match self.open_content(number.0, flags.0) {
            Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let _gate = self.enter();
        match self.make_file(request, parent.0, name.as_bytes(), mode, flags) {
            Ok((attributes, handle)) => reply.created(
                &TTL,
                &attributes,
                Generation(0),
                FileHandle(handle),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn read(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_content(handle.0, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn write(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_content(handle.0, offset, bytes) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Everything was written already. The kernel takes this for success and does not ask again.
        reply.error(fuser::Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.handles.remove(handle.0);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let flush = |file: &std::fs::File| if datasync { fdatasync(file) } else { fsync(file) };
        empty(reply, self.handles.get(handle.0).and_then(|handle| flush(&handle.file)));
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let _gate = self.enter();
        match self.open_again(number.0, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(handle) => {
                let flags = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
                reply.opened(FileHandle(handle), flags);
            }
            Err(error) => reply.error(refused(error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let entries = match self.handles.get(handle.0).and_then(|handle| handle.entries(offset)) {
            Ok(entries) => entries,
            Err(error) => return reply.error(refused(error)),
        };
        for (at, listed) in entries.iter().enumerate().skip(offset as usize) {
            let name = OsStr::from_bytes(&listed.name);
            if reply.add(INodeNo(listed.inode), at as u64 + 1, kind(listed.kind), name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _gate = self.enter();
        let entries = match self.handles.get(handle.0).and_then(|handle| handle.entries(offset)) {
            Ok(entries) => entries,
            Err(error) => return reply.error(refused(error)),
        };
        for (at, listed) in entries.iter().enumerate().skip(offset as usize) {
            let is_here = matches!(&*listed.name, b"." | b"..");
            let found = if is_here {
                // The kernel does not count these as lookups.
                Ok(FileAttr {
                    ino: INodeNo(listed.inode.max(ROOT)),
                    kind: fuser::FileType::Directory,
                    ..missing()
                })
            } else {
                self.find(number.0, &listed.name)
            };
            // What vanished since the listing is left out.
            let Ok(attributes) = found else { continue };
            let name = OsStr::from_bytes(&listed.name);
            if reply.add(attributes.ino, at as u64 + 1, name, &TTL, &attributes, Generation(0)) {
                if !is_here {
                    self.nodes.forget(attributes.ino.0, 1);
                }
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.handles.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.handles.get(handle.0).and_then(|handle| fsync(&handle.file)));
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        match self.nodes.get(ROOT).and_then(|root| fstatvfs(root.as_fd())) {
            Ok(found) => reply.statfs(
                found.f_blocks,
                found.f_bfree,
                found.f_bavail,
                found.f_files,
                found.f_ffree,
                found.f_bsize as u32,
                found.f_namemax as u32,
                found.f_frsize as u32,
            ),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let _gate = self.enter();
        empty(reply, self.set_attribute(number.0, name.as_bytes(), value, flags));
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _gate = self.enter();
        sized(reply, size, self.attribute(number.0, name.as_bytes()));
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let _gate = self.enter();
        sized(reply, size, self.attribute_names(number.0));
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let _gate = self.enter();
        empty(reply, self.remove_attribute(number.0, name.as_bytes()));
    }

    fn fallocate(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.allocate(handle.0, offset, len, mode));
    }

    fn lseek(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.find_data(handle.0, offset, whence) {
            Ok(found) => reply.offset(found as i64),
            Err(error) => reply.error(refused(error)),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        from_handle: FileHandle,
        mut from_offset: u64,
        _to: INodeNo,
        to_handle: FileHandle,
        mut to_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copied = self.handles.get(from_handle.0).and_then(|from| {
            let to = self.handles.get(to_handle.0)?;
            // The answer has 32 bits.
            let len = usize::try_from(len).unwrap_or(usize::MAX).min(1 << 30);
            copy_file_range(&from.file, Some(&mut from_offset), &to.file, Some(&mut to_offset), len)
        });
        match copied {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(refused(error)),
        }
    }
}
