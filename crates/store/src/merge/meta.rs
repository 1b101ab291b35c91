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
    let mut is_conflict = false;
    let mut field = |value: Option<Meta>| {
        is_conflict |= value.is_none();
        value.unwrap_or(*ours)
    };
    let pick = |of: fn(&Meta) -> Meta| three_way(base.map(of).as_ref(), &of(ours), &of(theirs));
    let empty = Meta::default;
    let mode = field(pick(|meta| Meta { mode: meta.mode, ..Meta::default() })).mode;
    let owner = field(pick(|meta| Meta { uid: meta.uid, gid: meta.gid, ..Meta::default() }));
    let attributes = field(pick(|meta| Meta { attributes: meta.attributes, ..Meta::default() })).attributes;
    let mtime = merge_time(base.map(|meta| meta.mtime), ours.mtime, theirs.mtime);
    (Meta { mode, uid: owner.uid, gid: owner.gid, attributes, mtime, ..empty() }, is_conflict)
}

/// The time of the side that changed, or the later one.
pub(super) fn merge_time(base: Option<Time>, ours: Time, theirs: Time) -> Time {
    three_way(base.as_ref(), &ours, &theirs).unwrap_or(ours.max(theirs))
}
