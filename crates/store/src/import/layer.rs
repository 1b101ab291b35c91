//! Import of the upper layer of an overlay: what changed since the tree below it. The cost is that of the layer, not of the
//! tree.

use std::collections::BTreeMap;
use std::path::Path;

use super::cache::StatCache;
use super::directory::{Context, ImportOptions, Imported, collect, host_path};
use super::links::Links;
use crate::builder::put_directory;
use crate::edit::{Edit, edit};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::Node;
use crate::object::Directory;
use crate::session::Session;
use crate::tree::lookup;

/// The tree that an overlay shows: `base`, which its lower layer was made from, with the changes of its upper layer.
///
/// Understands whiteouts and opaque directories. Directories that the overlay renamed without copying them
/// (`redirect_dir=on`) are refused. The layer must not change meanwhile, or the report says so.
pub fn import_layer(
    session: &Session,
    base: TreeId,
    upper: &Path,
    options: &ImportOptions<'_>,
) -> Result<Imported, StoreError> {
    let context = Context::open(session, upper, options, true)?;
    let (listed, batches, mut report) = collect(&context)?;
    let mut edits = BTreeMap::new();
    for directory in &listed {
        if directory.marks.is_redirected {
            let reason = "the overlay renamed this directory; mount it with redirect_dir=off".to_owned();
            return Err(StoreError::Import { path: host_path(upper, &directory.path), reason });
        }
        let below = match lookup(session, base, &directory.path) {
            Err(StoreError::NotADirectory { .. }) => None,
            other => other?,
        };
        let is_new = directory.marks.is_opaque || !matches!(below, Some(Node::Directory(_)));
        let change = if is_new {
            let empty = Directory { meta: directory.meta, entries: Vec::new() };
            Edit::Put(Node::Directory(put_directory(session, &empty)?))
        } else {
            Edit::SetMeta(directory.meta)
        };
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
