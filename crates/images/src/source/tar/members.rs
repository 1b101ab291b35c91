//! One member of an archive, with all its headers taken together.

use std::io;

use agentiso_core::ports::Timestamp;
use tar::{EntryType, Header};

use super::pax::Pax;
use super::sparse::Map;

/// What a member is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MemberKind {
    File,
    Hardlink,
    Symlink,
    Directory,
    CharDevice,
    BlockDevice,
    Fifo,
    /// Volume labels and other things that are no part of a file system.
    Other,
}

/// One member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: MemberKind,
    /// The file's length, holes included.
    pub(crate) size: u64,
    pub(crate) mode: u64,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: Timestamp,
    pub(crate) device: (u32, u32),
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) map: Map,
}

/// What came before the header of a member and belongs to it.
#[derive(Default)]
pub(super) struct Prelude {
    pub(super) long_name: Option<Vec<u8>>,
    pub(super) long_link: Option<Vec<u8>>,
    pub(super) pax: Pax,
}

impl Member {
    /// Joins a header and what came before it; sizes and maps of sparse files are the reader's business.
    pub(super) fn new(header: &Header, prelude: Prelude) -> io::Result<Self> {
        let old = header.as_old();
        let Prelude { long_name, long_link, pax } = prelude;
        let name = |long: Option<Vec<u8>>, key| long.or_else(|| pax.get(key).map(<[u8]>::to_vec));
        let path = pax.get("GNU.sparse.name").map(<[u8]>::to_vec).or_else(|| name(long_name, "path"));
        let path = path.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = name(long_link, "linkpath")
            .unwrap_or_else(|| header.link_name_bytes().map(|link| link.into_owned()).unwrap_or_default());
        let device = |part: io::Result<Option<u32>>| part.ok().flatten().unwrap_or(0);
        let mtime = pax.mtime().unwrap_or_else(|| Timestamp {
            seconds: header.mtime().ok().and_then(|at| i64::try_from(at).ok()).unwrap_or(0),
            nanos: 0,
        });
        Ok(Self {
            kind: kind(header.entry_type(), &path),
            size: 0,
            mode: number(None, &old.mode, || header.mode().map(u64::from))?,
            uid: number(pax.number("uid")?, &old.uid, || header.uid())?,
            gid: number(pax.number("gid")?, &old.gid, || header.gid())?,
            mtime,
            device: (device(header.device_major()), device(header.device_minor())),
            xattrs: pax.xattrs(),
            map: Map::default(),
            path,
            link,
        })
    }
}

/// The number of a field that pax records may override; a field left blank is zero.
fn number(pax: Option<u64>, field: &[u8], header: impl Fn() -> io::Result<u64>) -> io::Result<u64> {
    let is_blank = field.iter().all(|byte| matches!(byte, 0 | b' '));
    pax.map_or_else(|| if is_blank { Ok(0) } else { header() }, Ok)
}

fn kind(entry_type: EntryType, path: &[u8]) -> MemberKind {
    match entry_type {
        // Archives older than ustar mark a directory by nothing but its name.
        EntryType::Regular if path.ends_with(b"/") => MemberKind::Directory,
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => MemberKind::File,
        EntryType::Link => MemberKind::Hardlink,
        EntryType::Symlink => MemberKind::Symlink,
        EntryType::Directory => MemberKind::Directory,
        EntryType::Char => MemberKind::CharDevice,
        EntryType::Block => MemberKind::BlockDevice,
        EntryType::Fifo => MemberKind::Fifo,
        _ => MemberKind::Other,
    }
}
