//! Sends a tree in one depth-first pass. Each directory stays open while it is walked, so that no entry is looked up by
//! a path that another process may be changing.

use std::{
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use agentiso_proto::{Channel, Kind, RawPath, Response, TreeEntry, TreeKind, encode_entry};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::{
    error::{During, OrInvalid, Outcome, invalid, refused, shown},
    frames::{DataFrame, Scratch},
    list::modified_ns,
    paths::{checked, file_type, locate, open_directory, status_of},
    stream::Stream,
    tree_metadata::read_xattrs,
};

/// Maximum number of hard-linked files to remember until all their names were found. Beyond that, each name is sent as
/// a separate file.
const MAX_LINKED: usize = 65_536;
/// Limit on the length of a path in a tree.
const MAX_PATH: usize = 4096;

/// Sends the tree below a path, or a single file.
pub(crate) fn send(stream: &Stream, path: &[u8], scratch: &mut Scratch) -> Outcome<Response> {
    let mut sender = Sender {
        out: Outflow { stream, frame: &mut scratch.data },
        linked: HashMap::new(),
        levels: Vec::new(),
    };
    if checked(path)?.iter().all(|&byte| byte == b'/') {
        sender.enter(open_directory(path)?, RawPath::new())?;
    } else {
        let located = locate(path, false)?;
        let stat =
            status_of(&located)?.ok_or(Errno::NOENT).during(|| format!("examining {}", shown(path)))?;
        sender.entry(located.directory.as_fd(), &located.name, RawPath::new(), &stat)?;
    }
    while sender.step()? {}
    sender.out.write(&0_u32.to_le_bytes())?;
    sender.out.flush()?;
    stream.append(Kind::Eof, Channel::Main, &[], &mut scratch.tail);
    Ok(Response::Done)
}

struct Sender<'a> {
    out: Outflow<'a>,
    linked: HashMap<(u64, u64), Linked>,
    levels: Vec<Level>,
}

/// A file with several hard links.
struct Linked {
    first: RawPath,
    names_left: u64,
}

/// A directory that is being walked.
struct Level {
    fd: OwnedFd,
    entries: Dir,
    path: RawPath,
}

