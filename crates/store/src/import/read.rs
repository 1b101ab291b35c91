//! Reads one entry of a directory of the host.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, fstat, openat, readlinkat, seek, statat};
use rustix::io::{Errno, pread};

use super::attributes;
use super::cache::StatCache;
use super::report::Reason;
use crate::content::{push_chunk, put_recipe, recipe, store_bytes};
use crate::error::StoreError;
use crate::id::ObjectId;
use crate::limits::{CHUNK, MAX_FILE};
use crate::node::{Content, File, Meta, Node, Time};
use crate::object::{Attributes, Recipe, Segment};
use crate::session::Session;

/// How often a file that changes is read.
const ATTEMPTS: usize = 4;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What became of an entry.
pub(super) enum Outcome {
    /// It is in the tree; the file may have changed while it was read.
    Kept { node: Node, stat: Box<Stat>, is_reused: bool, is_unstable: bool },
    /// It is not.
    Left(Reason),
}

/// Why an entry could not be read.
pub(super) enum Failure {
    Host(&'static str, Errno),
    Store(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

enum Once {
    Done(Outcome),
    /// It changed, was replaced or vanished in the middle; this is what was read, if anything.
    Changed(Option<Outcome>),
}

/// Reads an entry that is not a directory.
pub(super) fn entry(
    session: &Session,
    directory: BorrowedFd<'_>,
    name: &[u8],
    cache: Option<&StatCache>,
) -> Result<Outcome, Failure> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        match once(session, directory, name, cache)? {
            Once::Done(outcome) => return Ok(outcome),
            Once::Changed(outcome) => last = outcome.or(last),
        }
    }
    Ok(last.unwrap_or(Outcome::Left(Reason::Unstable)))
}

fn once(
    session: &Session,
    directory: BorrowedFd<'_>,
    name: &[u8],
    cache: Option<&StatCache>,
) -> Result<Once, Failure> {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Once::Done(Outcome::Left(Reason::Vanished))),
        Err(error) => return Err(Failure::Host("read", error)),
    };
    let kept = |node| Outcome::Kept { node, stat: Box::new(stat), is_reused: false, is_unstable: false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => regular(session, directory, name, &stat, cache),
        FileType::Symlink => match readlinkat(directory, name, Vec::new()) {
            Ok(target) => {
                let meta = Meta { mode: 0o777, ..meta_of(&stat) };
                let target = target.into_bytes().into();
                Ok(Once::Done(kept(Node::Symlink { meta, target })))
            }
            Err(Errno::NOENT | Errno::INVAL) => Ok(Once::Changed(None)),
            Err(error) => Err(Failure::Host("read", error)),
        },
        FileType::Fifo => Ok(Once::Done(kept(Node::Fifo { meta: meta_of(&stat) }))),
        FileType::Socket => Ok(Once::Done(Outcome::Left(Reason::Socket))),
        // A directory took the place of what was listed.
        FileType::Directory => Ok(Once::Done(Outcome::Left(Reason::Vanished))),
        FileType::CharacterDevice if stat.st_rdev == 0 => Ok(Once::Done(Outcome::Left(Reason::Whiteout))),
        _ => Ok(Once::Done(Outcome::Left(Reason::Device))),
    }
}

fn regular(
    session: &Session,
    directory: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    cache: Option<&StatCache>,
) -> Result<Once, Failure> {
    if let Some(content) = cache.and_then(|cache| cache.find(stat))
        && is_stored(session, content, stat.st_size as u64)
    {
        let file = File { meta: meta_of(stat), size: stat.st_size as u64, content, link: None };
        let node = Node::File(file);
        return Ok(Once::Done(Outcome::Kept {
            node,
            stat: Box::new(*stat),
            is_reused: true,
            is_unstable: false,
        }));
    }
    // Not blocking: the file may be replaced by a pipe before it is opened.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = match openat(directory, name, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(Once::Changed(None)),
        Err(error) => return Err(Failure::Host("open", error)),
    };
    let before = fstat(&fd).map_err(|error| Failure::Host("read", error))?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
        return Ok(Once::Changed(None));
    }
    let size = before.st_size as u64;
    let Some(content) = file_content(session, fd.as_fd(), size)? else { return Ok(Once::Changed(None)) };
    let found = attributes::read(&fd).map_err(|error| Failure::Host("read the attributes of", error))?;
    let meta = Meta { attributes: put_attributes(session, &found)?, ..meta_of(&before) };
    let after = fstat(&fd).map_err(|error| Failure::Host("read", error))?;
    let is_unstable = !is_same(&before, &after);
    let node = Node::File(File { meta, size, content, link: None });
    let outcome = Outcome::Kept { node, stat: Box::new(before), is_reused: false, is_unstable };
    Ok(if is_unstable { Once::Changed(Some(outcome)) } else { Once::Done(outcome) })
}

