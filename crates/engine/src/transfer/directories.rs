//! The directories of a download, until their modes and times are set at its end.
//!
//! A guest decides how many there are and how long their paths. Each is kept as what differs from the one before it, so
//! a deep tree costs little more than its names, and all of them together have a limit.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Bytes that the directories of one download may take.
const MOST: usize = 64 << 20;

/// Directories in the order in which they were made.
pub(super) struct Directories {
    most: usize,
    /// What each path has behind the part it shares with the one before, one after the other.
    ends: Vec<u8>,
    each: Vec<Each>,
    last: Vec<u8>,
}

struct Each {
    /// Bytes of the path before it that it begins with.
    shared: usize,
    /// Bytes of its own in `ends`.
    own: usize,
    mode: u32,
    modified_ns: i64,
}

impl Directories {
    pub fn new() -> Self {
        Self::of_at_most(MOST)
    }

    fn of_at_most(most: usize) -> Self {
        Self { most, ends: Vec::new(), each: Vec::new(), last: Vec::new() }
    }

    /// Notes one. Fails if that would take more memory than a download may.
    pub fn note(&mut self, path: &OsStr, mode: u32, modified_ns: i64) -> io::Result<()> {
        let path = path.as_bytes();
        let shared = self.last.iter().zip(path).take_while(|(a, b)| a == b).count();
        let end = &path[shared..];
        if self.size().saturating_add(end.len() + size_of::<Each>()) > self.most {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!(
                    "the names of the guest's directories take more than the {} MiB a download may have; copy parts of it",
                    self.most >> 20
                ),
            ));
        }
        self.ends.extend_from_slice(end);
        self.each.push(Each { shared, own: end.len(), mode, modified_ns });
        self.last.truncate(shared);
        self.last.extend_from_slice(end);
        Ok(())
    }

    fn size(&self) -> usize {
        self.ends.len() + self.each.len() * size_of::<Each>()
    }

    /// Does something with each: its path, mode and time.
    pub fn try_for_each(&self, mut act: impl FnMut(&OsStr, u32, i64) -> io::Result<()>) -> io::Result<()> {
        let mut path = Vec::new();
        let mut ends = self.ends.as_slice();
        for &Each { shared, own, mode, modified_ns } in &self.each {
            let (end, later) = ends.split_at(own);
            ends = later;
            path.truncate(shared);
            path.extend_from_slice(end);
            act(OsStr::from_bytes(&path), mode, modified_ns)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_comes_back_as_it_was_noted() {
        let paths = ["", "a", "a/b", "a/b/c", "a/bc", "d", "a/b/x", "", "d/e"];
        let mut directories = Directories::new();
        for (number, path) in (0_u32..).zip(paths) {
            directories.note(OsStr::new(path), number, i64::from(number) * 2).unwrap();
        }
        let mut back = Vec::new();
        let noted = |path: &OsStr, mode: u32, modified: i64| {
            assert_eq!(i64::from(mode) * 2, modified);
            back.push((path.to_str().unwrap().to_owned(), mode));
            Ok(())
        };
        directories.try_for_each(noted).unwrap();
        let expected: Vec<_> = paths.iter().map(|path| (*path).to_owned()).zip(0_u32..).collect();
        assert_eq!(back, expected);
    }

    #[test]
    fn deep_trees_cost_their_names_and_endless_ones_are_refused() {
        let mut directories = Directories::of_at_most(200 << 10);
        let deep = "d/".repeat(1800);
        for number in 0..2000 {
            directories.note(OsStr::new(&format!("{deep}{number}")), 0o755, 0).unwrap();
        }
        let mut refused = None;
        for number in 0..2000 {
            let path = format!("{}{number}", ["x", "y"][number % 2].repeat(3000));
            refused = refused.or(directories.note(OsStr::new(&path), 0o755, 0).err());
        }
        assert_eq!(refused.unwrap().kind(), io::ErrorKind::FileTooLarge);
        assert!(directories.size() <= 200 << 10);
    }
}
