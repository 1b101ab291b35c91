//! The process that renames, as `/proc` shows it: its memory, and the files that its paths mean.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

const MAX_PATH: usize = 4096;
const PAGE: u64 = 4096;
/// The kernel's own limit.
const MAX_LINKS: usize = 40;
const PATH_FLAGS: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A thread that waits for the result of its system call.
pub(super) struct Caller {
    pid: u32,
    root: OwnedFd,
}

/// A name in an open directory.
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: Vec<u8>,
}

impl Caller {
    pub(super) fn open(pid: u32) -> Result<Self, Errno> {
        let root = openat(CWD, format!("/proc/{pid}/root"), PATH_FLAGS | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { pid, root })
    }

    /// Reads a path from its memory.
    pub(super) fn string(&self, mut address: u64) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        while text.len() < MAX_PATH {
            // Never across a page: the next one may not be mapped.
            let mut buffer = [0_u8; PAGE as usize];
            let want = ((PAGE - address % PAGE) as usize).min(MAX_PATH - text.len());
            let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: want };
            let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: want };
            // SAFETY: the local part is a buffer of at least that length; the remote part is only read, by the kernel.
            let len = unsafe {
                libc::process_vm_readv(self.pid as i32, &raw const local, 1, &raw const remote, 1, 0)
            };
            if len <= 0 {
                return Err(io::Error::last_os_error());
            }
            let read = buffer.get(..len as usize).unwrap_or_default();
            if let Some(end) = read.iter().position(|byte| *byte == 0) {
                text.extend_from_slice(read.get(..end).unwrap_or_default());
                return Ok(text);
            }
            text.extend_from_slice(read);
            address += len as u64;
        }
        Err(Errno::NAMETOOLONG.into())
    }

    /// Finds the directory and the name that a path of this process means, as the kernel would, but only ever below its
    /// root.
    pub(super) fn place(&self, dirfd: i32, path: &[u8]) -> Result<Place, Errno> {
        let mut at = if path.starts_with(b"/") {
            self.root.try_clone().map_err(|_| Errno::MFILE)?
        } else if dirfd == libc::AT_FDCWD {
            openat(CWD, format!("/proc/{}/cwd", self.pid), PATH_FLAGS | OFlags::DIRECTORY, Mode::empty())?
        } else {
            let path = format!("/proc/{}/fd/{dirfd}", self.pid);
            openat(CWD, path, PATH_FLAGS | OFlags::DIRECTORY, Mode::empty())?
        };
        let mut rest: VecDeque<Vec<u8>> = parts(path).collect();
        let name = rest.pop_back().ok_or(Errno::NOENT)?;
        if matches!(&*name, b"." | b"..") {
            return Err(Errno::BUSY);
        }
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            at = match &*part {
                b"." => continue,
                b".." if is_same(&fstat(&at)?, &fstat(&self.root)?) => continue,
                b".." => openat(&at, c"..", PATH_FLAGS | OFlags::DIRECTORY, Mode::empty())?,
                _ => {
                    let next = openat(&at, &*part, PATH_FLAGS | OFlags::NOFOLLOW, Mode::empty())?;
                    match FileType::from_raw_mode(fstat(&next)?.st_mode) {
                        FileType::Directory => next,
                        FileType::Symlink => {
                            links += 1;
                            if links > MAX_LINKS {
                                return Err(Errno::LOOP);
                            }
                            let target = readlinkat(&next, c"", Vec::new())?.into_bytes();
                            parts(&target).rev().for_each(|part| rest.push_front(part));
                            if !target.starts_with(b"/") {
                                continue;
                            }
                            self.root.try_clone().map_err(|_| Errno::MFILE)?
                        }
                        _ => return Err(Errno::NOTDIR),
                    }
                }
            };
        }
        Ok(Place { directory: at, name })
    }
}

impl Place {
    /// What the name is; a link is not followed.
    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    pub(super) fn device(&self) -> Result<u64, Errno> {
        Ok(fstat(self.directory.as_fd())?.st_dev)
    }
}

fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec)
}

fn is_same(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_mean_what_they_mean_to_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        symlink(at("a"), at("absolute")).unwrap();
        symlink("../a", at("a/relative")).unwrap();
        symlink("loop", at("loop")).unwrap();
        std::fs::write(at("file"), "").unwrap();
        let caller = Caller::open(std::process::id()).unwrap();
        let find = |path: &str| {
            let path = at(path);
            let text = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
            let place = caller.place(libc::AT_FDCWD, text)?;
            Ok::<_, Errno>((fstat(&place.directory)?.st_ino, String::from_utf8(place.name).unwrap()))
        };
        let inode = |name: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(at(name)).unwrap());
        assert_eq!(find("a/b").unwrap(), (inode("a"), "b".to_owned()));
        assert_eq!(find("absolute/b/").unwrap(), (inode("a"), "b".to_owned()));
        assert_eq!(find("a/relative/b/../x").unwrap(), (inode("a"), "x".to_owned()));
        assert_eq!(find("loop/x").unwrap_err(), Errno::LOOP);
        assert_eq!(find("file/x").unwrap_err(), Errno::NOTDIR);
        assert_eq!(find("none/x").unwrap_err(), Errno::NOENT);
        assert_eq!(find("a/..").unwrap_err(), Errno::BUSY);
        assert!(caller.place(libc::AT_FDCWD, b"").is_err());
        let above = caller.place(libc::AT_FDCWD, b"/../../x").unwrap();
        assert!(is_same(&fstat(&above.directory).unwrap(), &fstat(&caller.root).unwrap()));
    }

    #[test]
    fn a_string_is_read_up_to_its_end() {
        let caller = Caller::open(std::process::id()).unwrap();
        let text = format!("{}\0rest", "x".repeat(4000));
        let read = caller.string(text.as_ptr() as u64).unwrap();
        assert_eq!(read, text.split('\0').next().unwrap().as_bytes());
        assert!(caller.string(8).is_err());
    }
}
