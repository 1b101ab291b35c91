//! Walks a tree in path order. Each directory stays open while it is walked, links are not followed, and memory is
//! bounded for deep and for wide trees.

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

/// Limit on the names in memory, over all open directories.
const MAX_NAMES: usize = 256 * 1024;
/// Limit on the length of a path below the root.
const MAX_PATH: usize = 4096;
/// Skipped unless the walk starts inside: they contain no regular files.
const NO_FILES: [&str; 3] = ["/proc", "/sys", "/dev"];

pub(crate) struct Walk<'a> {
    stream: &'a Stream,
    hidden: bool,
    /// Only directories that may contain a match are entered.
    glob: Option<&'a Glob>,
    avoided: Vec<(u64, u64)>,
    levels: Vec<Level>,
    names: usize,
    truncated: bool,
}

/// An entry that the walk has reached.
pub(crate) struct Visited {
    /// The directory that contains it.
    pub(crate) directory: Rc<OwnedFd>,
    pub(crate) name: Vec<u8>,
    /// Relative to the root of the walk.
    pub(crate) path: RawPath,
    pub(crate) kind: FileType,
}

struct Level {
    directory: Rc<OwnedFd>,
    path: RawPath,
    /// In reverse order: the last is visited first.
    steps: Vec<Step>,
}

/// Visiting a directory and entering it are two steps, because other names may sort between them.
struct Step {
    name: Vec<u8>,
    kind: FileType,
    enters: bool,
}

impl Step {
    /// Compares the paths of two steps.
    fn compare(&self, other: &Self) -> Ordering {
        let slash = |step: &Self| if step.enters { &b"/"[..] } else { b"" };
        self.name.iter().chain(slash(self)).cmp(other.name.iter().chain(slash(other)))
    }
}

impl<'a> Walk<'a> {
    /// Starts a walk below `root`.
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

    /// Whether entries were left out because of a limit.
    pub(crate) fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the next entry.
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

/// Opens an entry without following links. Returns `None` if it is gone, has changed its type, or is not readable.
pub(crate) fn open(directory: &OwnedFd, name: &[u8], kind: OFlags, path: &[u8]) -> Outcome<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory.as_fd(), name, flags | kind, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(errno) if is_serious(errno) => Err(refused(format!("opening {}", shown(path)), errno)),
        Err(_) => Ok(None),
    }
}

/// Whether an error concerns the whole machine and not just a file that is gone or unreadable.
fn is_serious(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::IO)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_are_visited_in_path_order() {
        let step = |name: &str, enters| Step { name: name.into(), kind: FileType::Unknown, enters };
        let mut steps = [step("a", true), step("a", false), step("a.b", false), step("a0", false)];
        steps.sort_by(Step::compare);
        let order: Vec<_> = steps.iter().map(|step| (step.name.as_slice(), step.enters)).collect();
        assert_eq!(order, [(&b"a"[..], false), (b"a.b", false), (b"a", true), (b"a0", false)]);
    }

    proptest! {
        #[test]
        fn steps_compare_like_their_paths(
            one in "[a-b./0]{1,4}", other in "[a-b./0]{1,4}", enters: (bool, bool), inner in "[a-b.]{1,2}",
        ) {
            let (one, other) = (one.replace('/', "-"), other.replace('/', "-"));
            let step = |name: &str, enters| Step { name: name.into(), kind: FileType::Unknown, enters };
            let path = |name: &str, enters| if enters { format!("{name}/{inner}") } else { name.to_owned() };
            let (left, right) = (path(&one, enters.0), path(&other, enters.1));
            // Names in a directory are unique.
            prop_assume!(one != other || enters.0 != enters.1);
            prop_assert_eq!(step(&one, enters.0).compare(&step(&other, enters.1)), left.cmp(&right));
        }
    }
}
