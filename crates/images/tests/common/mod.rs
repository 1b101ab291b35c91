//! Shared helpers: a sink that records entries, and hand-made archives.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::process::Command;

use agentiso_core::ports::{EntryKind, RootfsEntry, RootfsSink};
use agentiso_core::progress::Silent;
use agentiso_images::source::{self, ImportLimits, SourceError, Summary};

/// Applies entries to a file system in memory, as strictly as a real one.
#[derive(Default)]
pub struct Memory {
    pub files: BTreeMap<String, (RootfsEntry, Vec<u8>)>,
    pub order: Vec<(String, EntryKind)>,
}

impl Memory {
    pub fn content(&self, path: &str) -> &[u8] {
        &self.files[path].1
    }

    pub fn entry(&self, path: &str) -> &RootfsEntry {
        &self.files[path].0
    }

    pub fn names(&self) -> Vec<&str> {
        self.files.keys().map(String::as_str).collect()
    }
}

impl RootfsSink for Memory {
    fn entry(&mut self, entry: &RootfsEntry, content: &mut dyn Read) -> io::Result<()> {
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        self.order.push((path.clone(), entry.kind.clone()));
        if let Some((parent, _)) = path.rsplit_once('/') {
            let parent = self.files.get(parent).unwrap_or_else(|| panic!("{path:?} came before its parent"));
            assert_eq!(parent.0.kind, EntryKind::Directory, "{path:?} lies below something else");
        }
        match &entry.kind {
            EntryKind::Removed => {
                let below = format!("{path}/");
                self.files.retain(|name, _| *name != path && !name.starts_with(&below));
                return Ok(());
            }
            EntryKind::Emptied => {
                let below = if path.is_empty() { String::new() } else { format!("{path}/") };
                self.files.retain(|name, _| name.is_empty() || !name.starts_with(&below) || *name == path);
                return Ok(());
            }
            EntryKind::Hardlink { target } => {
                let target = String::from_utf8_lossy(target).into_owned();
                bytes =
                    self.files.get(&target).unwrap_or_else(|| panic!("{path:?} links to nothing")).1.clone();
            }
            EntryKind::File { size } => assert_eq!(bytes.len() as u64, *size, "{path}"),
            _ => assert!(bytes.is_empty(), "{path}"),
        }
        if let Some((old, _)) = self.files.get(&path) {
            let both = old.kind == EntryKind::Directory && entry.kind == EntryKind::Directory;
            assert!(both, "{path:?} came while something else was there");
        }
        self.files.insert(path, (entry.clone(), bytes));
        Ok(())
    }
}

/// Reads a source with a limit of one megabyte.
pub fn read(path: &Path) -> Result<(Memory, Summary), SourceError> {
    read_within(path, ImportLimits::for_content(1 << 20))
}

pub fn read_within(path: &Path, limits: ImportLimits) -> Result<(Memory, Summary), SourceError> {
    let scratch = tempfile::tempdir().unwrap();
    let mut memory = Memory::default();
    let summary = source::open(path, scratch.path())?.stream(&mut memory, &Silent, limits)?;
    Ok((memory, summary))
}

/// Builds a tar archive member by member, including hostile ones.
pub struct Tar(pub tar::Builder<Vec<u8>>);

impl Tar {
    pub fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    pub fn add(&mut self, kind: tar::EntryType, path: &str, link: &str, content: &[u8]) -> &mut Self {
        let mut header = tar::Header::new_gnu();
        // Written directly, because the builder rejects hostile names.
        let gnu = header.as_gnu_mut().unwrap();
        gnu.name[..path.len()].copy_from_slice(path.as_bytes());
        gnu.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(if kind == tar::EntryType::Directory { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1);
        if matches!(kind, tar::EntryType::Char | tar::EntryType::Block) {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    pub fn file(&mut self, path: &str, content: &str) -> &mut Self {
        self.add(tar::EntryType::Regular, path, "", content.as_bytes())
    }

    pub fn dir(&mut self, path: &str) -> &mut Self {
        self.add(tar::EntryType::Directory, path, "", b"")
    }

    pub fn symlink(&mut self, path: &str, target: &str) -> &mut Self {
        self.add(tar::EntryType::Symlink, path, target, b"")
    }

    pub fn hardlink(&mut self, path: &str, target: &str) -> &mut Self {
        self.add(tar::EntryType::Link, path, target, b"")
    }

    pub fn bytes(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.0, tar::Builder::new(Vec::new())).into_inner().unwrap()
    }
}

/// Runs a program that must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
