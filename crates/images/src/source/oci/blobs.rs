//! The files of an image, in a directory or inside an archive.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{MemberKind, SourceError, TarReader, normalise};
use crate::unpack::{self, Compression};

/// Manifests, indexes and configurations are held in memory, so none may be larger.
const SMALL_MAX: u64 = 8 << 20;
/// No archive of an image has more files or unpacks to more.
const FILES_MAX: usize = 100_000;
const UNPACKED_MAX: u64 = 64 << 30;

/// The files of an image, by name.
#[derive(Debug)]
pub(super) enum Blobs {
    Directory(PathBuf),
    Archive { file: Arc<File>, places: HashMap<Vec<u8>, Place> },
}

#[derive(Clone, Debug)]
pub(super) enum Place {
    At { offset: u64, length: u64 },
    Link(Vec<u8>),
}

impl Blobs {
    /// Finds the files in an archive, unpacking it to `scratch` first if it is compressed.
    pub(super) fn in_archive(path: &Path, scratch: &Path) -> Result<Self, SourceError> {
        let origin = path.display().to_string();
        let corrupt = SourceError::corrupt(&origin);
        let file = File::open(path).map_err(SourceError::io("open", &origin))?;
        let mut head = [0; 8];
        let got = file.read_at(&mut head, 0).map_err(&corrupt)?;
        let file = match Compression::of(&head[..got]) {
            Compression::None => file,
            _ => {
                let unpacking = || SourceError::io("unpack", &origin);
                let mut plain = tempfile::tempfile_in(scratch).map_err(unpacking())?;
                let input = unpack::reader(file).map_err(&corrupt)?;
                let copied = io::copy(&mut input.take(UNPACKED_MAX), &mut plain).map_err(unpacking())?;
                if copied == UNPACKED_MAX {
                    return Err(SourceError::rejected(&origin, "it unpacks to an absurd size"));
                }
                plain
            }
        };
        let file = Arc::new(file);
        let places = find_places(&file).map_err(&corrupt)?;
        Ok(Self::Archive { file, places })
    }

    /// Whether there is a file of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Directory(root) => root.join(name).is_file(),
            Self::Archive { places, .. } => places.contains_key(name.as_bytes()),
        }
    }

    /// Opens a file; the second result is its length.
    pub(super) fn open(&self, name: &str) -> io::Result<(Box<dyn Read>, u64)> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("the file {name:?} is missing"));
        let name =
            normalise(name.as_bytes()).map_err(|fault| io::Error::new(io::ErrorKind::InvalidData, fault))?;
        match self {
            Self::Directory(root) => {
                use std::os::unix::ffi::OsStrExt;
                let file = File::open(root.join(std::ffi::OsStr::from_bytes(&name))).map_err(|error| {
                    if error.kind() == io::ErrorKind::NotFound { missing() } else { error }
                })?;
                let length = file.metadata()?.len();
                Ok((Box::new(file), length))
            }
            Self::Archive { file, places } => {
                let place = match places.get(&name) {
                    Some(Place::Link(target)) => places.get(target),
                    other => other,
                };
                let Some(Place::At { offset, length }) = place else { return Err(missing()) };
                let section = Section { file: file.clone(), at: *offset, left: *length };
                Ok((Box::new(section), *length))
            }
        }
    }

    /// Reads a manifest, index or configuration.
    pub(super) fn small(&self, name: &str) -> io::Result<Vec<u8>> {
        let (reader, length) = self.open(name)?;
        if length > SMALL_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{name} is far too large")));
        }
        let mut bytes = Vec::new();
        reader.take(SMALL_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn find_places(file: &Arc<File>) -> io::Result<HashMap<Vec<u8>, Place>> {
    let invalid = |fault| io::Error::new(io::ErrorKind::InvalidData, fault);
    let length = file.metadata()?.len();
    let mut tar = TarReader::new(Section { file: file.clone(), at: 0, left: length });
    let mut places = HashMap::new();
    while let Some(member) = tar.next()? {
        let name = normalise(&member.path).map_err(invalid)?;
        match member.kind {
            MemberKind::File => {
                let offset = tar.get_ref().at;
                places.insert(name, Place::At { offset, length: member.size });
            }
            // Older docker archives share equal layers by links between their directories.
            MemberKind::Symlink | MemberKind::Hardlink => {
                let target = linked(&name, &member.link, member.kind).map_err(invalid)?;
                places.insert(name, Place::Link(target));
            }
            _ => {}
        }
        if places.len() > FILES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it has too many files"));
        }
    }
    Ok(places)
}

fn linked(name: &[u8], target: &[u8], kind: MemberKind) -> Result<Vec<u8>, super::super::PathFault> {
    match (kind, target.strip_prefix(b"../")) {
        (MemberKind::Symlink, Some(sibling)) => normalise(sibling),
        (MemberKind::Symlink, None) => {
            let directory = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
            normalise(&[&name[..directory], target].concat())
        }
        _ => normalise(target),
    }
}

/// A part of a file, read without moving anybody's position.
pub(super) struct Section {
    file: Arc<File>,
    at: u64,
    left: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let got = self.file.read_at(&mut buffer[..want], self.at)?;
        self.at += got as u64;
        self.left -= got as u64;
        Ok(got)
    }
}
