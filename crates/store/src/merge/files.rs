//! Merges two versions of one file or link.

use super::conflict::ConflictKind;
use super::meta::{merge_meta, three_way};
use super::text::merge_text;
use super::trees::TextStyle;
use crate::content::{read_content, store_bytes};
use crate::error::StoreError;
use crate::node::{Content, File, Node};
use crate::session::Session;

/// Largest file that is read to be merged.
const MAX_TEXT: usize = 4 << 20;

/// The merged node, and the conflict if there is one, with whether markers were written.
pub(super) type Outcome = (Node, Option<(ConflictKind, bool)>);

pub(super) fn merge_files(
    session: &Session,
    base: Option<&File>,
    ours: &File,
    theirs: &File,
    text: &TextStyle,
) -> Result<Outcome, StoreError> {
    let (meta, is_meta_conflict) = merge_meta(base.map(|file| &file.meta), &ours.meta, &theirs.meta);
    let mut conflict = is_meta_conflict.then_some((ConflictKind::Metadata, false));
    let bytes = |file: &File| (file.size, file.content);
    let merged = three_way(base.map(bytes).as_ref(), &bytes(ours), &bytes(theirs));
    let (size, content) = match merged {
        Some(merged) => merged,
        None => {
            let (merged, has_conflicts, has_markers) = merge_contents(session, base, ours, theirs, text)?;
            if has_conflicts {
                let kind = if base.is_some() { ConflictKind::BothModified } else { ConflictKind::BothAdded };
                conflict = Some((kind, has_markers));
            }
            merged
        }
    };
    let link = three_way(base.map(|file| &file.link), &ours.link, &theirs.link).unwrap_or(ours.link);
    Ok((Node::File(File { meta, size, content, link }), conflict))
}

/// Size and content, whether it is a conflict, and whether it has markers.
fn merge_contents(
    session: &Session,
    base: Option<&File>,
    ours: &File,
    theirs: &File,
    text: &TextStyle,
) -> Result<((u64, Content), bool, bool), StoreError> {
    let kept = ((ours.size, ours.content), true, false);
    let TextStyle::Markers { ours: our_label, theirs: their_label } = text else { return Ok(kept) };
    if [Some(ours), Some(theirs), base].into_iter().flatten().any(|file| file.size > MAX_TEXT as u64) {
        return Ok(kept);
    }
    let read = |file: &File| read_content(session, file.content, file.size, MAX_TEXT);
    let base_text = base.map(read).transpose()?.unwrap_or_default();
    let Some(merged) = merge_text(&base_text, &read(ours)?, &read(theirs)?, (our_label, their_label)) else {
        return Ok(kept);
    };
    let content = store_bytes(session, &merged.text)?;
    let has_conflicts = merged.conflicts > 0;
    Ok(((merged.text.len() as u64, content), has_conflicts, has_conflicts))
}

/// Merges two things of the same kind other than directories.
pub(super) fn merge_same_kind(
    session: &Session,
    base: Option<&Node>,
    ours: &Node,
    theirs: &Node,
    text: &TextStyle,
) -> Result<Option<Outcome>, StoreError> {
    Ok(match (ours, theirs) {
        (Node::File(ours), Node::File(theirs)) => {
            let base = match base {
                Some(Node::File(base)) => Some(base),
                _ => None,
            };
            Some(merge_files(session, base, ours, theirs, text)?)
        }
        (Node::Symlink { meta: our_meta, target: our_target }, Node::Symlink { meta, target }) => {
            let (base_meta, base_target) = match base {
                Some(Node::Symlink { meta, target }) => (Some(meta), Some(target)),
                _ => (None, None),
            };
            let (meta, is_meta_conflict) = merge_meta(base_meta, our_meta, meta);
            let merged = three_way(base_target, our_target, target);
            let kind = if base.is_some() { ConflictKind::BothModified } else { ConflictKind::BothAdded };
            let conflict = match merged {
                None => Some((kind, false)),
                Some(_) => is_meta_conflict.then_some((ConflictKind::Metadata, false)),
            };
            let target = merged.unwrap_or_else(|| our_target.clone());
            Some((Node::Symlink { meta, target }, conflict))
        }
        (Node::Fifo { meta: ours }, Node::Fifo { meta: theirs }) => {
            let base = match base {
                Some(Node::Fifo { meta }) => Some(meta),
                _ => None,
            };
            let (meta, is_conflict) = merge_meta(base, ours, theirs);
            Some((Node::Fifo { meta }, is_conflict.then_some((ConflictKind::Metadata, false))))
        }
        _ => None,
    })
}
