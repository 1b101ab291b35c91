//! Directories. Small ones are one object; large ones are a list of pages, so that a changed entry costs one page.
//!
//! A page ends after a name whose hash has eight zero bits, so the borders do not move when entries elsewhere come and
//! go, and the same entries always give the same pages. A page without such a name ends at `MAX_PAGE_ENTRIES`.

use super::codec::{Malformed, Reader, Writer};
use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind, TreeId};
use crate::limits::{MAX_DIRECTORY_ENTRIES, MAX_LEAF_ENTRIES, MAX_NAME, MAX_PAGE_ENTRIES, MAX_TARGET};
use crate::node::{Content, Entry, File, LinkGroup, Meta, Node, Time};
use crate::path::is_valid_name;

const DIRECTORY_MAGIC: &[u8; 4] = b"AiTD";
const PAGE_MAGIC: &[u8; 4] = b"AiTP";
const VERSION: u8 = 1;

const WHOLE: u8 = 0;
const PAGED: u8 = 1;

const DIRECTORY: u8 = 0;
const FILE: u8 = 1;
const SYMLINK: u8 = 2;
const FIFO: u8 = 3;

const EMPTY: u8 = 0;
const BLOB: u8 = 1;
const CHUNKED: u8 = 2;

/// A directory with all its entries, sorted by name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Directory {
    /// Metadata of the directory itself.
    pub meta: Meta,
    /// Sorted by name, without duplicates.
    pub entries: Vec<Entry>,
}

/// A page in the list of a large directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PageRef {
    /// The last name in the page.
    pub last: Box<[u8]>,
    /// The page.
    pub id: ObjectId,
}

/// A directory as it is stored.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DirectoryObject {
    /// All entries are in this object.
    Whole(Directory),
    /// The entries are in pages.
    Paged {
        /// Metadata of the directory.
        meta: Meta,
        /// Number of entries in all pages.
        count: u64,
        /// Pages in the order of their names.
        pages: Vec<PageRef>,
    },
}

/// A part of the entries of a large directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page(pub Vec<Entry>);

/// The objects of a directory: its pages, if any, and itself.
pub(crate) struct Encoded {
    pub(crate) pages: Vec<(ObjectId, Vec<u8>)>,
    pub(crate) id: TreeId,
    pub(crate) bytes: Vec<u8>,
}

impl Directory {
    /// Encodes the directory as one object and perhaps pages. The entries must be sorted and their names valid.
    pub(crate) fn encode(&self) -> Result<Encoded, StoreError> {
        check(&self.entries, MAX_DIRECTORY_ENTRIES)
            .map_err(|Malformed(reason)| StoreError::invalid("a directory", reason))?;
        let mut writer = Writer::new(DIRECTORY_MAGIC, VERSION);
        let mut pages = Vec::new();
        if self.entries.len() <= MAX_LEAF_ENTRIES {
            writer.byte(WHOLE);
            write_meta(&mut writer, &self.meta);
            write_entries(&mut writer, &self.entries);
        } else {
            writer.byte(PAGED);
            write_meta(&mut writer, &self.meta);
            writer.number(self.entries.len() as u64);
            let ranges = page_ranges(&self.entries);
            writer.number(ranges.len() as u64);
            for entries in ranges {
                let mut page = Writer::new(PAGE_MAGIC, VERSION);
                write_entries(&mut page, entries);
                let id = ObjectId::of(ObjectKind::Page, &page.0);
                writer.bytes(entries.last().map_or(&[], |entry| &entry.name));
                writer.raw(id.as_bytes());
                pages.push((id, page.0));
            }
        }
        let id = TreeId(ObjectId::of(ObjectKind::Directory, &writer.0));
        Ok(Encoded { pages, id, bytes: writer.0 })
    }
}

impl DirectoryObject {
    /// Decodes the object of a directory. Every name in it is valid, and they are sorted.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse(bytes).map_err(|Malformed(reason)| StoreError::damaged("a directory", reason))
    }

    /// Metadata of the directory itself.
    pub fn meta(&self) -> &Meta {
        match self {
            Self::Whole(directory) => &directory.meta,
            Self::Paged { meta, .. } => meta,
        }
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, DIRECTORY_MAGIC, VERSION)?;
        let form = reader.byte()?;
        let meta = read_meta(&mut reader)?;
        let object = match form {
            WHOLE => {
                let entries = read_entries(&mut reader, MAX_LEAF_ENTRIES)?;
                Self::Whole(Directory { meta, entries })
            }
            PAGED => {
                let count = reader.number()?;
                let pages = read_pages(&mut reader)?;
                if count > MAX_DIRECTORY_ENTRIES as u64 || pages.len() as u64 > count {
                    return Err(Malformed("its number of entries is impossible"));
                }
                Self::Paged { meta, count, pages }
            }
            _ => return Err(Malformed("its form is unknown")),
        };
        reader.end()?;
        Ok(object)
    }
}

impl Page {
    /// Decodes a page. Every name in it is valid, and they are sorted.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let parse = || {
            let mut reader = Reader::new(bytes, PAGE_MAGIC, VERSION)?;
            let entries = read_entries(&mut reader, MAX_PAGE_ENTRIES)?;
            reader.end()?;
            Ok(Self(entries))
        };
        parse().map_err(|Malformed(reason)| StoreError::damaged("a directory page", reason))
    }
}

fn check(entries: &[Entry], max: usize) -> Result<(), Malformed> {
    if entries.len() > max {
        return Err(Malformed("it has too many entries"));
    }
    if !entries.iter().all(|entry| is_valid_name(&entry.name)) {
        return Err(Malformed("a name is not allowed"));
    }
    if !entries.is_sorted_by(|a, b| a.name < b.name) {
        return Err(Malformed("its names are not sorted"));
    }
    Ok(())
}