impl Sender<'_> {
    /// Sends the next entry of the innermost directory. Returns whether there may be more.
    fn step(&mut self) -> Outcome<bool> {
        let Some(level) = self.levels.last_mut() else { return Ok(false) };
        let Some(entry) = level.entries.read() else {
            self.levels.pop();
            return Ok(true);
        };
        let entry = entry.during(|| format!("reading the directory {}", shown(&level.path)))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            return Ok(true);
        }
        let path = joined(&level.path, name.to_bytes())?;
        let stat = match rustix::fs::statat(&level.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(true),
            Err(errno) => return Err(refused(format!("examining {}", shown(&path)), errno)),
        };
        // Taken off the stack while its entry is sent, which may push another level.
        let Some(level) = self.levels.pop() else { return Ok(false) };
        let at = self.levels.len();
        let sent = self.entry(level.fd.as_fd(), name.to_bytes(), path, &stat);
        self.levels.insert(at, level);
        sent?;
        Ok(true)
    }

    fn entry(&mut self, parent: BorrowedFd<'_>, name: &[u8], path: RawPath, stat: &Stat) -> Outcome<()> {
        if file_type(stat) != FileType::Directory && stat.st_nlink > 1 {
            if let Some(first) = self.earlier_name(stat) {
                return self.header(TreeKind::Hardlink { target: first }, path, stat, Vec::new());
            }
            self.remember(stat, &path);
        }
        let device = |block| TreeKind::Device {
            block,
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        };
        match file_type(stat) {
            FileType::Directory => {
                let Some(fd) = open(parent, name, &path, OFlags::DIRECTORY)? else { return Ok(()) };
                self.enter(fd, path)
            }
            FileType::RegularFile => {
                let Some(fd) = open(parent, name, &path, OFlags::NONBLOCK)? else { return Ok(()) };
                self.file(fd.as_fd(), path)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(parent, name, Vec::new())
                    .during(|| format!("reading the link {}", shown(&path)))?;
                self.header(TreeKind::Symlink { target: target.into_bytes() }, path, stat, Vec::new())
            }
            FileType::BlockDevice => self.header(device(true), path, stat, Vec::new()),
            FileType::CharacterDevice => self.header(device(false), path, stat, Vec::new()),
            FileType::Fifo => self.header(TreeKind::Fifo, path, stat, Vec::new()),
            // A socket is useless without the process that serves it, but its name is sent.
            FileType::Socket => self.header(TreeKind::Socket, path, stat, Vec::new()),
            _ => Ok(()),
        }
    }

    fn enter(&mut self, fd: OwnedFd, path: RawPath) -> Outcome<()> {
        let stat = rustix::fs::fstat(&fd).during(|| format!("examining {}", shown(&path)))?;
        let xattrs = read_xattrs(fd.as_fd(), &path)?;
        self.header(TreeKind::Directory, path.clone(), &stat, xattrs)?;
        let entries = Dir::read_from(&fd).during(|| format!("reading the directory {}", shown(&path)))?;
        self.levels.push(Level { fd, entries, path });
        Ok(())
    }

    /// Sends exactly as many bytes as announced. Bytes appended meanwhile are left out; truncation is an error.
    fn file(&mut self, fd: BorrowedFd<'_>, path: RawPath) -> Outcome<()> {
        let stat = rustix::fs::fstat(fd).during(|| format!("examining {}", shown(&path)))?;
        if file_type(&stat) != FileType::RegularFile {
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let xattrs = read_xattrs(fd, &path)?;
        self.header(TreeKind::File { size }, path.clone(), &stat, xattrs)?;
        let mut left = size;
        while left > 0 {
            let space = self.out.space()?;
            let limit = usize::try_from(left).unwrap_or(usize::MAX).min(space.len());
            match rustix::io::read(fd, &mut space[..limit]) {
                Ok(0) => {
                    return Err(invalid(format!("{} was truncated while it was being sent", shown(&path))));
                }
                Ok(count) => {
                    left -= count as u64;
                    self.out.frame.advance(count);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(format!("reading {}", shown(&path)), errno)),
            }
        }
        Ok(())
    }

    fn header(
        &mut self,
        kind: TreeKind,
        path: RawPath,
        stat: &Stat,
        xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Outcome<()> {
        let entry = TreeEntry {
            kind,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            modified_ns: modified_ns(stat),
            xattrs,
            path,
        };
        let mut bytes = Vec::new();
        encode_entry(&entry, &mut bytes).or_invalid(|| shown(&entry.path))?;
        self.out.write(&bytes)
    }

    /// The name under which this file was already sent.
    fn earlier_name(&mut self, stat: &Stat) -> Option<RawPath> {
        let key = (stat.st_dev, stat.st_ino);
        let linked = self.linked.get_mut(&key)?;
        let first = linked.first.clone();
        linked.names_left -= 1;
        if linked.names_left == 0 {
            self.linked.remove(&key);
        }
        Some(first)
    }

    fn remember(&mut self, stat: &Stat, path: &[u8]) {
        if self.linked.len() < MAX_LINKED {
            let linked = Linked { first: path.to_vec(), names_left: stat.st_nlink - 1 };
            self.linked.insert((stat.st_dev, stat.st_ino), linked);
        }
    }
}

/// Opens an entry without following links. Returns `None` if it is gone or has changed its type.
fn open(parent: BorrowedFd<'_>, name: &[u8], path: &[u8], kind: OFlags) -> Outcome<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC | kind;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO) => Ok(None),
        Err(errno) => Err(refused(format!("opening {}", shown(path)), errno)),
    }
}

fn joined(directory: &[u8], name: &[u8]) -> Outcome<RawPath> {
    let path = if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() };
    if path.len() > MAX_PATH {
        return Err(invalid(format!("a path in the tree is longer than {MAX_PATH} bytes")));
    }
    Ok(path)
}

/// Fills data frames completely before sending them.
struct Outflow<'a> {
    stream: &'a Stream,
    frame: &'a mut DataFrame,
}

impl Outflow<'_> {
    /// Returns free space, never empty.
    fn space(&mut self) -> Outcome<&mut [u8]> {
        if self.frame.space().is_empty() {
            self.flush()?;
        }
        Ok(self.frame.space())
    }

    fn write(&mut self, mut bytes: &[u8]) -> Outcome<()> {
        while !bytes.is_empty() {
            let space = self.space()?;
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            self.frame.advance(count);
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn flush(&mut self) -> Outcome<()> {
        if self.frame.filled() == 0 {
            return Ok(());
        }
        self.stream.send_data(Channel::Main, self.frame)
    }
}
