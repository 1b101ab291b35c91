//! The part of the transfer directory that a session reaches.
//!
//! ```text
//!  TRANSFERS/file                    the operator's: every session may read it, none may write it
//!  TRANSFERS/sessions/SESSION/file   a session's own: only that session reads and writes it
//! ```
//!
//! A session writes `TRANSFERS/file` and means its own; what it reads and does not have is the operator's.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

use agentiso_core::{Code, Failure, SessionId};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::host::Place;
use super::trouble;

/// The directory with the directories of sessions.
const SESSIONS: &str = "sessions";

/// The parts of the transfer directory that a session may use.
pub(super) struct Transfers {
    shared: PathBuf,
    own: PathBuf,
}

impl Transfers {
    /// The parts of a transfer directory that a session may use. Its own directory is created if it does not exist.
    pub fn of(shared: PathBuf, session: SessionId) -> Result<Self, Failure> {
        let own = shared.join(SESSIONS).join(session.to_string());
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&own);
        made.map_err(|error| trouble(&own, &error))?;
        Ok(Self { shared, own })
    }

    /// The place that a path means to the session.
    pub fn place(&self, path: &Path, read: bool) -> Result<Place, Failure> {
        let inside = self.inside(path).ok_or_else(|| self.outside(path))?;
        let own = self.own.join(&inside);
        if !read {
            self.make_parents(&inside).map_err(|error| {
                match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::LOOP | Errno::NOTDIR) => self.outside(path),
                    _ => trouble(&own, &error),
                }
            })?;
            return Place::of(&own, Some(&self.own));
        }
        match Place::of(&own, Some(&self.own)) {
            Ok(place) if place.exists() => Ok(place),
            Err(failure) if failure.code() != Code::FileNotFound => Err(failure),
            _ => Place::without_links(&self.shared.join(&inside), &self.shared),
        }
    }

    /// The path below the session's directory; none if it is not one the session may use.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        let plain = |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_)));
        let inside = match path.strip_prefix(&self.own) {
            Ok(inside) => inside,
            Err(_) => path.strip_prefix(&self.shared).ok().filter(|inside| !inside.starts_with(SESSIONS))?,
        };
        (plain(inside) && inside.file_name().is_some()).then(|| inside.to_owned())
    }

    fn outside(&self, path: &Path) -> Failure {
        let message = format!("{} is not in the transfer directory", path.display());
        Failure::new(Code::PathNotAllowed, message)
            .with_remedy(format!("use a path below {}", self.shared.display()))
    }

    /// Makes the directories above a place of the session's own, following no link.
    fn make_parents(&self, inside: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut directory: OwnedFd = rustix::fs::open(&self.own, flags, Mode::empty())?;
        for part in inside.parent().into_iter().flat_map(Path::components) {
            let name = part.as_os_str();
            match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
            directory = rustix::fs::openat(&directory, name, flags, Mode::empty())?;
        }
        Ok(())
    }
}

