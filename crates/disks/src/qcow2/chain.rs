//! A disk and its backing files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskError, DiskSource, DiskView, Extent, Origin};

use super::layer::{Layer, Mapping, place};
use crate::{bounds, sparse};

/// The most layers of a chain. A longer one is a cycle.
const MAX_LAYERS: usize = 1000;

/// A chain of layers, the disk itself first.
pub struct Chain {
    layers: Vec<Layer>,
    base: Option<Base>,
}

/// The raw image at the bottom.
pub struct Base {
    file: File,
    path: PathBuf,
    place: u128,
    size: u64,
}

/// The content of a range in some layers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// Not allocated: the layers below count.
    Below,
    /// It reads as zeros.
    Zeros,
    /// Data in the file of one of the layers.
    Data {
        /// The index of the layer.
        layer: usize,
        /// The offset in its file.
        at: u64,
    },
}

impl Chain {
    /// Opens a disk and its backing files.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let mut layers = Vec::new();
        let mut above = Layer::open(path)?;
        while layers.len() < MAX_LAYERS {
            match above.parent().cloned() {
                None => {
                    layers.push(above);
                    return Ok(Self { layers, base: None });
                }
                Some(DiskSource::Raw(path)) => {
                    let base = Base::open(path)?;
                    check_sizes(&above, base.size)?;
                    layers.push(above);
                    return Ok(Self { layers, base: Some(base) });
                }
                Some(DiskSource::Layer(path)) => {
                    let below = Layer::open(&path)?;
                    check_sizes(&above, below.size())?;
                    layers.push(std::mem::replace(&mut above, below));
                }
            }
        }
        Err(bad_disk(path, "it stands on too many layers, or on itself"))
    }

    /// The layers, the disk itself first.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The raw image at the bottom.
    pub fn base(&self) -> Option<&Base> {
        self.base.as_ref()
    }

    /// Bytes of stored guest data in all layers.
    pub fn stored_bytes(&self) -> io::Result<u64> {
        let (mut offset, mut sum) = (0, 0);
        while offset < self.size() {
            let extent = self.extent(offset, self.size() - offset)?;
            if extent.origin != Origin::Zeros {
                sum += extent.length;
            }
            offset += extent.length;
        }
        Ok(sum)
    }

    fn extent(&self, offset: u64, limit: u64) -> io::Result<Extent> {
        let (found, length) = find(&self.layers, offset, limit)?;
        let origin = match found {
            Found::Zeros => Origin::Zeros,
            Found::Data { layer, at } => Origin::Stored { place: self.layers[layer].place(), at },
            Found::Below => match &self.base {
                Some(base) => return base.extent(offset, length),
                None => Origin::Zeros,
            },
        };
        Ok(Extent { origin, length })
    }
}

impl DiskView for Chain {
    fn size(&self) -> u64 {
        self.layers.first().map_or(0, Layer::size)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        bounds::check(self.size(), offset, buffer.len() as u64)?;
        let (mut offset, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let (found, length) = find(&self.layers, offset, rest.len() as u64)?;
            let (piece, after) = rest.split_at_mut(length as usize);
            match (found, &self.base) {
                (Found::Data { layer, at }, _) => self.layers[layer].read(at, piece)?,
                (Found::Below, Some(base)) => sparse::read_padded(&base.file, offset, piece)?,
                (Found::Below, None) | (Found::Zeros, _) => piece.fill(0),
            }
            offset += length;
            rest = after;
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        self.extent(offset, bounds::rest(self.size(), offset)?)
    }
}

impl Base {
    fn open(path: PathBuf) -> Result<Self, DiskError> {
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((metadata, _)) if !metadata.is_file() => Err(bad_disk(&path, "it is not a regular file")),
            Ok((metadata, file)) => Ok(Self { file, path, place: place(&metadata), size: metadata.len() }),
            Err(cause) => Err(DiskError::Io { action: "open the disk", path, cause }),
        }
    }

    /// The path of the image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Identifies the file.
    pub fn place(&self) -> u128 {
        self.place
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn extent(&self, offset: u64, limit: u64) -> io::Result<Extent> {
        let piece = sparse::piece_at(&self.file, offset, limit)?;
        let origin =
            if piece.is_data { Origin::Stored { place: self.place, at: offset } } else { Origin::Zeros };
        Ok(Extent { origin, length: piece.length })
    }
}

/// The content at `offset` in `layers`, topmost first, and its length, at most `limit`. A layer reads as zeros beyond its
/// end.
pub fn find(layers: &[Layer], offset: u64, limit: u64) -> io::Result<(Found, u64)> {
    let mut length = limit;
    for (index, layer) in layers.iter().enumerate() {
        if offset >= layer.size() {
            return Ok((Found::Zeros, length));
        }
        let (mapping, reach) = layer.mapping(offset, length.min(layer.size() - offset))?;
        length = reach;
        match mapping {
            Mapping::Unallocated => {}
            Mapping::Zeros => return Ok((Found::Zeros, length)),
            Mapping::Data(at) => return Ok((Found::Data { layer: index, at }, length)),
        }
    }
    Ok((Found::Below, length))
}

/// Fails if a disk is smaller than its source, which is assumed never to happen elsewhere.
fn check_sizes(above: &Layer, below_size: u64) -> Result<(), DiskError> {
    if above.size() < below_size {
        return Err(bad_disk(above.path(), "it is smaller than what it stands on"));
    }
    Ok(())
}

fn bad_disk(path: &Path, reason: &str) -> DiskError {
    DiskError::BadDisk { path: path.to_owned(), reason: reason.to_owned() }
}
