//! Reads a tar archive. Archives are hostile: paths cannot leave the tree, nothing goes through a link, sizes are bounded.

use std::io::Read;

use tar::{Archive, Entry, EntryType};

use super::tar_ahead::Ahead;
use crate::builder::{PathBuilder, Planned};
use crate::content::store_stream;
use crate::error::StoreError;
use crate::id::{ObjectKind, TreeId};
use crate::import::link_group;
use crate::limits::MAX_TARGET;
use crate::node::{File, Meta, Node, Time};
use crate::path::TreePath;
use crate::session::Session;

/// How much an archive may contain.
#[derive(Clone, Copy, Debug)]
pub struct TarLimits {
    /// Files, directories and links.
    pub entries: usize,
    /// Size of all files.
    pub bytes: u64,
}

impl Default for TarLimits {
    fn default() -> Self {
        Self { entries: 5_000_000, bytes: 1 << 40 }
    }
}

/// A tree from an archive.
#[derive(Clone, Debug)]
pub struct TarRead {
    /// The tree.
    pub tree: TreeId,
    /// Entries that a tree does not keep: devices and unknown types.
    pub skipped: Vec<TreePath>,
}

/// Reads an archive that is not compressed. A later entry replaces an earlier one of the same path.
pub fn read_tar(session: &Session, archive: impl Read, limits: TarLimits) -> Result<TarRead, StoreError> {
    let mut reading =
        Reading { session, limits, builder: PathBuilder::new(DEFAULT), skipped: Vec::new(), bytes: 0 };
    let mut archive = Archive::new(archive);
    let mut ahead = Ahead::default();
    // Raw, because the library cannot read extensions whose values have line breaks.
    for entry in archive.entries().map_err(StoreError::archive)?.raw(true) {
        let mut entry = entry.map_err(StoreError::archive)?;
        if !ahead.take(&mut entry)? {
            reading.entry(entry, std::mem::take(&mut ahead))?;
        }
    }
    Ok(TarRead { tree: reading.builder.finish(session)?, skipped: reading.skipped })
}

/// Of directories that the archive does not describe.
const DEFAULT: Meta =
    Meta { mode: 0o755, uid: 0, gid: 0, mtime: Time { seconds: 0, nanos: 0 }, attributes: None };

struct Reading<'r> {
    session: &'r Session,
    limits: TarLimits,
    builder: PathBuilder,
    skipped: Vec<TreePath>,
    bytes: u64,
}

