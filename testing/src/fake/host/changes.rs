//! What differs between two points.

use std::collections::BTreeSet;

use agentiso_core::ports::host::{
    Aspect, Change, ChangeKind, Changes, CompareRequest, EntryInfo, EntryKind, Point, TextDiff, Time,
};
use agentiso_core::{Code, Failure};

use super::state::FakeHost;
use crate::fake::tree::{Content, Node, Tree};

const NANOS: i64 = 1_000_000_000;

impl FakeHost {
    pub(super) fn changes(&self, request: &CompareRequest) -> Result<Changes, Failure> {
        let (before, after) = (self.files_at(request.before)?, self.files_at(request.after)?);
        let under = request.under.as_deref().unwrap_or("/").as_bytes();
        let paths: BTreeSet<&[u8]> =
            before.under(under).chain(after.under(under)).map(|(path, _)| path).collect();
        let mut changes = Changes::default();
        for path in paths {
            let (old, new) = (before.get(path), after.get(path));
            let kind = match (old, new) {
                (None, _) => ChangeKind::Added,
                (_, None) => ChangeKind::Removed,
                (Some(old), Some(new)) => match aspects(old, new) {
                    aspects if aspects.is_empty() => continue,
                    aspects => ChangeKind::Modified { aspects },
                },
            };
            let change = Change { path: path.to_vec(), kind, before: old.map(info), after: new.map(info) };
            changes.totals.count(&change);
            changes.entries.push(change);
        }
        Ok(changes)
    }

    pub(super) fn text_change(&self, request: &CompareRequest, path: &str) -> Result<TextDiff, Failure> {
        let content = |point| -> Result<Option<Vec<u8>>, Failure> {
            let files = self.files_at(point)?;
            Ok(files.read(path.as_bytes()).ok().map(|(_, bytes)| bytes.to_vec()))
        };
        let (before, after) = (content(request.before)?, content(request.after)?);
        if before.is_none() && after.is_none() {
            let message = format!("{path:?} is at neither of the two points");
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        if before == after {
            return Ok(TextDiff::Same);
        }
        let text = |bytes: Option<Vec<u8>>| String::from_utf8(bytes.unwrap_or_default());
        let (Ok(before), Ok(after)) = (text(before), text(after)) else { return Ok(TextDiff::Binary) };
        let signed =
            |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
        Ok(TextDiff::Text { unified: signed('-', &before) + &signed('+', &after), truncated: false })
    }

    pub(super) fn files_at(&self, point: Point) -> Result<Tree, Failure> {
        let disk = match point {
            Point::Snapshot(id) => self.inner.meta.read(|read| read.snapshot(id))?.disk,
            Point::Now(id) => self.workspace(id)?.disk,
        };
        self.files(disk)
    }
}

fn aspects(old: &Node, new: &Node) -> BTreeSet<Aspect> {
    let differ = [
        (Aspect::Type, std::mem::discriminant(&old.content) != std::mem::discriminant(&new.content)),
        (Aspect::Content, matches!(new.content, Content::File(_)) && old.content != new.content),
        (Aspect::Target, matches!(new.content, Content::Symlink(_)) && old.content != new.content),
        (Aspect::Mode, old.mode != new.mode),
        (Aspect::Owner, (old.uid, old.gid) != (new.uid, new.gid)),
    ];
    differ.into_iter().filter(|(_, differs)| *differs).map(|(aspect, _)| aspect).collect()
}

fn info(node: &Node) -> EntryInfo {
    let kind = match node.content {
        Content::Directory => EntryKind::Directory,
        Content::File(_) => EntryKind::File,
        Content::Symlink(_) => EntryKind::Symlink,
    };
    EntryInfo {
        kind,
        size: node.size(),
        mode: u16::try_from(node.mode & 0o7777).unwrap_or_default(),
        uid: node.uid,
        gid: node.gid,
        mtime: Time {
            seconds: node.modified_ns / NANOS,
            nanoseconds: u32::try_from(node.modified_ns % NANOS).unwrap_or_default(),
        },
        nlink: 1,
    }
}
