//! A file system in memory: directories, files and symbolic links.

use std::collections::BTreeMap;

use agentiso_core::ports::link::{DirEntry, ErrorKind, FileKind, GuestError, Metadata, WriteOptions};
use rustix::io::Errno;

/// More symbolic links than this in one path lead nowhere.
const MOST_LINKS: usize = 40;

/// A file system. Paths are absolute, and `/` is always there.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<Vec<u8>, Node>,
    /// The modification time of the next node: later than all before it.
    time: i64,
}

/// What is at a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Node {
    /// What it is.
    pub content: Content,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
}

/// What a node is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Content {
    /// A directory.
    Directory,
    /// A regular file.
    File(Vec<u8>),
    /// A symbolic link and where it points.
    Symlink(Vec<u8>),
}

impl Tree {
    /// A file system with nothing but its root.
    pub fn empty() -> Self {
        let mut tree = Self { nodes: BTreeMap::new(), time: 1_700_000_000_000_000_000 };
        tree.put(b"/", Content::Directory, 0o755);
        tree
    }

    /// A file system as a small image has it.
    pub fn of_image() -> Self {
        let mut tree = Self::empty();
        for dir in
            ["/bin", "/etc", "/home", "/home/user", "/root", "/tmp", "/usr", "/usr/bin", "/var", "/workspace"]
        {
            tree.put(dir.as_bytes(), Content::Directory, 0o755);
        }
        for program in ["/bin/bash", "/bin/sh"] {
            tree.put(program.as_bytes(), Content::File(b"\x7fELF".to_vec()), 0o755);
        }
        tree.put(b"/etc/hostname", Content::File(b"localhost\n".to_vec()), 0o644);
        let passwd = "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n";
        tree.put(b"/etc/passwd", Content::File(passwd.into()), 0o644);
        tree
    }

