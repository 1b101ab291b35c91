//! Separates what was renamed from what was deleted and created.

use std::collections::{HashMap, VecDeque};

use super::changes::{Change, ChangeKind, Known, aspects, expand};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::{Content, Node};
use crate::path::TreePath;
use crate::store::Objects;

/// Reports everything that was removed and created.
pub(super) fn settle(
    objects: &dyn Objects,
    removed: Vec<(TreePath, Node)>,
    created: Vec<(TreePath, Node)>,
    with_renames: bool,
    list: &mut Vec<Change>,
) -> Result<(), StoreError> {
    let mut gone: HashMap<TreeId, VecDeque<TreePath>> = HashMap::new();
    for (path, node) in &removed {
        if let (Node::Directory(tree), true) = (node, with_renames) {
            gone.entry(*tree).or_default().push_back(path.clone());
        }
    }
    let mut moved = HashMap::new();
    let mut news = Vec::new();
    for (path, node) in created {
        let from = match &node {
            Node::Directory(tree) => gone.get_mut(tree).and_then(VecDeque::pop_front),
            _ => None,
        };
        match from {
            Some(from) => {
                let known = super::changes::info(objects, &node)?;
                list.push(renamed(from.clone(), path, known.clone(), known));
                moved.insert(from, ());
            }
            None => expand(objects, &path, &node, |path, known| news.push((path, known)))?,
        }
    }
    let mut olds = Vec::new();
    for (path, node) in removed.iter().filter(|(path, _)| !moved.contains_key(path)) {
        expand(objects, path, node, |path, known| olds.push((path, known)))?;
    }
    files(olds, news, with_renames, list);
    Ok(())
}

fn files(
    olds: Vec<(TreePath, Known)>,
    news: Vec<(TreePath, Known)>,
    with_renames: bool,
    list: &mut Vec<Change>,
) {
    let mut by_content: HashMap<Content, Vec<usize>> = HashMap::new();
    if with_renames {
        for (index, (_, (info, _))) in olds.iter().enumerate() {
            if let Some(content) = info.content.filter(|content| *content != Content::Empty) {
                by_content.entry(content).or_default().push(index);
            }
        }
    }
    let mut is_taken = vec![false; olds.len()];
    for (path, known) in news {
        let candidates = known.0.content.and_then(|content| by_content.get_mut(&content));
        match candidates.and_then(|candidates| choose(candidates, &olds, &path)) {
            Some(index) => {
                if let (Some(taken), Some((from, before))) = (is_taken.get_mut(index), olds.get(index)) {
                    *taken = true;
                    list.push(renamed(from.clone(), path, before.clone(), known));
                }
            }
            None => list.push(Change {
                kind: ChangeKind::Created,
                path,
                old_path: None,
                before: None,
                after: Some(known.0),
                aspects: Vec::new(),
            }),
        }
    }
    for ((path, known), _) in olds.into_iter().zip(is_taken).filter(|(_, is_taken)| !is_taken) {
        list.push(Change {
            kind: ChangeKind::Deleted,
            path,
            old_path: None,
            before: Some(known.0),
            after: None,
            aspects: Vec::new(),
        });
    }
}

/// The candidate of the same name, or the first.
fn choose(candidates: &mut Vec<usize>, olds: &[(TreePath, Known)], path: &TreePath) -> Option<usize> {
    let name = |path: &TreePath| path.split().map(|(_, name)| name.to_vec());
    let wanted = name(path);
    // A search for the name among thousands of equal files would cost more than it tells.
    let same =
        candidates.iter().take(64).position(|index| olds.get(*index).and_then(|old| name(&old.0)) == wanted);
    let at = same.unwrap_or(0);
    (at < candidates.len()).then(|| candidates.remove(at))
}

fn renamed(from: TreePath, to: TreePath, before: Known, after: Known) -> Change {
    Change {
        kind: ChangeKind::Renamed,
        path: to,
        old_path: Some(from),
        aspects: aspects(&before, &after, false),
        before: Some(before.0),
        after: Some(after.0),
    }
}