/// Removes a session's own directory with all in it. No link is followed, neither on the way to it nor in it.
pub(super) fn remove(shared: &Path, session: SessionId) -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let all = shared.join(SESSIONS);
    let directory = match rustix::fs::open(&all, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(trouble(&all, &errno.into())),
    };
    let own = format!("/proc/self/fd/{}/{session}", directory.as_raw_fd());
    match std::fs::remove_dir_all(own) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(trouble(&all.join(session.to_string()), &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use uuid::Uuid;

    use super::*;

    struct Fixture {
        dir: tempfile::TempDir,
        one: Transfers,
        two: Transfers,
    }

    fn fixture() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let of = |number| {
            let session = SessionId::from_uuid(Uuid::from_u128(number));
            Transfers::of(dir.path().to_owned(), session).unwrap()
        };
        let (one, two) = (of(1), of(2));
        Fixture { dir, one, two }
    }

    fn read(transfers: &Transfers, path: &Path) -> Result<String, Failure> {
        let mut text = String::new();
        transfers.place(path, true)?.open()?.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    fn write(transfers: &Transfers, path: &Path, text: &str) -> Result<PathBuf, Failure> {
        let place = transfers.place(path, false)?;
        fs::write(&place.path, text).unwrap();
        Ok(place.path)
    }

    #[test]
    fn each_session_has_files_of_its_own_and_reads_the_operators() {
        let Fixture { dir, one, two } = fixture();
        let file = dir.path().join("deep/file");
        fs::create_dir(dir.path().join("deep")).unwrap();
        fs::write(&file, "operator").unwrap();
        assert_eq!(read(&one, &file).unwrap(), "operator");
        let written = write(&one, &file, "one").unwrap();
        assert_eq!(read(&one, &file).unwrap(), "one");
        assert_eq!(read(&one, &written).unwrap(), "one", "the path it was told works too");
        assert_eq!(read(&two, &file).unwrap(), "operator");
        assert_eq!(fs::read_to_string(&file).unwrap(), "operator");
        let new = dir.path().join("new/result");
        write(&two, &new, "two").unwrap();
        assert_eq!(read(&one, &new).unwrap_err().code(), Code::FileNotFound);
    }

    #[test]
    fn no_path_and_no_link_leads_to_another_session() {
        let Fixture { dir, one, two } = fixture();
        let secret = write(&two, &dir.path().join("secret"), "two").unwrap();
        let theirs = secret.strip_prefix(dir.path()).unwrap().parent().unwrap().to_owned();
        symlink(two.own.clone(), one.own.join("absolute")).unwrap();
        symlink(Path::new("..").join(two.own.file_name().unwrap()), one.own.join("beside")).unwrap();
        symlink(&theirs, dir.path().join("operators")).unwrap();
        fs::create_dir(dir.path().join("x")).unwrap();
        for path in [
            secret.clone(),
            dir.path().join("x/..").join(&theirs).join("secret"),
            dir.path().join("./").join(&theirs).join("secret"),
            dir.path().join(SESSIONS),
            dir.path().join("absolute/secret"),
            dir.path().join("beside/secret"),
            dir.path().join("operators/secret"),
            one.own.join("../").join(two.own.file_name().unwrap()).join("secret"),
            PathBuf::from("/etc/passwd"),
            dir.path().to_owned(),
        ] {
            let refused = read(&one, &path).unwrap_err();
            assert_eq!(refused.code(), Code::PathNotAllowed, "{}", path.display());
        }
        for path in ["absolute/new", "beside/new"] {
            let refused = one.place(&dir.path().join(path), false).map(drop).unwrap_err();
            assert_eq!(refused.code(), Code::PathNotAllowed, "{path}");
        }
        assert_eq!(fs::read_dir(&two.own).unwrap().count(), 1);
    }

    #[test]
    fn a_session_takes_its_own_files_with_it_and_nothing_that_links_lead_to() {
        let Fixture { dir, one, two } = fixture();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("precious"), "kept").unwrap();
        write(&one, &dir.path().join("deep/result"), "one").unwrap();
        write(&two, &dir.path().join("result"), "two").unwrap();
        symlink(outside.path(), one.own.join("deep/link")).unwrap();
        symlink(&two.own, one.own.join("beside")).unwrap();
        fs::write(dir.path().join("operators"), "kept").unwrap();
        let session = |number| SessionId::from_uuid(Uuid::from_u128(number));

        remove(dir.path(), session(1)).unwrap();
        assert!(!one.own.exists());
        assert!(outside.path().join("precious").exists() && two.own.join("result").exists());
        assert!(dir.path().join("operators").exists());
        remove(dir.path(), session(1)).unwrap();

        // A directory of sessions that is a link leads nowhere.
        let other = tempfile::tempdir().unwrap();
        symlink(dir.path().join(SESSIONS), other.path().join(SESSIONS)).unwrap();
        remove(other.path(), session(2)).unwrap_err();
        assert!(two.own.join("result").exists());
        // Nor does one session's.
        fs::remove_dir_all(&two.own).unwrap();
        symlink(outside.path(), &two.own).unwrap();
        remove(dir.path(), session(2)).unwrap();
        assert!(outside.path().join("precious").exists());
        assert!(fs::symlink_metadata(&two.own).is_err());
    }
}
