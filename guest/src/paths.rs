//! Paths from the host, and the directories they lead through.

use std::os::fd::OwnedFd;

use agentiso_proto::Response;
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use crate::error::{During, Outcome, invalid, not_found, shown};

/// The kernel takes no longer path.
const MAX_PATH: usize = 4095;
/// Symbolic links followed at the end of one path.
const MAX_LINKS: usize = 40;
const DIRECTORY_MODE: u32 = 0o755;
const SET_ID_BITS: u32 = 0o6000;

/// Refuses what is no absolute path.
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

/// The permission bits of a request.
pub(crate) fn mode(bits: u32) -> Outcome<Mode> {
    if bits & !0o7777 != 0 {
        return Err(invalid(format!("{bits:#o} is no set of permission bits")));
    }
    Ok(Mode::from_raw_mode(bits))
}

/// A directory and the name of something in it.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) directory: OwnedFd,
    pub(crate) name: Vec<u8>,
}

/// Opens the directory that holds a path's last component.
pub(crate) fn locate(path: &[u8], create_parents: bool) -> Outcome<Located> {
    let (parent, name) = split(checked(path)?)?;
    if create_parents {
        make_directories(parent)?;
    }
    let directory = open_directory(parent)?;
    Ok(Located { directory, name: name.to_vec() })
}

/// As [`locate`], but for what a symbolic link at the end leads to, whether or not that exists.
pub(crate) fn locate_through_links(path: &[u8], create_parents: bool) -> Outcome<Located> {
    let mut path = checked(path)?.to_vec();
    for _ in 0..MAX_LINKS {
        let located = locate(&path, create_parents)?;
        let target = match rustix::fs::readlinkat(&located.directory, &*located.name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL | Errno::NOENT) => return Ok(located),
            Err(errno) => return Err(crate::error::refused(format!("looking at {}", shown(&path)), errno)),
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

/// A directory, for calls relative to it.
pub(crate) fn open_directory(path: &[u8]) -> Outcome<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).during(|| format!("opening the directory {}", shown(path)))
}

/// Makes a directory as the host asked.
pub(crate) fn make_directory(path: &[u8], bits: Option<u32>, parents: bool) -> Outcome<Response> {
    let bits = bits.unwrap_or(DIRECTORY_MODE);
    let permissions = mode(bits)?;
    let trimmed = trim(checked(path)?);
    if parents {
        let (parent, _) = split(trimmed).unwrap_or((b"/", b""));
        make_directories(parent)?;
    }
    match rustix::fs::mkdir(trimmed, permissions) {
        // The call itself passes these bits over.
        Ok(()) if bits & SET_ID_BITS != 0 => rustix::fs::chmod(trimmed, permissions),
        Err(Errno::EXIST) if parents && is_directory(trimmed) => Ok(()),
        result => result,
    }
    .during(|| format!("making the directory {}", shown(path)))?;
    Ok(Response::Done)
}

/// Makes whatever directories of a path are missing.
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
                    format!("making the directory {}", shown(&path[..end])),
                    errno,
                ));
            }
        }
    }
    Ok(())
}

/// Reads a small regular file. Anything else might never end, or never begin.
pub(crate) fn read_small(path: &[u8], limit: usize) -> Outcome<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = rustix::fs::open(path, flags, Mode::empty()).during(|| format!("opening {}", shown(path)))?;
    let stat = rustix::fs::fstat(&fd).during(|| format!("looking at {}", shown(path)))?;
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

/// What kind of file a status describes.
pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A status without following links; `None` if there is nothing.
pub(crate) fn status_of(located: &Located) -> Outcome<Option<Stat>> {
    match rustix::fs::statat(&located.directory, &*located.name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(crate::error::refused(format!("looking at {}", shown(&located.name)), errno)),
    }
}

fn is_directory(path: &[u8]) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::empty()).is_ok_and(|stat| file_type(&stat) == FileType::Directory)
}

/// The parent and the name. A path that ends in nothing, `.` or `..` names no entry of a directory.
fn split(path: &[u8]) -> Outcome<(&[u8], &[u8])> {
    let path = trim(path);
    let at =
        path.iter().rposition(|&byte| byte == b'/').ok_or_else(|| invalid("the path is not absolute"))?;
    let (parent, name) = (&path[..at], &path[at + 1..]);
    if matches!(name, b"" | b"." | b"..") {
        return Err(not_found(format!("{} names no file", shown(path))));
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
    fn only_absolute_paths_of_a_sane_length_without_nul_are_taken() {
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
    fn mode_bits_beyond_the_permissions_are_refused() {
        assert!(mode(0o7777).is_ok());
        assert_eq!(mode(0o100_644).unwrap_err().kind, ErrorKind::Invalid);
    }

    proptest! {
        #[test]
        fn any_bytes_split_without_panic_and_never_into_a_name_with_a_slash(path in any::<Vec<u8>>()) {
            if let Ok((_, name)) = split(&path) {
                prop_assert!(!name.is_empty() && !name.contains(&b'/'));
            }
        }
    }
}
