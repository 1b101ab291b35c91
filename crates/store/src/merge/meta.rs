//! Merges metadata field by field.

use crate::node::{Meta, Time};

/// The value of the side that changed; nothing if both did, differently.
pub(super) fn three_way<T: PartialEq + Clone>(base: Option<&T>, ours: &T, theirs: &T) -> Option<T> {
    if ours == theirs || base == Some(theirs) {
        Some(ours.clone())
    } else if base == Some(ours) {
        Some(theirs.clone())
    } else {
        None
    }
}

/// Merges metadata; says whether our side was kept somewhere against theirs.
pub(super) fn merge_meta(base: Option<&Meta>, ours: &Meta, theirs: &Meta) -> (Meta, bool) {
    let mode = three_way(base.map(|meta| &meta.mode), &ours.mode, &theirs.mode);
    let owner_of = |meta: &Meta| (meta.uid, meta.gid);
    let owner = three_way(base.map(owner_of).as_ref(), &owner_of(ours), &owner_of(theirs));
    let attributes = three_way(base.map(|meta| &meta.attributes), &ours.attributes, &theirs.attributes);
    let is_conflict = mode.is_none() || owner.is_none() || attributes.is_none();
    let (uid, gid) = owner.unwrap_or(owner_of(ours));
    let mtime = merge_time(base.map(|meta| meta.mtime), ours.mtime, theirs.mtime);
    let mode = mode.unwrap_or(ours.mode);
    let attributes = attributes.unwrap_or(ours.attributes);
    (Meta { mode, uid, gid, mtime, attributes }, is_conflict)
}

/// The time of the side that changed, or the later one.
pub(super) fn merge_time(base: Option<Time>, ours: Time, theirs: Time) -> Time {
    three_way(base.as_ref(), &ours, &theirs).unwrap_or(ours.max(theirs))
}