impl Reading<'_> {
    fn entry(&mut self, mut entry: Entry<'_, impl Read>, ahead: Ahead) -> Result<(), StoreError> {
        let kind = entry.header().entry_type();
        if self.builder.len() >= self.limits.entries {
            return Err(StoreError::archive(format_args!("more than {} entries", self.limits.entries)));
        }
        let path = TreePath::parse(ahead.path.as_deref().unwrap_or(&entry.path_bytes()))
            .map_err(StoreError::archive)?;
        let meta = self.meta(&entry, &ahead)?;
        let link =
            || ahead.link.clone().or_else(|| Some(entry.link_name_bytes()?.into_owned())).unwrap_or_default();
        let planned = match kind {
            EntryType::Directory if path.is_root() => {
                self.builder.set_root(meta);
                return Ok(());
            }
            _ if path.is_root() => return Err(StoreError::archive("an entry without a name")),
            EntryType::Directory => Planned::Directory(meta),
            EntryType::Regular | EntryType::Continuous => self.file(&mut entry, meta).map(Planned::Node)?,
            EntryType::GNUSparse => {
                return Err(StoreError::archive(format_args!("{path} is in GNU's format for sparse files")));
            }
            EntryType::Symlink => {
                let target = link();
                if target.is_empty() || target.len() > MAX_TARGET || target.contains(&0) {
                    return Err(StoreError::archive(format_args!("the target of {path} is invalid")));
                }
                let meta = Meta { mode: 0o777, attributes: None, ..meta };
                Planned::Node(Node::Symlink { meta, target: target.into() })
            }
            EntryType::Link => return self.link(path, &link()),
            EntryType::Fifo => Planned::Node(Node::Fifo { meta }),
            _ => {
                self.skipped.push(path);
                return Ok(());
            }
        };
        self.insert(path, planned)
    }

    fn insert(&mut self, path: TreePath, planned: Planned) -> Result<(), StoreError> {
        self.builder.insert(path, planned, DEFAULT).map_err(StoreError::archive)
    }

    fn file(&mut self, entry: &mut Entry<'_, impl Read>, meta: Meta) -> Result<Node, StoreError> {
        let left = self.limits.bytes - self.bytes;
        // One more byte than allowed tells that there are more.
        let (size, content) =
            store_stream(self.session, entry.take(left + 1)).map_err(StoreError::archive)?;
        if size > left {
            return Err(StoreError::archive(format_args!("more than {} bytes", self.limits.bytes)));
        }
        self.bytes += size;
        Ok(Node::File(File { meta, size, content, link: None }))
    }

    /// Another name of a file that came before.
    fn link(&mut self, path: TreePath, target: &[u8]) -> Result<(), StoreError> {
        let target = TreePath::parse(target).map_err(StoreError::archive)?;
        let Some(Planned::Node(Node::File(file))) = self.builder.get(&target) else {
            return Err(StoreError::archive(format_args!(
                "{path} links to {target}, which is not a file in it"
            )));
        };
        let linked = File { link: Some(file.link.unwrap_or_else(|| link_group(&target))), ..*file };
        self.insert(target, Planned::Node(Node::File(linked)))?;
        self.insert(path, Planned::Node(Node::File(linked)))
    }

    fn meta(&self, entry: &Entry<'_, impl Read>, ahead: &Ahead) -> Result<Meta, StoreError> {
        let header = entry.header();
        let number = |value: std::io::Result<u64>| {
            value
                .ok()
                .and_then(|value| u32::try_from(value).ok())
                .ok_or_else(|| StoreError::archive("an owner is malformed"))
        };
        let mut meta = Meta {
            mode: (header.mode().map_err(StoreError::archive)? & 0o7777) as u16,
            uid: number(header.uid())?,
            gid: number(header.gid())?,
            mtime: Time { seconds: header.mtime().map_err(StoreError::archive)?.cast_signed(), nanos: 0 },
            attributes: None,
        };
        meta.uid = ahead.uid.unwrap_or(meta.uid);
        meta.gid = ahead.gid.unwrap_or(meta.gid);
        meta.mtime = ahead.mtime.unwrap_or(meta.mtime);
        let attributes = &ahead.attributes;
        if !attributes.0.is_empty() {
            meta.attributes = Some(self.session.put(ObjectKind::Attributes, &attributes.encode()?)?);
        }
        Ok(meta)
    }
}

/// Seconds with a fraction, as in `-12.5`.
pub(super) fn parse_time(bytes: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let nanos: u32 = digits.parse().ok()?;
    if whole.starts_with('-') && nanos > 0 {
        return Some(Time { seconds: seconds.checked_sub(1)?, nanos: 1_000_000_000 - nanos });
    }
    Some(Time { seconds, nanos })
}

/// The text that [`parse_time`] reads.
pub(super) fn format_time(time: Time) -> String {
    if time.seconds < 0 && time.nanos > 0 {
        let seconds = time.seconds + 1;
        let sign = if seconds == 0 { "-" } else { "" };
        return format!("{sign}{seconds}.{:09}", 1_000_000_000 - time.nanos);
    }
    format!("{}.{:09}", time.seconds, time.nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_are_read_back(seconds in -10_000_000_000_i64..10_000_000_000, nanos in 0_u32..1_000_000_000) {
            let time = Time { seconds, nanos };
            prop_assert_eq!(parse_time(format_time(time).as_bytes()), Some(time));
        }
    }

    #[test]
    fn malformed_times_are_refused() {
        for bad in ["", "x", "1.x", "1.-5", "99999999999999999999"] {
            assert_eq!(parse_time(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
