//! Checks paths from the host and opens the directories they lead through.

use std::os::fd::OwnedFd;

use agentiso_proto::Response;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::error::{During, Outcome, invalid, not_found, shown};

/// The kernel's limit (PATH_MAX without the NUL).
const MAX_PATH: usize = 4095;
/// Maximum number of symbolic links followed in the last component.
const MAX_LINKS: usize = 40;
const DIRECTORY_MODE: u32 = 0o755;
const SET_ID_BITS: u32 = 0o6000;

/// Rejects anything but an absolute path.
pub(crate) fn checked(path: &[u8]) -> Outcome<&[u8]> {
    if path.contains(&0) {
        return Err(invalid("the path contains a NUL"));
    }
    if path.len() > MAX_PATH {
        return Err(invalid(format!("the path is longer than {MAX_PATH} bytes")));
    }
    if !path.starts_with(b"/") {
        return Err(invalid(format!("the path {:?} is not absolute", shown(path))));
    }
    Ok(path)
}

/// Converts the permission bits of a request.
pub(crate) fn mode(bits: u32) -> Outcome<Mode> {
    if bits & !0o7777 != 0 {
        return Err(invalid(format!("{bits:#o} is not a valid mode")));
    }
    Ok(Mode::from_raw_mode(bits))
}

/// An open directory and the name of an entry in it.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) directory: OwnedFd,
    pub(crate) name: Vec<u8>,
}

/// Opens the directory that contains the last component of a path.
pub(crate) fn locate(path: &[u8], create_parents: bool) -> Outcome<Located> {
    let (parent, name) = split(checked(path)?)?;
    if create_parents {
        make_directories(parent)?;
    }
    let directory = open_directory(parent)?;
    Ok(Located { directory, name: name.to_vec() })
}

/// Like [`locate`], but follows symbolic links in the last component, even to a file that does not exist.
pub(crate) fn locate_through_links(path: &[u8], create_parents: bool) -> Outcome<Located> {
    let mut path = checked(path)?.to_vec();
    for _ in 0..MAX_LINKS {
        let located = locate(&path, create_parents)?;
        let target = match rustix::fs::readlinkat(&located.directory, &*located.name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL | Errno::NOENT) => return Ok(located),
            Err(errno) => return Err(crate::error::refused(format!("examining {}", shown(&path)), errno)),
        };
        path = if target.starts_with(b"/") {
            target
        } else {
            let (parent, _) = split(&path)?;
            [parent, b"/", &target].concat()
        };
        checked(&path)?;
    }
    Err(invalid(format!("too many symbolic links at {}", shown(&path))))
}

/// Opens a directory for calls relative to it.
pub(crate) fn open_directory(path: &[u8]) -> Outcome<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).during(|| format!("opening the directory {}", shown(path)))
}

/// Handles a request to create a directory.
pub(crate) fn make_directory(path: &[u8], bits: Option<u32>, parents: bool) -> Outcome<Response> {
    let bits = bits.unwrap_or(DIRECTORY_MODE);
    let permissions = mode(bits)?;
    let trimmed = trim(checked(path)?);
    if parents {
        let (parent, _) = split(trimmed).unwrap_or((b"/", b""));
        make_directories(parent)?;
    }
    match rustix::fs::mkdir(trimmed, permissions) {
        // mkdir ignores the set-id bits.
        Ok(()) if bits & SET_ID_BITS != 0 => rustix::fs::chmod(trimmed, permissions),
        Err(Errno::EXIST) if parents && is_directory(trimmed) => Ok(()),
        result => result,
    }
    .during(|| format!("creating the directory {}", shown(path)))?;
    Ok(Response::Done)
}

/// Creates the missing directories of a path.
pub(crate) fn make_directories(path: &[u8]) -> Outcome<()> {
    if is_directory(path) {
        return Ok(());
    }
    let ends = path.iter().enumerate().skip(1).filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        match rustix::fs::mkdir(&path[..end], Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                return Err(crate::error::refused(
                    format!("creating the directory {}", shown(&path[..end])),
                    errno,
                ));
            }
        }
    }
    Ok(())
}

/// Reads a small regular file. Other types are rejected: reading them might block, or never end.
pub(crate) fn read_small(path: &[u8], limit: usize) -> Outcome<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty()).during(|| format!("opening {}", shown(path)))?;
    let stat = rustix::fs::fstat(&fd).during(|| format!("examining {}", shown(path)))?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(invalid(format!("{} is not a regular file", shown(path))));
    }
    let mut content = Vec::new();
    let mut piece = [0; 4096];
    while content.len() < limit {
        match rustix::io::read(&fd, &mut piece) {
            Ok(0) => return Ok(content),
            Ok(count) => content.extend_from_slice(&piece[..count]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(crate::error::refused(format!("reading {}", shown(path)), errno)),
        }
    }
    Err(invalid(format!("{} is longer than {limit} bytes", shown(path))))
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// The status of an entry without following links, or `None` if it does not exist.
pub(crate) fn status_of(located: &Located) -> Outcome<Option<Stat>> {
    match rustix::fs::statat(&located.directory, &*located.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(crate::error::refused(format!("examining {}", shown(&located.name)), errno)),
    }
}

fn is_directory(path: &[u8]) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::empty()).is_ok_and(|stat| file_type(&stat) == FileType::Directory)
}

/// Splits a path into parent and name. Fails if the last component is empty, `.` or `..`.
fn split(path: &[u8]) -> Outcome<(&[u8], &[u8])> {
    let path = trim(path);
    let at =
        path.iter().rposition(|&byte| byte == b'/').ok_or_else(|| invalid("the path is not absolute"))?;
    let (parent, name) = (&path[..at], &path[at + 1..]);
    if matches!(name, b"" | b"." | b"..") {
        return Err(not_found(format!("{} does not name a file", shown(path))));
    }
    Ok((if parent.is_empty() { b"/" } else { parent }, name))
}

fn trim(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    &path[..end.max(1).min(path.len())]
}

#[cfg(test)]
mod tests {
    use agentiso_proto::ErrorKind;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_absolute_paths_of_limited_length_without_nul_are_accepted() {
        assert!(checked(b"/").is_ok() && checked(b"/a/../b").is_ok());
        for bad in [&b""[..], b"a", b"./a", b"/a\0", &[b'/'; 4096]] {
            assert_eq!(checked(bad).unwrap_err().kind, ErrorKind::Invalid);
        }
    }

    #[test]
    fn a_path_splits_into_its_directory_and_its_name() {
        assert_eq!(split(b"/a").unwrap(), (&b"/"[..], &b"a"[..]));
        assert_eq!(split(b"/a/b//").unwrap(), (&b"/a"[..], &b"b"[..]));
        for bad in [&b"/"[..], b"//", b"/a/.", b"/a/.."] {
            assert_eq!(split(bad).unwrap_err().kind, ErrorKind::NotFound);
        }
    }

    #[test]
    fn mode_bits_beyond_the_permissions_are_rejected() {
        assert!(mode(0o7777).is_ok());
        assert_eq!(mode(0o100_644).unwrap_err().kind, ErrorKind::Invalid);
    }

    proptest! {
        #[test]
        fn splitting_never_panics_and_names_contain_no_slash(path in any::<Vec<u8>>()) {
            if let Ok((_, name)) = split(&path) {
                prop_assert!(!name.is_empty() && !name.contains(&b'/'));
            }
        }
    }
}
