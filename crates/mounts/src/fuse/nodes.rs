//! The files that the kernel knows, by number.
//!
//! A node keeps an `O_PATH` descriptor, up to a budget; beyond it, a node is opened by its name in its directory when it is
//! used, and must still be the same file. What is removed while the kernel knows it keeps a descriptor in any case.
//!
//! The number is the inode number of the overlay, which is the same in every mount of the same layers, unless another
//! node has that number: lower files with several names share one, but are different files once one of them is written.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

pub(super) const ROOT: u64 = 1;
/// Where numbers begin that are no inode numbers.
const OWN_NUMBERS: u64 = 1 << 62;
const FLAGS: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

type Name = Box<[u8]>;

/// What two names must have in common to be one file.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Key {
    Inode(u64),
    /// A file of a lower layer with several names.
    Name(u64, Name),
}

#[derive(Debug)]
struct Node {
    fd: Option<Arc<OwnedFd>>,
    parent: u64,
    name: Name,
    key: Key,
    /// Not known after a directory was moved by links.
    inode: Option<u64>,
    is_directory: bool,
    lookups: u64,
}

#[derive(Debug)]
struct Table {
    nodes: HashMap<u64, Node>,
    by_key: HashMap<Key, u64>,
    next: u64,
}

#[derive(Debug)]
pub(super) struct Nodes {
    table: Mutex<Table>,
    /// Most nodes with a descriptor.
    budget: usize,
}

impl Nodes {
    pub(super) fn new(root: OwnedFd, budget: usize) -> Result<Self, Errno> {
        let inode = fstat(&root)?.st_ino;
        let key = Key::Inode(inode);
        let node = Node {
            fd: Some(Arc::new(root)),
            parent: ROOT,
            name: Name::default(),
            key: key.clone(),
            inode: Some(inode),
            is_directory: true,
            lookups: 1,
        };
        let nodes = HashMap::from([(ROOT, node)]);
        let by_key = HashMap::from([(key, ROOT)]);
        Ok(Self { table: Mutex::new(Table { nodes, by_key, next: OWN_NUMBERS }), budget })
    }

    /// A descriptor of a node.
    pub(super) fn get(&self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.table().open(number)
    }

    /// The node of a file that was found under a name. Counts the lookup.
    pub(super) fn add(&self, parent: u64, name: &[u8], fd: OwnedFd, stat: &Stat, is_shared: bool) -> u64 {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let key = if is_shared { Key::Name(parent, name.into()) } else { Key::Inode(stat.st_ino) };
        let mut table = self.table();
        if let Some(number) = table.by_key.get(&key).copied()
            && let Some(node) = table.nodes.get_mut(&number)
        {
            node.lookups += 1;
            return number;
        }
        let number = table.number(stat.st_ino);
        let fd = (table.nodes.len() < self.budget).then(|| Arc::new(fd));
        let (name, inode) = (name.into(), Some(stat.st_ino));
        let node = Node { fd, parent, name, key: key.clone(), inode, is_directory, lookups: 1 };
        table.nodes.insert(number, node);
        table.by_key.insert(key, number);
        number
    }

    /// Counts a lookup of a node that is known, for a second name of it.
    pub(super) fn linked(&self, number: u64, inode: u64) {
        let mut table = self.table();
        let Some(node) = table.nodes.get_mut(&number) else { return };
        node.lookups += 1;
        // From now on all its names lead to one file.
        let key = Key::Inode(inode);
        let old = std::mem::replace(&mut node.key, key.clone());
        node.inode = Some(inode);
        table.by_key.remove(&old);
        table.by_key.insert(key, number);
    }

    /// Forgets lookups; a node without any is gone.
    pub(super) fn forget(&self, number: u64, lookups: u64) {
        let mut table = self.table();
        let Some(node) = table.nodes.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0
            && number != ROOT
            && let Some(node) = table.nodes.remove(&number)
            && table.by_key.get(&node.key) == Some(&number)
        {
            table.by_key.remove(&node.key);
        }
    }

