//! Writes a tree as a tar archive.

use std::collections::HashMap;
use std::io::Write;

use tar::{Builder, EntryType, Header};

use super::tar_in::format_time;
use crate::content::ContentReader;
use crate::error::StoreError;
use crate::id::{ObjectKind, TreeId};
use crate::node::{File, LinkGroup, Meta, Node};
use crate::object::Attributes;
use crate::path::TreePath;
use crate::store::Objects;
use crate::tree::{Visit, walk};

/// What fits into the fields of a header.
const MAX_FIELD: usize = 100;
const MAX_NUMBER: u64 = 0o7_777_777;

/// Writes a tree as a POSIX archive with exact times and extended attributes. The same tree gives the same bytes.
pub fn write_tar<W: Write>(objects: &dyn Objects, tree: TreeId, out: W) -> Result<W, StoreError> {
    let mut writing = Writing { objects, builder: Builder::new(out), links: HashMap::new() };
    walk(objects, tree, |path, visit| match visit {
        Visit::Directory { meta, .. } => {
            let name = [path.as_bytes(), b"/"].concat();
            let name = if path.is_root() { b"./".as_slice() } else { &name };
            writing.entry(name, EntryType::Directory, meta, b"", None)
        }
        Visit::Other(Node::File(file)) => writing.file(path, file),
        Visit::Other(Node::Symlink { meta, target }) => {
            writing.entry(path.as_bytes(), EntryType::Symlink, meta, target, None)
        }
        Visit::Other(Node::Fifo { meta }) => writing.entry(path.as_bytes(), EntryType::Fifo, meta, b"", None),
        Visit::Other(Node::Directory(_)) => Ok(()),
    })?;
    writing.builder.into_inner().map_err(StoreError::io("write", "the archive"))
}

struct Writing<'w, W: Write> {
    objects: &'w dyn Objects,
    builder: Builder<W>,
    links: HashMap<(LinkGroup, File), TreePath>,
}

impl<W: Write> Writing<'_, W> {
    fn file(&mut self, path: &TreePath, file: &File) -> Result<(), StoreError> {
        if let Some(group) = file.link {
            let first = self.links.entry((group, *file)).or_insert_with(|| path.clone());
            if first != path {
                let target = first.clone();
                return self.entry(path.as_bytes(), EntryType::Link, &file.meta, target.as_bytes(), None);
            }
        }
        self.entry(path.as_bytes(), EntryType::Regular, &file.meta, b"", Some(file))
    }

    fn entry(
        &mut self,
        name: &[u8],
        kind: EntryType,
        meta: &Meta,
        link: &[u8],
        file: Option<&File>,
    ) -> Result<(), StoreError> {
        let size = file.map_or(0, |file| file.size);
        self.extensions(name, kind, meta, link)?;
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(meta.mode.into());
        header.set_uid(u64::from(meta.uid).min(MAX_NUMBER));
        header.set_gid(u64::from(meta.gid).min(MAX_NUMBER));
        header.set_mtime(u64::try_from(meta.mtime.seconds).unwrap_or(0).min(0o77_777_777_777));
        header.set_size(size);
        let fields = header.as_old_mut();
        copy(&mut fields.name, name);
        copy(&mut fields.linkname, link);
        header.set_cksum();
        let written = match file {
            None => self.builder.append(&header, std::io::empty()),
            Some(file) => {
                let content = ContentReader::new(self.objects, file.content, file.size)?;
                self.builder.append(&header, content)
            }
        };
        // An error of the store is inside the error of the copy.
        written.map_err(|error| match error.downcast::<StoreError>() {
            Ok(error) => error,
            Err(error) => StoreError::io("write", "the archive")(error),
        })
    }

    /// What the header cannot say: long names, exact times, large numbers, attributes.
    fn extensions(
        &mut self,
        name: &[u8],
        kind: EntryType,
        meta: &Meta,
        link: &[u8],
    ) -> Result<(), StoreError> {
        let mut extensions: Vec<(String, Vec<u8>)> = Vec::new();
        let mut add = |key: &str, value: &[u8]| extensions.push((key.to_owned(), value.to_vec()));
        if name.len() > MAX_FIELD {
            add("path", name);
        }
        if link.len() > MAX_FIELD {
            add("linkpath", link);
        }
        if meta.mtime.nanos > 0 || meta.mtime.seconds < 0 {
            add("mtime", format_time(meta.mtime).as_bytes());
        }
        for (key, value) in [("uid", u64::from(meta.uid)), ("gid", u64::from(meta.gid))] {
            if value > MAX_NUMBER {
                add(key, value.to_string().as_bytes());
            }
        }
        if let Some(id) = meta.attributes.filter(|_| kind != EntryType::Link) {
            let attributes = Attributes::decode(&self.objects.object(ObjectKind::Attributes, &id)?)?;
            for (name, value) in attributes.0 {
                let name = String::from_utf8(name)
                    .map_err(|_| StoreError::invalid("the name of an attribute", "an archive needs UTF-8"))?;
                extensions.push((format!("SCHILY.xattr.{name}"), value));
            }
        }
        if extensions.is_empty() {
            return Ok(());
        }
        let borrowed = extensions.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        self.builder.append_pax_extensions(borrowed).map_err(StoreError::io("write", "the archive"))
    }
}

fn copy(field: &mut [u8], value: &[u8]) {
    for (place, byte) in field.iter_mut().zip(value) {
        *place = *byte;
    }
}
