//! The checks that the entries of every source go through.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Bound;

use agentiso_core::ports::{EntryKind, RootfsEntry, RootfsSink, Timestamp};

use super::links::{follow_parents, parent_length};
use super::path::{normalise, parents, shown};
use super::{PathFault, SourceError};

const XATTR_NAME_MAX: usize = 255;
const XATTR_VALUE_MAX: usize = 64 << 10;
const XATTRS_MAX: usize = 256;
const SYMLINK_MAX: usize = 4095;

/// Limits for a source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ImportLimits {
    /// Files, directories, links and all the rest.
    pub entries: u64,
    /// Bytes in files, holes included.
    pub content_bytes: u64,
    /// Device nodes.
    pub devices: u64,
}

impl ImportLimits {
    /// The usual limits for a file system of this many bytes.
    pub fn for_content(content_bytes: u64) -> Self {
        Self { entries: 4_000_000, content_bytes, devices: 4096 }
    }
}

/// The metadata of an entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) mtime: Timestamp,
    pub(super) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Eq, PartialEq)]
enum Node {
    Directory,
    /// With its target.
    Symlink(Vec<u8>),
    Other,
}

/// Checks entries and passes them to the sink.
pub(super) struct Intake<'a> {
    sink: &'a mut dyn RootfsSink,
    limits: ImportLimits,
    origin: String,
    /// All entries so far, by path: for checking parents, link targets and replacements.
    tree: BTreeMap<Vec<u8>, Node>,
    follows_links: bool,
    entries: u64,
    bytes: u64,
    devices: u64,
}

impl<'a> Intake<'a> {
    pub(super) fn new(sink: &'a mut dyn RootfsSink, limits: ImportLimits, origin: &str) -> Self {
        let tree = BTreeMap::from([(Vec::new(), Node::Directory)]);
        let origin = origin.to_owned();
        Self { sink, limits, origin, tree, follows_links: false, entries: 0, bytes: 0, devices: 0 }
    }

    /// Whether symbolic links in the path of an entry are followed, within the entries so far, instead of rejected. A layer
    /// may write to `bin/x` where a lower layer made `bin` a link; in a single archive that is suspicious.
    pub(super) fn following_links(self) -> Self {
        Self { follows_links: true, ..self }
    }

    /// How many entries there are now below the root, and how many bytes of files have passed.
    pub(super) fn totals(&self) -> (u64, u64) {
        (self.tree.len() as u64 - 1, self.bytes)
    }

    /// Passes an entry to the sink, after its parents and after removing what it replaces.
    pub(super) fn add(
        &mut self,
        raw_path: &[u8],
        kind: EntryKind,
        attributes: Attributes,
        content: &mut dyn Read,
    ) -> Result<(), SourceError> {
        let path = self.located(raw_path).map_err(|fault| self.refuse(raw_path, fault.to_string()))?;
        let kind = self.check_kind(&path, kind)?;
        let entry = self.checked_entry(path, kind, attributes)?;
        self.make_parents(&entry.path)?;
        self.replace(&entry)?;
        self.pass(&entry, content)?;
        let node = match entry.kind {
            EntryKind::Directory => Node::Directory,
            EntryKind::Symlink { target } => Node::Symlink(target),
            _ => Node::Other,
        };
        self.tree.insert(entry.path, node);
        Ok(())
    }

    /// Removes a path and all below it, if it is there.
    pub(super) fn remove(&mut self, raw_path: &[u8]) -> Result<(), SourceError> {
        let path = self.located(raw_path).map_err(|fault| self.refuse(raw_path, fault.to_string()))?;
        if path.is_empty() {
            return Err(self.refuse(raw_path, "it would remove the root"));
        }
        if !self.tree.contains_key(&path) {
            return Ok(());
        }
        self.forget_below(&path);
        self.tree.remove(&path);
        self.pass(&bare(path, EntryKind::Removed), &mut io::empty())
    }

