//! Walking a tree in the order of its paths. Each directory is held open while it is walked, no link is followed, and
//! neither a deep nor a wide tree takes more than a bounded amount of memory.

use std::{
    cmp::Ordering,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

use agentiso_proto::RawPath;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use crate::{
    error::{During, Outcome, refused, shown},
    glob::Glob,
    paths::{checked, file_type, open_directory},
    stream::Stream,
};

/// Names held at once, those of all directories on the way included.
const MAX_NAMES: usize = 256 * 1024;
/// Longest path below the root.
const MAX_PATH: usize = 4096;
/// These are not entered from above: what is in them are no files.
const NO_FILES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A walk.
pub(crate) struct Walk<'a> {
    stream: &'a Stream,
    hidden: bool,
    /// Only what may lead to a match of this is entered.
    glob: Option<&'a Glob>,
    avoided: Vec<(u64, u64)>,
    levels: Vec<Level>,
    names: usize,
    truncated: bool,
}

/// Something on the way.
pub(crate) struct Visited {
    /// Where it is.
    pub(crate) directory: Rc<OwnedFd>,
    pub(crate) name: Vec<u8>,
    /// Below the root.
    pub(crate) path: RawPath,
    pub(crate) kind: FileType,
}

struct Level {
    directory: Rc<OwnedFd>,
    path: RawPath,
    /// The last comes first.
    steps: Vec<Step>,
}

/// A directory is a step itself, and entering it is another: names may come in between.
struct Step {
    name: Vec<u8>,
    kind: FileType,
    enters: bool,
}

impl Step {
    /// Compares the paths of what the steps lead to.
    fn compare(&self, other: &Self) -> Ordering {
        let slash = |step: &Self| if step.enters { &b"/"[..] } else { b"" };
        self.name.iter().chain(slash(self)).cmp(other.name.iter().chain(slash(other)))
    }
}

impl<'a> Walk<'a> {
    /// Starts below a directory.
    pub(crate) fn start(
        stream: &'a Stream,
        root: &[u8],
        hidden: bool,
        glob: Option<&'a Glob>,
    ) -> Outcome<Self> {
        let directory = open_directory(checked(root)?)?;
        let avoided =
            NO_FILES.iter().filter_map(|path| rustix::fs::statat(CWD, *path, AtFlags::empty()).ok());
        let avoided = avoided.map(|stat| (stat.st_dev, stat.st_ino)).collect();
        let mut walk = Self { stream, hidden, glob, avoided, levels: Vec::new(), names: 0, truncated: false };
        walk.enter(directory, RawPath::new())?;
        Ok(walk)
    }

    /// Something was left out because there was too much of it.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// The next thing on the way.
    pub(crate) fn next(&mut self) -> Outcome<Option<Visited>> {
        loop {
            self.stream.check()?;
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(step) = level.steps.pop() else {
                self.levels.pop();
                continue;
            };
            self.names -= 1;
            let path = if level.path.is_empty() {
                step.name.clone()
            } else {
                [&level.path, &b"/"[..], &step.name].concat()
            };
            if path.len() > MAX_PATH {
                self.truncated = true;
                continue;
            }
            let directory = Rc::clone(&level.directory);
            if !step.enters {
                return Ok(Some(Visited { directory, name: step.name, path, kind: step.kind }));
            }
            if self.glob.is_none_or(|glob| glob.may_match_below(&path))
                && let Some(inner) = open(&directory, &step.name, OFlags::DIRECTORY, &path)?
                && !self.is_avoided(&inner)
            {
                self.enter(inner, path)?;
            }
        }
    }

    fn is_avoided(&self, directory: &OwnedFd) -> bool {
        rustix::fs::fstat(directory).is_ok_and(|stat| self.avoided.contains(&(stat.st_dev, stat.st_ino)))
    }

    fn enter(&mut self, directory: OwnedFd, path: RawPath) -> Outcome<()> {
        let reading = || format!("reading the directory {}", shown(&path));
        let mut steps = Vec::new();
        for entry in Dir::read_from(&directory).during(reading)? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) if is_serious(errno) => return Err(refused(reading(), errno)),
                Err(_) => break,
            };
            let name = entry.file_name();
            let bytes = name.to_bytes();
            if matches!(bytes, b"." | b"..") || (bytes.starts_with(b".") && !self.hidden) {
                continue;
            }
            if self.names + steps.len() >= MAX_NAMES {
                self.truncated = true;
                break;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => file_type(&stat),
                    Err(_) => continue,
                },
                kind => kind,
            };
            if kind == FileType::Directory {
                steps.push(Step { name: bytes.to_vec(), kind, enters: true });
            }
            steps.push(Step { name: bytes.to_vec(), kind, enters: false });
        }
        steps.sort_unstable_by(|one, other| other.compare(one));
        self.names += steps.len();
        self.levels.push(Level { directory: Rc::new(directory), path, steps });
        Ok(())
    }
}

/// Opens something on the way, itself and not what it leads to; `None` if it has gone, has become something else or may
/// not be read.
pub(crate) fn open(directory: &OwnedFd, name: &[u8], kind: OFlags, path: &[u8]) -> Outcome<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory.as_fd(), name, flags | kind, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(errno) if is_serious(errno) => Err(refused(format!("opening {}", shown(path)), errno)),
        Err(_) => Ok(None),
    }
}

/// Whether something is wrong with the machine, and not only with one file that went or may not be read.
fn is_serious(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_in_a_directory_comes_in_the_order_of_whole_paths() {
        let step = |name: &str, enters| Step { name: name.into(), kind: FileType::Unknown, enters };
        let mut steps = [step("a", true), step("a", false), step("a.b", false), step("a0", false)];
        steps.sort_by(Step::compare);
        let order: Vec<_> = steps.iter().map(|step| (step.name.as_slice(), step.enters)).collect();
        assert_eq!(order, [(&b"a"[..], false), (b"a.b", false), (b"a", true), (b"a0", false)]);
    }

    proptest! {
        #[test]
        fn steps_compare_as_the_paths_they_lead_to(
            one in "[a-b./0]{1,4}", other in "[a-b./0]{1,4}", enters: (bool, bool), inner in "[a-b.]{1,2}",
        ) {
            let (one, other) = (one.replace('/', "-"), other.replace('/', "-"));
            let step = |name: &str, enters| Step { name: name.into(), kind: FileType::Unknown, enters };
            let path = |name: &str, enters| if enters { format!("{name}/{inner}") } else { name.to_owned() };
            let (left, right) = (path(&one, enters.0), path(&other, enters.1));
            // Within one directory no name is there twice.
            prop_assume!(one != other || enters.0 != enters.1);
            prop_assert_eq!(step(&one, enters.0).compare(&step(&other, enters.1)), left.cmp(&right));
        }
    }
}
