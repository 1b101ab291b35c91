//! The plan for entering a private root, made before the fork.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::landlock::Ruleset;
use super::{Access, Shown};

/// Where the host's root is mounted while the new one is set up.
pub(super) const HOST: &str = "/.host";
/// Directories that exist nearly everywhere. The new root is mounted on one of them, in a private mount namespace.
const STAGING: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/mnt"];

/// One step in the new root.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Step {
    /// Create a directory, unless it exists.
    Directory(CString),
    /// Create an empty file, unless it exists.
    File(CString),
    /// Bind-mount a file of the host.
    Bind { from: CString, at: CString, read_only: bool },
}

/// The id mapping of an ordinary user's namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SameUser {
    pub uid_map: Vec<u8>,
    pub gid_map: Vec<u8>,
}

/// The complete plan.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) staging: CString,
    pub(super) same_user: Option<SameUser>,
    pub(super) steps: Vec<Step>,
    pub(super) landlock: Option<Ruleset>,
}

impl Entry {
    /// Plans a root with these files, each directory before its content.
    pub(super) fn plan(
        shown: &[Shown],
        same_user: Option<SameUser>,
        landlock: Option<u32>,
    ) -> io::Result<Self> {
        let staging = STAGING.into_iter().find(|dir| Path::new(dir).is_dir());
        let staging = staging.ok_or_else(|| io::Error::other("there is no directory to mount on"))?;
        // A missing device is left out: QEMU's own error message is better.
        let is_there = |one: &&Shown| !one.host.starts_with("/dev") || one.host.exists();
        let shown: Vec<&Shown> = shown.iter().filter(is_there).collect();
        let mut steps = Steps::default();
        for one in &shown {
            let host = fs::canonicalize(&one.host)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", one.host.display())))?;
            let is_dir = host.is_dir();
            steps.show(&host, &one.at, is_dir, one.access)?;
        }
        let landlock = landlock.map(|version| Ruleset::plan(version, &shown)).transpose()?;
        Ok(Self { staging: c_string(Path::new(staging))?, same_user, steps: steps.steps, landlock })
    }
}

#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
    made: BTreeSet<PathBuf>,
}

impl Steps {
    fn show(&mut self, host: &Path, at: &Path, is_dir: bool, access: Access) -> io::Result<()> {
        if let Some(parent) = at.parent() {
            self.directories(parent)?;
        }
        if is_dir {
            self.directories(at)?;
        } else {
            self.steps.push(Step::File(c_string(at)?));
        }
        let mut from = PathBuf::from(HOST).into_os_string();
        from.push(host);
        let (from, at) = (c_string(Path::new(&from))?, c_string(at)?);
        self.steps.push(Step::Bind { from, at, read_only: access == Access::Read });
        Ok(())
    }

    /// Creates a directory and its parents. Components are used literally, `..` included.
    fn directories(&mut self, dir: &Path) -> io::Result<()> {
        let mut so_far = PathBuf::from("/");
        for part in dir.components() {
            match part {
                Component::RootDir | Component::CurDir => continue,
                Component::Prefix(_) => return Err(io::Error::other("not a path of this system")),
                Component::ParentDir => {
                    so_far.push("..");
                    continue;
                }
                Component::Normal(name) => so_far.push(name),
            }
            if self.made.insert(so_far.clone()) {
                self.steps.push(Step::Directory(c_string(&so_far)?));
            }
        }
        Ok(())
    }
}

pub(super) fn c_string(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

/// A path of the child for error messages: without the prefix of the host's root.
pub(super) fn plain(path: &CString) -> String {
    let bytes = path.as_bytes();
    let bytes = bytes.strip_prefix(HOST.as_bytes()).unwrap_or(bytes);
    Path::new(OsStr::from_bytes(bytes)).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(shown: &[Shown]) -> Vec<String> {
        let entry = Entry::plan(shown, None, None).unwrap();
        let text = |path: &CString| path.to_str().unwrap().to_owned();
        let line = |step: &Step| match step {
            Step::Directory(path) => format!("mkdir {}", text(path)),
            Step::File(path) => format!("file {}", text(path)),
            Step::Bind { from, at, read_only } => {
                format!("bind{} {} {}", if *read_only { " ro" } else { "" }, text(from), text(at))
            }
        };
        entry.steps.iter().map(line).collect()
    }

    #[test]
    fn files_appear_where_they_are_and_links_are_followed_on_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        fs::create_dir(real.join("real")).unwrap();
        fs::write(real.join("real/file"), "").unwrap();
        std::os::unix::fs::symlink(real.join("real"), real.join("link")).unwrap();
        let at = real.join("link/file");
        let lines = lines(&[Shown::in_place(&at, Access::Read), Shown::in_place("/dev/null", Access::Write)]);
        let real = real.display();
        let end = lines.len();
        assert_eq!(lines[0], format!("mkdir /{}", real.to_string().split('/').nth(1).unwrap()));
        assert!(lines.contains(&format!("mkdir {real}/link")), "{lines:?}");
        assert!(lines.contains(&format!("file {real}/link/file")), "{lines:?}");
        assert!(lines.contains(&format!("bind ro /.host{real}/real/file {real}/link/file")), "{lines:?}");
        assert_eq!(lines[end - 3..], ["mkdir /dev", "file /dev/null", "bind /.host/dev/null /dev/null"]);
    }

    #[test]
    fn a_directory_is_made_once_and_comes_before_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (view, layer) = (dir.path().join("view"), dir.path().join("layer"));
        fs::create_dir(&view).unwrap();
        fs::write(&layer, "").unwrap();
        let shown = [
            Shown { host: view, at: "/h/x/../disks".into(), access: Access::WriteWithin },
            Shown { host: layer, at: "/h/x/../disks/layer".into(), access: Access::Read },
        ];
        let lines = lines(&shown);
        assert_eq!(lines[..3], ["mkdir /h", "mkdir /h/x", "mkdir /h/x/../disks"]);
        assert!(lines[3].starts_with("bind /.host/") && lines[3].ends_with(" /h/x/../disks"), "{lines:?}");
        assert_eq!(lines[4], "file /h/x/../disks/layer");
        assert!(lines[5].starts_with("bind ro "), "{lines:?}");
        assert_eq!(lines.len(), 6);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = Entry::plan(&[Shown::in_place("/no/such/file", Access::Read)], None, None).unwrap_err();
        assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
        assert_eq!(lines(&[Shown::in_place("/dev/no-such-device", Access::Write)]), Vec::<String>::new());
    }
}