fn page_ranges(entries: &[Entry]) -> Vec<&[Entry]> {
    let mut ranges = Vec::new();
    let mut start = 0;
    for (index, entry) in entries.iter().enumerate() {
        let is_last = index + 1 == entries.len();
        let is_full = index + 1 - start == MAX_PAGE_ENTRIES;
        if is_last || is_full || blake3::hash(&entry.name).as_bytes().first() == Some(&0) {
            ranges.extend(entries.get(start..=index));
            start = index + 1;
        }
    }
    ranges
}

fn read_pages(reader: &mut Reader<'_>) -> Result<Vec<PageRef>, Malformed> {
    let count = reader.count(2 + ObjectId::LEN)?;
    let mut pages: Vec<PageRef> = Vec::with_capacity(count);
    for _ in 0..count {
        let last: Box<[u8]> = reader.bytes(MAX_NAME)?.into();
        if !is_valid_name(&last) || pages.last().is_some_and(|page| page.last >= last) {
            return Err(Malformed("its pages are not sorted"));
        }
        pages.push(PageRef { last, id: ObjectId::from_bytes(reader.array()?) });
    }
    Ok(pages)
}

fn write_meta(writer: &mut Writer, meta: &Meta) {
    writer.number(meta.mode.into());
    writer.number(meta.uid.into());
    writer.number(meta.gid.into());
    writer.signed(meta.mtime.seconds);
    writer.number(meta.mtime.nanos.into());
    match meta.attributes {
        None => writer.byte(0),
        Some(id) => {
            writer.byte(1);
            writer.raw(id.as_bytes());
        }
    }
}

fn read_meta(reader: &mut Reader<'_>) -> Result<Meta, Malformed> {
    let mode: u16 = reader.narrow()?;
    if mode > 0o7777 {
        return Err(Malformed("a mode is invalid"));
    }
    let (uid, gid) = (reader.narrow()?, reader.narrow()?);
    let mtime = Time { seconds: reader.signed()?, nanos: reader.narrow()? };
    if mtime.nanos >= 1_000_000_000 {
        return Err(Malformed("a time is invalid"));
    }
    let attributes = match reader.byte()? {
        0 => None,
        1 => Some(ObjectId::from_bytes(reader.array()?)),
        _ => return Err(Malformed("a flag is invalid")),
    };
    Ok(Meta { mode, uid, gid, mtime, attributes })
}

fn write_entries(writer: &mut Writer, entries: &[Entry]) {
    writer.number(entries.len() as u64);
    for entry in entries {
        writer.bytes(&entry.name);
        write_node(writer, &entry.node);
    }
}

fn read_entries(reader: &mut Reader<'_>, max: usize) -> Result<Vec<Entry>, Malformed> {
    // The shortest entry, a named pipe, takes nine bytes.
    let count = reader.count(9)?;
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.bytes(MAX_NAME)?.into();
        entries.push(Entry { name, node: read_node(reader)? });
    }
    check(&entries, max)?;
    Ok(entries)
}

fn write_node(writer: &mut Writer, node: &Node) {
    match node {
        Node::Directory(TreeId(id)) => {
            writer.byte(DIRECTORY);
            writer.raw(id.as_bytes());
        }
        Node::File(file) => {
            writer.byte(FILE);
            write_meta(writer, &file.meta);
            writer.number(file.size);
            let (tag, id) = match &file.content {
                Content::Empty => (EMPTY, None),
                Content::Blob(id) => (BLOB, Some(id)),
                Content::Chunked(id) => (CHUNKED, Some(id)),
            };
            writer.byte(tag);
            writer.raw(id.map_or(&[], |id| id.as_bytes()));
            match file.link {
                None => writer.byte(0),
                Some(LinkGroup(group)) => {
                    writer.byte(1);
                    writer.raw(&group.to_le_bytes());
                }
            }
        }
        Node::Symlink { meta, target } => {
            writer.byte(SYMLINK);
            write_meta(writer, meta);
            writer.bytes(target);
        }
        Node::Fifo { meta } => {
            writer.byte(FIFO);
            write_meta(writer, meta);
        }
    }
}

fn read_node(reader: &mut Reader<'_>) -> Result<Node, Malformed> {
    Ok(match reader.byte()? {
        DIRECTORY => Node::Directory(TreeId(ObjectId::from_bytes(reader.array()?))),
        FILE => Node::File(read_file(reader)?),
        SYMLINK => {
            let meta = read_meta(reader)?;
            let target: Box<[u8]> = reader.bytes(MAX_TARGET)?.into();
            if target.is_empty() || target.contains(&0) {
                return Err(Malformed("the target of a symbolic link is invalid"));
            }
            Node::Symlink { meta, target }
        }
        FIFO => Node::Fifo { meta: read_meta(reader)? },
        _ => return Err(Malformed("an entry is of unknown kind")),
    })
}

fn read_file(reader: &mut Reader<'_>) -> Result<File, Malformed> {
    let meta = read_meta(reader)?;
    let size = reader.number()?;
    let content = match reader.byte()? {
        EMPTY => Content::Empty,
        BLOB => Content::Blob(ObjectId::from_bytes(reader.array()?)),
        CHUNKED => Content::Chunked(ObjectId::from_bytes(reader.array()?)),
        _ => return Err(Malformed("a content is of unknown kind")),
    };
    if (size == 0) != (content == Content::Empty) {
        return Err(Malformed("a size does not fit its content"));
    }
    let link = match reader.byte()? {
        0 => None,
        1 => Some(LinkGroup(u64::from_le_bytes(reader.array()?))),
        _ => return Err(Malformed("a flag is invalid")),
    };
    Ok(File { meta, size, content, link })
}
