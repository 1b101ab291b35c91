//! Reads, writes, renames and changes single files.

use std::os::fd::{AsFd, BorrowedFd};

use agentiso_proto::{Channel, Kind, Response};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};

use crate::{
    atomic::{self, write_all},
    error::{During, Outcome, invalid, refused, shown},
    frames::Scratch,
    list,
    paths::{self, checked, file_type, locate_through_links},
    stream::Stream,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOptions {
    pub(crate) mode: Option<u32>,
    pub(crate) append: bool,
    pub(crate) parents: bool,
}

/// Sends a file, or part of it.
pub(crate) fn read(
    stream: &Stream,
    path: &[u8],
    offset: u64,
    length: Option<u64>,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    // Non-blocking: opening a FIFO without a writer must not block the worker before the type is checked.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(checked(path)?, flags, Mode::empty())
        .during(|| format!("opening {}", shown(path)))?;
    let stat = rustix::fs::fstat(&file).during(|| format!("examining {}", shown(path)))?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(invalid(format!("{} is not a regular file", shown(path))));
    }
    stream.respond(&Response::Metadata(list::metadata(&stat, None)))?;
    let mut position = offset;
    let mut left = length.unwrap_or(u64::MAX);
    while left > 0 {
        let space = scratch.data.space();
        let limit = usize::try_from(left).unwrap_or(usize::MAX).min(space.len());
        match rustix::io::pread(&file, &mut space[..limit], position) {
            Ok(0) => break,
            Ok(count) => {
                position += count as u64;
                left -= count as u64;
                scratch.data.advance(count);
                stream.send_data(Channel::Main, &mut scratch.data)?;
            }
            Err(Errno::INTR) => {}
            // An offset beyond what any file can have is past the end.
            Err(Errno::INVAL | Errno::OVERFLOW) if position > i64::MAX as u64 => break,
            Err(errno) => return Err(refused(format!("reading {}", shown(path)), errno)),
        }
    }
    stream.append(Kind::Eof, Channel::Main, &[], &mut scratch.tail);
    Ok(Response::Done)
}

/// Receives a file.
pub(crate) fn write(stream: &Stream, path: &[u8], options: WriteOptions) -> Outcome<Response> {
    if let Some(bits) = options.mode {
        paths::mode(bits)?;
    }
    let located = locate_through_links(path, options.parents)?;
    let bytes = if options.append {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW;
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let mode = Mode::from_raw_mode(options.mode.unwrap_or(0o644));
        let file = rustix::fs::openat(&located.directory, &*located.name, flags, mode)
            .during(|| format!("opening {}", shown(path)))?;
        let stat = rustix::fs::fstat(&file).during(|| format!("examining {}", shown(path)))?;
        if file_type(&stat) != FileType::RegularFile {
            return Err(invalid(format!("{} is not a regular file", shown(path))));
        }
        let bytes = receive(stream, file.as_fd(), path)?;
        if let Some(bits) = options.mode {
            rustix::fs::fchmod(&file, paths::mode(bits)?).during(|| "setting the mode")?;
        }
        bytes
    } else {
        atomic::replace(&located, options.mode, |file| receive(stream, file, path))?
    };
    Ok(Response::Written { bytes })
}

fn receive(stream: &Stream, file: BorrowedFd<'_>, path: &[u8]) -> Outcome<u64> {
    let mut bytes = 0;
    while let Some(data) = stream.receive()? {
        write_all(file, &data).during(|| format!("writing {}", shown(path)))?;
        bytes += data.len() as u64;
    }
    Ok(bytes)
}

/// Renames a file or directory.
pub(crate) fn rename(from: &[u8], to: &[u8], overwrite: bool) -> Outcome<Response> {
    let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    rustix::fs::renameat_with(CWD, checked(from)?, CWD, checked(to)?, flags)
        .during(|| format!("renaming {} to {}", shown(from), shown(to)))?;
    Ok(Response::Done)
}

/// Changes the permission bits of a path.
pub(crate) fn change_mode(path: &[u8], bits: u32) -> Outcome<Response> {
    rustix::fs::chmod(checked(path)?, paths::mode(bits)?)
        .during(|| format!("changing the mode of {}", shown(path)))?;
    Ok(Response::Done)
}
