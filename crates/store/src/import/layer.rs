//! Import of the upper layer of an overlay: what changed since the tree below it. The cost is that of the layer, not of the
//! tree.

use std::collections::BTreeMap;
use std::path::Path;

use super::cache::StatCache;
use super::directory::{Context, ImportOptions, Imported, collect};
use super::links::Links;
use super::scan::Listed;
use crate::builder::put_directory;
use crate::edit::{Edit, edit};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::Node;
use crate::object::Directory;
use crate::path::TreePath;
use crate::session::Session;
use crate::tree::lookup;

/// The tree that an overlay shows: `base`, which its lower layer was made from, with the changes of its upper layer.
///
/// Understands whiteouts, opaque directories, and directories that the overlay renamed without copying them
/// (`redirect_dir=on`). The layer must not change meanwhile, or the report says so.
pub fn import_layer(
    session: &Session,
    base: TreeId,
    upper: &Path,
    options: &ImportOptions<'_>,
) -> Result<Imported, StoreError> {
    let context = Context::open(session, upper, options, true)?;
    let (listed, batches, mut report) = collect(&context)?;
    let mut edits = BTreeMap::new();
    // What each directory continues in the base, in the order of the list: parents first.
    let mut origins: Vec<Option<TreePath>> = Vec::with_capacity(listed.len());
    for directory in &listed {
        let origin = origin(directory, &origins)?;
        let below = match origin.as_ref().map_or(Ok(None), |origin| lookup(session, base, origin)) {
            Err(StoreError::NotADirectory { .. }) => None,
            other => other?,
        };
        let (origin, change) = match below {
            Some(Node::Directory(tree)) if directory.marks.redirect.is_some() => {
                let renamed =
                    edit(session, tree, [(TreePath::root(), Edit::SetMeta(directory.meta))].into())?;
                (origin, Edit::Put(Node::Directory(renamed)))
            }
            Some(Node::Directory(_)) => (origin, Edit::SetMeta(directory.meta)),
            _ => {
                let empty = Directory { meta: directory.meta, entries: Vec::new() };
                (None, Edit::Put(Node::Directory(put_directory(session, &empty)?)))
            }
        };
        origins.push(origin);
        edits.insert(directory.path.clone(), change);
    }
    let mut links = Links::default();
    let mut cache = StatCache::new(context.device);
    for results in batches {
        report.add(results.report);
        for (device, inode, record) in results.records {
            cache.insert(device, inode, record);
        }
        let path_of = |directory: usize, position: usize| {
            let directory = listed.get(directory)?;
            Some(directory.path.join(directory.others.get(position)?))
        };
        let whiteouts = results.whiteouts.into_iter();
        let removed = whiteouts.filter_map(|(directory, position)| path_of(directory, position));
        edits.extend(removed.map(|path| (path, Edit::Remove)));
        for read in results.nodes {
            let Some(path) = path_of(read.directory, read.position) else { continue };
            match (read.inode, &read.node) {
                (Some((device, inode)), Node::File(file)) => links.add(device, inode, path, *file),
                _ => drop(edits.insert(path, Edit::Put(read.node))),
            }
        }
    }
    edits.extend(links.finish().map(|(path, file)| (path, Edit::Put(Node::File(file)))));
    let tree = edit(session, base, edits)?;
    Ok(Imported { tree, cache, report })
}

/// The directory of the base that one of the layer continues; nothing if it begins empty.
fn origin(directory: &Listed, origins: &[Option<TreePath>]) -> Result<Option<TreePath>, StoreError> {
    let Some((_, name)) = directory.path.split() else { return Ok(Some(TreePath::root())) };
    if directory.marks.is_opaque {
        return Ok(None);
    }
    let above = origins.get(directory.parent).cloned().flatten();
    match &directory.marks.redirect {
        Some(path) if path.starts_with(b"/") => TreePath::parse(path).map(Some),
        Some(name) => {
            Ok(above.map(|above| TreePath::parse(name).map(|name| name.below(&above))).transpose()?)
        }
        None => Ok(above.map(|above| above.join(name))),
    }
}