    /// Opens a node that is about to lose the name, so that it can be used afterwards.
    pub(super) fn keep(&self, inode: u64, parent: u64, name: &[u8]) {
        let mut table = self.table();
        let keys = [Key::Inode(inode), Key::Name(parent, name.into())];
        for key in keys {
            let Some(number) = table.by_key.get(&key).copied() else { continue };
            // If it cannot be opened, nobody else can use it either.
            if let Ok(fd) = table.open(number)
                && let Some(node) = table.nodes.get_mut(&number)
            {
                node.fd = Some(fd);
            }
        }
    }

    /// What had a key by name has it no more: the name is free.
    pub(super) fn unname(&self, parent: u64, name: &[u8]) {
        self.table().by_key.remove(&Key::Name(parent, name.into()));
    }

    /// A file has another name.
    pub(super) fn renamed(&self, inode: u64, from: (u64, &[u8]), to: (u64, &[u8])) {
        let mut table = self.table();
        let by_name = Key::Name(from.0, from.1.into());
        let key = if table.by_key.contains_key(&by_name) { by_name } else { Key::Inode(inode) };
        let Some(number) = table.by_key.get(&key).copied() else { return };
        let new_key = if matches!(key, Key::Name(..)) { Key::Name(to.0, to.1.into()) } else { key.clone() };
        if let Some(node) = table.nodes.get_mut(&number) {
            (node.parent, node.name, node.key) = (to.0, to.1.into(), new_key.clone());
        }
        table.by_key.remove(&key);
        table.by_key.insert(new_key, number);
    }

    /// A directory was moved by links: it and the directories in it are new ones, and everything is found by name again.
    pub(super) fn moved(&self, inode: u64, to: (u64, &[u8])) {
        let mut table = self.table();
        let Some(moved) = table.by_key.get(&Key::Inode(inode)).copied() else { return };
        if let Some(node) = table.nodes.get_mut(&moved) {
            (node.parent, node.name) = (to.0, to.1.into());
        }
        let numbers: Vec<u64> =
            table.nodes.keys().copied().filter(|number| table.is_within(*number, moved)).collect();
        for number in numbers {
            let Some(node) = table.nodes.get_mut(&number) else { continue };
            node.fd = None;
            if node.is_directory {
                node.inode = None;
                let key = node.key.clone();
                table.by_key.remove(&key);
            }
        }
    }

    /// The names that lead to a node, the last one first.
    pub(super) fn path(&self, mut number: u64) -> Vec<u8> {
        let table = self.table();
        let mut names = Vec::new();
        while number != ROOT
            && let Some(node) = table.nodes.get(&number)
            && names.len() < 4096
        {
            names.push(&*node.name);
            number = node.parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn open(&mut self, number: u64) -> Result<Arc<OwnedFd>, Errno> {
        // From the node up to one that is open, then down again.
        let mut way = Vec::new();
        let mut at = number;
        let mut fd = loop {
            let node = self.nodes.get(&at).ok_or(Errno::STALE)?;
            if let Some(fd) = &node.fd {
                break fd.clone();
            }
            way.push(at);
            at = node.parent;
            if way.len() > 4096 {
                return Err(Errno::STALE);
            }
        };
        for number in way.into_iter().rev() {
            let node = self.nodes.get_mut(&number).ok_or(Errno::STALE)?;
            let opened = openat(fd.as_fd(), &*node.name, FLAGS, Mode::empty())?;
            let inode = fstat(&opened)?.st_ino;
            fd = Arc::new(opened);
            match node.inode {
                Some(known) if known != inode => return Err(Errno::STALE),
                Some(_) => {}
                None => {
                    node.inode = Some(inode);
                    node.key = Key::Inode(inode);
                    node.fd = Some(fd.clone());
                    let key = node.key.clone();
                    self.by_key.insert(key, number);
                }
            }
        }
        Ok(fd)
    }

    fn number(&mut self, inode: u64) -> u64 {
        if inode > ROOT && inode < OWN_NUMBERS && !self.nodes.contains_key(&inode) {
            return inode;
        }
        self.next += 1;
        self.next
    }

    fn is_within(&self, mut number: u64, above: u64) -> bool {
        for _ in 0..4096 {
            if number == above {
                return true;
            }
            match self.nodes.get(&number) {
                Some(node) if number != ROOT => number = node.parent,
                _ => return false,
            }
        }
        false
    }
}