    /// All nodes at and below a path, a directory before what is in it.
    pub fn under<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = (&'a [u8], &'a Node)> + use<'a> {
        let top = path.to_vec();
        let below = prefix_of(path);
        let inside = move |at: &[u8]| at == top || at.starts_with(&below);
        self.nodes.iter().map(|(at, node)| (at.as_slice(), node)).filter(move |(at, _)| inside(at))
    }

    /// What is at a path, without following a symbolic link at its end.
    pub fn get(&self, path: &[u8]) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Bytes in all files.
    pub fn bytes(&self) -> u64 {
        self.nodes.values().map(Node::size).sum()
    }

    /// Sets a node, whatever was there. Its parents must exist.
    pub(super) fn put(&mut self, path: &[u8], content: Content, mode: u32) {
        self.time += 1_000_000;
        let node = Node { content, mode, uid: 0, gid: 0, modified_ns: self.time };
        self.nodes.insert(path.to_vec(), node);
    }

    /// Gives a node to somebody.
    pub(super) fn set_owner(&mut self, path: &[u8], uid: u32, gid: u32) {
        if let Some(node) = self.nodes.get_mut(path) {
            (node.uid, node.gid) = (uid, gid);
        }
    }

    pub(super) fn stat(&self, path: &[u8], follow: bool) -> Result<Metadata, GuestError> {
        let at = self.resolve(path, follow)?;
        Ok(self.node(&at)?.metadata())
    }

    pub(super) fn list(&self, path: &[u8]) -> Result<Vec<DirEntry>, GuestError> {
        let at = self.resolve(path, true)?;
        self.require_directory(&at)?;
        let below = prefix_of(&at);
        let names = self.nodes.range(below.clone()..).take_while(|(at, _)| at.starts_with(&below));
        let children = names.filter(|(at, _)| at.len() > below.len() && !at[below.len()..].contains(&b'/'));
        Ok(children
            .map(|(at, node)| DirEntry { name: at[below.len()..].to_vec(), metadata: node.metadata() })
            .collect())
    }

    pub(super) fn read(&self, path: &[u8]) -> Result<(Metadata, &[u8]), GuestError> {
        let at = self.resolve(path, true)?;
        let node = self.node(&at)?;
        match &node.content {
            Content::File(bytes) => Ok((node.metadata(), bytes)),
            _ => Err(invalid(format!("{} is not a regular file", shown(path)))),
        }
    }

    pub(super) fn write(
        &mut self,
        path: &[u8],
        bytes: Vec<u8>,
        options: WriteOptions,
    ) -> Result<(), GuestError> {
        let at = self.resolve(path, true)?;
        if options.parents {
            self.mkdir(parent_of(&at), None, true)?;
        }
        self.require_directory(parent_of(&at))?;
        let (before, mode) = match self.nodes.get(&at) {
            Some(Node { content: Content::File(before), mode, .. }) => (before.clone(), *mode),
            Some(_) => return Err(refused(path, Errno::ISDIR)),
            None => (Vec::new(), 0o644),
        };
        let content = if options.append { [before, bytes].concat() } else { bytes };
        self.put(&at, Content::File(content), options.mode.unwrap_or(mode));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &[u8], recursive: bool) -> Result<(), GuestError> {
        let at = self.resolve(path, false)?;
        if at == b"/" {
            return Err(invalid("the root cannot be removed"));
        }
        self.node(&at)?;
        let gone: Vec<Vec<u8>> = self.under(&at).map(|(at, _)| at.to_vec()).collect();
        if gone.len() > 1 && !recursive {
            return Err(refused(path, Errno::NOTEMPTY));
        }
        for at in gone {
            self.nodes.remove(&at);
        }
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &[u8], to: &[u8], overwrite: bool) -> Result<(), GuestError> {
        let (from, to) = (self.resolve(from, false)?, self.resolve(to, false)?);
        let moved_dir = self.node(&from)?.content == Content::Directory;
        self.require_directory(parent_of(&to))?;
        match self.nodes.get(&to) {
            Some(_) if !overwrite => return Err(refused(&to, Errno::EXIST)),
            Some(there) if there.content == Content::Directory && !moved_dir => {
                return Err(refused(&to, Errno::ISDIR));
            }
            Some(_) if self.under(&to).count() > 1 => return Err(refused(&to, Errno::NOTEMPTY)),
            _ => {}
        }
        if to.starts_with(&prefix_of(&from)) {
            return Err(refused(&to, Errno::INVAL));
        }
        let moved: Vec<Vec<u8>> = self.under(&from).map(|(at, _)| at.to_vec()).collect();
        for old in moved {
            if let Some(node) = self.nodes.remove(&old) {
                self.nodes.insert([&to, &old[from.len()..]].concat(), node);
            }
        }
        Ok(())
    }

    pub(super) fn mkdir(&mut self, path: &[u8], mode: Option<u32>, parents: bool) -> Result<(), GuestError> {
        let at = self.resolve(path, true)?;
        match self.nodes.get(&at).map(|node| &node.content) {
            Some(Content::Directory) if parents => return Ok(()),
            Some(_) => return Err(refused(path, Errno::EXIST)),
            None => {}
        }
        if parents {
            self.mkdir(parent_of(&at), None, true)?;
        }
        self.require_directory(parent_of(&at))?;
        self.put(&at, Content::Directory, mode.unwrap_or(0o755));
        Ok(())
    }

    pub(super) fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<(), GuestError> {
        let at = self.resolve(path, false)?;
        self.require_directory(parent_of(&at))?;
        if self.nodes.contains_key(&at) {
            return Err(refused(path, Errno::EXIST));
        }
        self.put(&at, Content::Symlink(target.to_vec()), 0o777);
        Ok(())
    }

    /// The path without links, `.`, `..` and extra slashes. What it names need not exist.
    pub(super) fn resolve(&self, path: &[u8], follow: bool) -> Result<Vec<u8>, GuestError> {
        if !path.starts_with(b"/") || path.contains(&0) {
            return Err(invalid(format!("{} is not an absolute path", shown(path))));
        }
        let mut left: Vec<Vec<u8>> = path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect();
        let mut at = b"/".to_vec();
        let mut links = 0;
        while let Some(part) = left.pop() {
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    at = parent_of(&at).to_vec();
                    continue;
                }
                name => at = [prefix_of(&at).as_slice(), name].concat(),
            }
            let is_last = left.iter().all(|part| part.is_empty());
            match self.nodes.get(&at).map(|node| &node.content) {
                Some(Content::Symlink(target)) if follow || !is_last => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(refused(path, Errno::LOOP));
                    }
                    at = if target.starts_with(b"/") { b"/".to_vec() } else { parent_of(&at).to_vec() };
                    left.extend(target.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
                }
                Some(Content::File(_)) if !is_last => return Err(refused(path, Errno::NOTDIR)),
                _ => {}
            }
        }
        Ok(at)
    }

    fn node(&self, at: &[u8]) -> Result<&Node, GuestError> {
        self.nodes.get(at).ok_or_else(|| refused(at, Errno::NOENT))
    }

    fn require_directory(&self, at: &[u8]) -> Result<(), GuestError> {
        match self.node(at)?.content {
            Content::Directory => Ok(()),
            _ => Err(refused(at, Errno::NOTDIR)),
        }
    }
}

impl Node {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match &self.content {
            Content::Directory => 0,
            Content::File(bytes) | Content::Symlink(bytes) => bytes.len() as u64,
        }
    }

    pub(super) fn metadata(&self) -> Metadata {
        let (kind, target) = match &self.content {
            Content::Directory => (FileKind::Directory, None),
            Content::File(_) => (FileKind::File, None),
            Content::Symlink(target) => (FileKind::Symlink, Some(target.clone())),
        };
        let Self { mode, uid, gid, modified_ns, .. } = *self;
        Metadata { kind, size: self.size(), mode, uid, gid, links: 1, modified_ns, target }
    }
}

/// The directory a path is in; `/` of itself.
pub(super) fn parent_of(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) | None => b"/",
        Some(slash) => &path[..slash],
    }
}

/// What the paths of everything in a directory start with.
fn prefix_of(dir: &[u8]) -> Vec<u8> {
    if dir == b"/" { b"/".to_vec() } else { [dir, b"/"].concat() }
}

/// An error of the guest's kernel, as the agent reports it.
pub(super) fn refused(path: &[u8], errno: Errno) -> GuestError {
    let kind = match errno {
        Errno::NOENT | Errno::NOTDIR => ErrorKind::NotFound,
        Errno::EXIST => ErrorKind::Exists,
        Errno::ACCESS | Errno::PERM => ErrorKind::Denied,
        Errno::NOSPC => ErrorKind::NoSpace,
        _ => ErrorKind::Invalid,
    };
    GuestError { kind, errno: Some(errno.raw_os_error()), message: format!("{}: {errno}", shown(path)) }
}

pub(super) fn invalid(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Invalid, errno: None, message: message.into() }
}

pub(super) fn not_found(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::NotFound, errno: None, message: message.into() }
}

pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
