//! Reads a tree and creates its directories, so that files can be written in any order.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, mkdirat};

use super::reuse::Known;
use crate::error::StoreError;
use crate::id::TreeId;
use crate::import::open_beneath;
use crate::node::{Entry, LinkGroup, Meta, Node};
use crate::path::TreePath;
use crate::steps::Step;
use crate::store::Store;
use crate::tree::{check_depth, directory};

/// The entries of one directory that are not directories.
pub(super) struct Job {
    pub(super) path: Arc<TreePath>,
    pub(super) entries: Vec<Entry>,
    /// What is known about the same directory elsewhere.
    pub(super) known: HashMap<Box<[u8]>, Node>,
}

/// Another name of a file.
pub(super) struct Link {
    pub(super) from: TreePath,
    pub(super) to: TreePath,
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) jobs: Vec<Job>,
    pub(super) links: Vec<Link>,
    /// Parents before children.
    pub(super) directories: Vec<(Arc<TreePath>, Meta)>,
}

/// Most entries of one job.
const BATCH: usize = 128;

/// Creates all directories below `root`, writable for now.
pub(super) fn plan(
    store: &Store,
    root: BorrowedFd<'_>,
    tree: TreeId,
    reuse: Option<TreeId>,
) -> Result<Plan, StoreError> {
    let mut plan = Plan::default();
    let mut groups: HashMap<(LinkGroup, Node), TreePath> = HashMap::new();
    let mut stack = vec![(TreePath::root(), tree, reuse)];
    while let Some((path, tree, reuse)) = stack.pop() {
        check_depth(&path)?;
        let directory = directory(store, tree)?;
        let known = Known::load(store, reuse)?;
        let path = Arc::new(path);
        plan.directories.push((path.clone(), directory.meta));
        let mut others = Vec::new();
        let mut children = Vec::new();
        for entry in directory.entries {
            match &entry.node {
                Node::Directory(tree) => children.push((entry.name, *tree)),
                Node::File(file) if file.link.is_some() => {
                    let here = path.join(&entry.name);
                    let key = (file.link.unwrap_or(LinkGroup(0)), entry.node.clone());
                    match groups.get(&key) {
                        Some(first) => plan.links.push(Link { from: first.clone(), to: here }),
                        None => {
                            groups.insert(key, here);
                            others.push(entry);
                        }
                    }
                }
                _ => others.push(entry),
            }
        }
        make_directories(store, root, &path, &children)?;
        stack.extend(children.iter().map(|(name, tree)| (path.join(name), *tree, known.directory(name))));
        let mut known = known.into_files();
        while !others.is_empty() {
            let rest = others.split_off(others.len().min(BATCH));
            let part = others.iter().filter_map(|entry| known.remove_entry(&entry.name)).collect();
            plan.jobs.push(Job { path: path.clone(), entries: others, known: part });
            others = rest;
        }
    }
    Ok(plan)
}

fn make_directories(
    store: &Store,
    root: BorrowedFd<'_>,
    path: &TreePath,
    children: &[(Box<[u8]>, TreeId)],
) -> Result<(), StoreError> {
    if children.is_empty() {
        return Ok(());
    }
    let parent = open_beneath(root, path, OFlags::PATH | OFlags::DIRECTORY);
    let parent = parent.map_err(StoreError::os("open", path.as_host()))?;
    for (name, _) in children {
        store.step(Step::CreateEntry)?;
        let made = mkdirat(&parent, &**name, Mode::RWXU);
        made.map_err(|error| StoreError::os("create", path.join(name).as_host())(error))?;
    }
    Ok(())
}
