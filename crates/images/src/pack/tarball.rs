//! A tarball, written entry by entry.

use std::io::{self, Read, Write};

use agentiso_core::ports::{EntryKind, RootfsEntry, RootfsSink};
use tar::{Builder, EntryType, Header};

/// The longest path or link target in a header; longer ones have their own record.
const SHORT: usize = 100;

/// Writes entries into a tarball in the format of GNU tar, with attributes in PAX records.
pub struct TarSink<W: Write> {
    builder: Builder<W>,
    entries: u64,
    bytes: u64,
}

impl<W: Write> TarSink<W> {
    /// A tarball that is written to `out`.
    pub fn new(out: W) -> Self {
        Self { builder: Builder::new(out), entries: 0, bytes: 0 }
    }

    /// Ends the tarball. Returns the writer, the number of entries and the number of content bytes.
    pub fn finish(self) -> io::Result<(W, u64, u64)> {
        Ok((self.builder.into_inner()?, self.entries, self.bytes))
    }
}

impl<W: Write> RootfsSink for TarSink<W> {
    fn entry(&mut self, entry: &RootfsEntry, content: &mut dyn Read) -> io::Result<()> {
        let (kind, size, link) = match &entry.kind {
            EntryKind::Directory => (EntryType::Directory, 0, None),
            EntryKind::File { size } => (EntryType::Regular, *size, None),
            EntryKind::Symlink { target } => (EntryType::Symlink, 0, Some(target.clone())),
            EntryKind::Hardlink { target } => (EntryType::Link, 0, Some([b"./", &target[..]].concat())),
            EntryKind::CharDevice { .. } => (EntryType::Char, 0, None),
            EntryKind::BlockDevice { .. } => (EntryType::Block, 0, None),
            EntryKind::Fifo => (EntryType::Fifo, 0, None),
            EntryKind::Removed | EntryKind::Emptied => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a tarball cannot take entries away",
                ));
            }
        };
        let path = [b"./", &entry.path[..]].concat();
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(entry.mode);
        header.set_uid(u64::from(entry.uid));
        header.set_gid(u64::from(entry.gid));
        header.set_size(size);
        header.set_mtime(u64::try_from(entry.mtime.seconds).unwrap_or(0));
        if let EntryKind::CharDevice { major, minor } | EntryKind::BlockDevice { major, minor } = entry.kind {
            header.set_device_major(major)?;
            header.set_device_minor(minor)?;
        }
        let mut records: Vec<(String, &[u8])> = Vec::new();
        put(&mut header.as_old_mut().name, "path", &path, &mut records);
        if let Some(link) = &link {
            put(&mut header.as_old_mut().linkname, "linkpath", link, &mut records);
        }
        for (name, value) in &entry.xattrs {
            // The name of an attribute cannot contain `=`.
            if let Ok(name) = std::str::from_utf8(name)
                && !name.contains('=')
            {
                records.push((format!("SCHILY.xattr.{name}"), value));
            }
        }
        if !records.is_empty() {
            self.builder
                .append_pax_extensions(records.iter().map(|(name, value)| (name.as_str(), *value)))?;
        }
        header.set_cksum();
        self.builder.append(&header, content.take(size))?;
        self.entries += u64::from(!entry.path.is_empty());
        self.bytes += size;
        Ok(())
    }
}

/// Writes a name to the header or, if it does not fit, to a record.
fn put<'r>(field: &mut [u8; SHORT], key: &str, name: &'r [u8], records: &mut Vec<(String, &'r [u8])>) {
    let fits = name.len().min(SHORT);
    field[..fits].copy_from_slice(&name[..fits]);
    if name.len() > SHORT {
        records.push((key.to_owned(), name));
    }
}