    /// Removes all below a directory, if it is there.
    pub(super) fn empty(&mut self, raw_path: &[u8]) -> Result<(), SourceError> {
        // The whiteout file of an opaque directory is inside it, so its path goes through the directory.
        let mark = self.located(&[raw_path, b"/mark"].concat());
        let mut path = mark.map_err(|fault| self.refuse(raw_path, fault.to_string()))?;
        path.truncate(parent_length(&path));
        if self.tree.get(&path) != Some(&Node::Directory) {
            return Ok(());
        }
        self.forget_below(&path);
        self.pass(&bare(path, EntryKind::Emptied), &mut io::empty())
    }

    /// Where an entry's path leads.
    fn located(&self, raw_path: &[u8]) -> Result<Vec<u8>, PathFault> {
        let path = normalise(raw_path)?;
        if !self.follows_links {
            return Ok(path);
        }
        follow_parents(&path, |at| match self.tree.get(at) {
            Some(Node::Symlink(target)) => Some(target),
            _ => None,
        })
    }

    fn check_kind(&mut self, path: &[u8], kind: EntryKind) -> Result<EntryKind, SourceError> {
        if path.is_empty() && kind != EntryKind::Directory {
            return Err(self.refuse(path, "the root must be a directory"));
        }
        match &kind {
            EntryKind::Symlink { target } => {
                if target.is_empty() || target.len() > SYMLINK_MAX || target.contains(&0) {
                    return Err(
                        self.refuse(path, "its link target is empty, too long or contains a NUL byte")
                    );
                }
            }
            EntryKind::Hardlink { target } => {
                let target = self
                    .located(target)
                    .map_err(|fault| self.refuse(path, format!("of the file it links to, {fault}")))?;
                let reason = match self.tree.get(&target) {
                    None => format!("it links to {:?}, which did not come before it", shown(&target)),
                    Some(Node::Directory) => {
                        format!("it is a hard link to the directory {:?}", shown(&target))
                    }
                    Some(_) if target == path => "it is a hard link to itself".to_owned(),
                    Some(_) => return Ok(EntryKind::Hardlink { target }),
                };
                return Err(self.refuse(path, reason));
            }
            EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } => {
                if *major > 0xfff || *minor > 0xf_ffff {
                    return Err(self.refuse(path, "its device number does not exist on Linux"));
                }
                self.devices += 1;
                if self.devices > self.limits.devices {
                    return Err(
                        self.refuse(path, format!("there are more than {} devices", self.limits.devices))
                    );
                }
            }
            EntryKind::File { size } => {
                let total = self.bytes.checked_add(*size).filter(|total| *total <= self.limits.content_bytes);
                let Some(total) = total else {
                    return Err(SourceError::TooLarge {
                        origin: self.origin.clone(),
                        limit: self.limits.content_bytes,
                    });
                };
                self.bytes = total;
            }
            EntryKind::Directory | EntryKind::Fifo | EntryKind::Removed | EntryKind::Emptied => {}
        }
        Ok(kind)
    }

    fn checked_entry(
        &self,
        path: Vec<u8>,
        kind: EntryKind,
        attributes: Attributes,
    ) -> Result<RootfsEntry, SourceError> {
        // The kernel treats the id -1 as "do not change", so it cannot be an owner.
        let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
        let (Some(uid), Some(gid)) = (id(attributes.uid), id(attributes.gid)) else {
            return Err(self.refuse(&path, "its owner or group is out of range"));
        };
        let xattrs = attributes.xattrs;
        let fits = |(name, value): &(Vec<u8>, Vec<u8>)| {
            !name.is_empty()
                && name.len() <= XATTR_NAME_MAX
                && !name.contains(&0)
                && value.len() <= XATTR_VALUE_MAX
        };
        if xattrs.len() > XATTRS_MAX || !xattrs.iter().all(fits) {
            return Err(self.refuse(&path, "its extended attributes are too many, too large or badly named"));
        }
        Ok(RootfsEntry {
            path,
            kind,
            mode: attributes.mode & 0o7777,
            uid,
            gid,
            mtime: attributes.mtime,
            xattrs,
        })
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<(), SourceError> {
        for parent in parents(path) {
            match self.tree.get(parent) {
                Some(Node::Directory) => {}
                Some(Node::Symlink(_)) => {
                    return Err(
                        self.refuse(path, format!("it lies below the symbolic link {:?}", shown(parent)))
                    );
                }
                Some(Node::Other) => {
                    return Err(self.refuse(path, format!("{:?} above it is not a directory", shown(parent))));
                }
                None => {
                    let entry = RootfsEntry { mode: 0o755, ..bare(parent.to_vec(), EntryKind::Directory) };
                    self.pass(&entry, &mut io::empty())?;
                    self.tree.insert(entry.path, Node::Directory);
                }
            }
        }
        Ok(())
    }

    fn replace(&mut self, entry: &RootfsEntry) -> Result<(), SourceError> {
        match (self.tree.get(&entry.path), &entry.kind) {
            (None, _) | (Some(Node::Directory), EntryKind::Directory) => Ok(()),
            (Some(_), _) => {
                self.forget_below(&entry.path);
                if let EntryKind::Hardlink { target } = &entry.kind
                    && !self.tree.contains_key(target)
                {
                    return Err(
                        self.refuse(&entry.path, "it replaces the directory that holds its link target")
                    );
                }
                self.pass(&bare(entry.path.clone(), EntryKind::Removed), &mut io::empty())
            }
        }
    }

    fn forget_below(&mut self, path: &[u8]) {
        let mut start = path.to_vec();
        if !start.is_empty() {
            start.push(b'/');
        }
        let below: Vec<Vec<u8>> = self
            .tree
            .range::<Vec<u8>, _>((Bound::Excluded(&start), Bound::Unbounded))
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(&start))
            .cloned()
            .collect();
        for path in below {
            self.tree.remove(&path);
        }
    }

    fn pass(&mut self, entry: &RootfsEntry, content: &mut dyn Read) -> Result<(), SourceError> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            let reason = format!("there are more than {} entries", self.limits.entries);
            return Err(self.refuse(&entry.path, reason));
        }
        let size = match entry.kind {
            EntryKind::File { size } => size,
            _ => 0,
        };
        let mut content = Exactly { inner: content, left: size, fault: None };
        let passed = self.sink.entry(entry, &mut content);
        if passed.is_ok() && content.left > 0 {
            // Skip what the sink did not read, or the next entry is not found.
            let _ = io::copy(&mut content, &mut io::sink());
        }
        // A read error passes through the sink, but is an error of the source.
        if let Some(source) = content.fault {
            return Err(SourceError::Corrupt { origin: self.origin.clone(), source });
        }
        passed.map_err(|source| SourceError::Sink { entry: shown(&entry.path), source })
    }

    fn refuse(&self, path: &[u8], reason: impl Into<String>) -> SourceError {
        SourceError::Entry { origin: self.origin.clone(), entry: shown(path), reason: reason.into() }
    }
}

fn bare(path: Vec<u8>, kind: EntryKind) -> RootfsEntry {
    RootfsEntry { path, kind, mode: 0, uid: 0, gid: 0, mtime: Timestamp::default(), xattrs: Vec::new() }
}

/// Reads exactly the declared number of bytes, and records why it could not.
struct Exactly<'a> {
    inner: &'a mut dyn Read,
    left: u64,
    fault: Option<io::Error>,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        let got = match self.inner.read(&mut buffer[..want]) {
            Ok(0) => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("a file ends {} bytes too early", self.left),
            )),
            other => other,
        };
        match got {
            Ok(got) => {
                self.left -= got as u64;
                Ok(got)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let told = io::Error::new(error.kind(), error.to_string());
                self.fault = Some(error);
                Err(told)
            }
        }
    }
}
