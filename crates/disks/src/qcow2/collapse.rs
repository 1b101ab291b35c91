//! Shortening a chain: merging layers into the disk above them.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskError, DiskSource};

use super::chain::{Chain, Found, find};
use super::header::Backing;
use super::layer::{Layer, place};
use super::layout::CLUSTER;
use super::writer::Writer;
use crate::partial::Partial;

/// Rewrites the disk at `path` with `onto` as its backing file.
pub fn collapse(path: &Path, onto: &DiskSource) -> Result<(), DiskError> {
    if Layer::parent_at(path)?.is_none() {
        return Ok(());
    }
    let chain = Chain::open(path)?;
    let not_below = || DiskError::NotAnAncestor { path: path.to_owned(), onto: onto.path().to_owned() };
    let Foundation { depth, path: stored, size } = foundation(&chain, onto).ok_or_else(not_below)?;
    if depth == 1 {
        return Ok(());
    }
    let is_layer = matches!(onto, DiskSource::Layer(_));
    let backing =
        Backing::new(&stored, is_layer).map_err(|reason| DiskError::BadSource { path: stored, reason })?;
    rewrite(path, &chain.layers()[..depth], backing, size).map_err(|cause| DiskError::Io {
        action: "collapse the disk",
        path: path.to_owned(),
        cause,
    })
}

/// The new backing file.
struct Foundation {
    /// The number of layers above it.
    depth: usize,
    /// Its path, as named by the layer above it.
    path: PathBuf,
    size: u64,
}

/// Finds `onto` below the topmost layer.
fn foundation(chain: &Chain, onto: &DiskSource) -> Option<Foundation> {
    let wanted = place(&fs::metadata(onto.path()).ok()?);
    match onto {
        DiskSource::Raw(_) => chain.base().filter(|base| base.place() == wanted).map(|base| Foundation {
            depth: chain.layers().len(),
            path: base.path().to_owned(),
            size: base.size(),
        }),
        DiskSource::Layer(_) => {
            let depth = chain.layers().iter().skip(1).position(|layer| layer.place() == wanted)? + 1;
            let layer = &chain.layers()[depth];
            Some(Foundation { depth, path: layer.path().to_owned(), size: layer.size() })
        }
    }
}

fn rewrite(path: &Path, layers: &[Layer], backing: Backing, below_size: u64) -> io::Result<()> {
    let partial = Partial::create(path)?;
    let mut writer = Writer::new(partial.file(), layers[0].size(), Some(backing));
    let mut offset = 0;
    while offset < layers[0].size() {
        let (found, length) = find(layers, offset, layers[0].size() - offset)?;
        match found {
            Found::Below => {}
            // Zeros need not be stored if there is nothing below.
            Found::Zeros if offset >= below_size => {}
            Found::Zeros => writer.zero(offset, length)?,
            Found::Data { layer, at } => writer.copy(offset, layers[layer].file(), at, length)?,
        }
        // A run ends inside a cluster only at the end of a layer. The layers below are shorter, so the rest of the
        // cluster is zeros.
        offset += length.next_multiple_of(CLUSTER);
    }
    writer.finish()?;
    let metadata = layers[0].file().metadata()?;
    fchown(partial.file(), Some(metadata.uid()), Some(metadata.gid()))?;
    partial.file().set_permissions(metadata.permissions())?;
    partial.replace()
}
