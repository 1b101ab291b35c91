//! Calls on the content of files: opening, reading, writing.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use fuser::{FileAttr, Request};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, fstat, ftruncate, open, openat, seek};
use rustix::io::Errno;

use super::attributes::{Wanted, attributes, open_file};
use super::filesystem::Overlaid;

/// Flags that concern the program's own descriptor, or that the kernel has dealt with.
const KEPT: OFlags = OFlags::ACCMODE.union(OFlags::SYNC).union(OFlags::DSYNC).union(OFlags::TRUNC);

impl Overlaid {
    pub(super) fn open_again(&self, number: u64, flags: OFlags) -> Result<u64, Errno> {
        let fd = self.nodes.get(number)?;
        let opened = open(open_file(fd.as_fd()), flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(self.handles.add(File::from(opened)))
    }

    pub(super) fn open_content(&self, number: u64, flags: i32) -> Result<u64, Errno> {
        self.open_again(number, OFlags::from_bits_retain(flags as u32) & KEPT)
    }

    pub(super) fn make_file(
        &self,
        request: &Request,
        parent: u64,
        name: &[u8],
        mode: u32,
        flags: i32,
    ) -> Result<(FileAttr, u64), Errno> {
        let directory = self.nodes.get(parent)?;
        let wanted = OFlags::from_bits_retain(flags as u32) & (KEPT | OFlags::EXCL);
        let flags = wanted | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd: OwnedFd = openat(directory.as_fd(), name, flags, Mode::from_raw_mode(mode & 0o7777))?;
        self.give(request, directory.as_fd(), name)?;
        let found = self.find(parent, name)?;
        Ok((found, self.handles.add(File::from(fd))))
    }

    pub(super) fn read_content(&self, handle: u64, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let handle = self.handles.get(handle)?;
        let mut bytes = vec![0; size as usize];
        let mut len = 0;
        while let Some(rest) = bytes.get_mut(len..).filter(|rest| !rest.is_empty()) {
            match handle.file.read_at(rest, offset + len as u64).map_err(errno)? {
                0 => break,
                read => len += read,
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    pub(super) fn write_content(&self, handle: u64, offset: u64, bytes: &[u8]) -> Result<u32, Errno> {
        let written = self.handles.get(handle)?.file.write_at(bytes, offset).map_err(errno)?;
        Ok(written as u32)
    }

    pub(super) fn allocate(&self, handle: u64, offset: u64, len: u64, mode: i32) -> Result<(), Errno> {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        fallocate(&self.handles.get(handle)?.file, mode, offset, len)
    }

    pub(super) fn find_data(&self, handle: u64, offset: i64, whence: i32) -> Result<u64, Errno> {
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let position = match whence {
            libc::SEEK_DATA => SeekFrom::Data(offset),
            libc::SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        seek(&self.handles.get(handle)?.file, position)
    }

    pub(super) fn change(
        &self,
        number: u64,
        handle: Option<u64>,
        size: Option<u64>,
        wanted: Wanted,
    ) -> Result<FileAttr, Errno> {
        let fd = self.nodes.get(number)?;
        if let Some(size) = size {
            match handle {
                Some(handle) => ftruncate(&self.handles.get(handle)?.file, size)?,
                None => {
                    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
                    ftruncate(open(open_file(fd.as_fd()), flags, Mode::empty())?, size)?;
                }
            }
        }
        wanted.apply(fd.as_fd())?;
        Ok(attributes(number, &fstat(fd.as_fd())?))
    }
}

pub(super) fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