/// Whether nothing touched the file between two calls of `stat`.
pub(super) fn is_same(a: &Stat, b: &Stat) -> bool {
    let key = |stat: &Stat| {
        (stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
    };
    key(a) == key(b)
}

/// Whether all blobs of a content are there. From then on the session keeps them.
fn is_stored(session: &Session, content: Content, size: u64) -> bool {
    match content {
        Content::Empty => true,
        Content::Blob(id) => session.has(&id),
        Content::Chunked(id) => {
            session.has(&id)
                && recipe(session, &id, size).is_ok_and(|recipe| {
                    recipe.segments().iter().all(|segment| match segment {
                        Segment::Hole(_) => true,
                        Segment::Data(id) => session.has(id),
                    })
                })
        }
    }
}

/// Stores the first `size` bytes of an open file; nothing if it has fewer, because it became shorter.
fn file_content(session: &Session, fd: BorrowedFd<'_>, size: u64) -> Result<Option<Content>, Failure> {
    if size > MAX_FILE {
        return Err(StoreError::invalid("the file", "it is too large to be stored").into());
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(CHUNK, 0);
        if size > CHUNK as u64 {
            return large(session, fd, size, buffer);
        }
        let bytes = buffer.get_mut(..size as usize).unwrap_or_default();
        if read_full(fd, bytes, 0)? < bytes.len() {
            return Ok(None);
        }
        Ok(Some(store_bytes(session, bytes)?))
    })
}

fn large(
    session: &Session,
    fd: BorrowedFd<'_>,
    size: u64,
    room: &mut [u8],
) -> Result<Option<Content>, Failure> {
    let chunk_len = CHUNK as u64;
    let mut recipe = Recipe::default();
    let mut at = 0;
    let mut may_be_hole = true;
    while at < size {
        if may_be_hole {
            let data = match seek(fd, SeekFrom::Data(at)) {
                Ok(data) => data,
                Err(Errno::NXIO) => size,
                // The file system does not know its holes.
                Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
                Err(error) => return Err(Failure::Host("read", error)),
            };
            let skipped =
                if data >= size { (size - at).div_ceil(chunk_len) } else { (data - at) / chunk_len };
            recipe.push_hole(skipped);
            at += skipped * chunk_len;
            if at >= size {
                break;
            }
        }
        let want = chunk_len.min(size - at) as usize;
        let bytes = room.get_mut(..want).unwrap_or_default();
        let len = read_full(fd, bytes, at)?;
        if len < want {
            return Ok(None);
        }
        let before = recipe.segments().len();
        push_chunk(session, &mut recipe, bytes)?;
        may_be_hole =
            recipe.segments().len() == before || matches!(recipe.segments().last(), Some(Segment::Hole(_)));
        at += want as u64;
    }
    Ok(Some(put_recipe(session, recipe, size)?))
}

fn read_full(fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
    let mut len = 0;
    while let Some(rest) = buffer.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match pread(fd, rest, offset + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::Host("read", error)),
        }
    }
    Ok(len)
}

pub(crate) fn meta_of(stat: &Stat) -> Meta {
    Meta {
        mode: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: Time { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
        attributes: None,
    }
}

pub(super) fn put_attributes(session: &Session, found: &Attributes) -> Result<Option<ObjectId>, StoreError> {
    if found.0.is_empty() {
        return Ok(None);
    }
    session.put(crate::id::ObjectKind::Attributes, &found.encode()?).map(Some)
}
