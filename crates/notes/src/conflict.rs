//! Two changes of one note that do not know of each other.

use std::fmt;

use agentiso_store::merge_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::etag::{Etag, IfMatch};
use crate::path::NotePath;

/// A change was refused because the note is not what the caller expected. Has both versions and, where the common
/// ancestor is known, a merge of them. To accept the merge, write it with `if_match` set to `current_etag`.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Conflict {
    /// The note.
    pub path: NotePath,
    /// What the caller expected.
    pub expected: IfMatch,
    /// The etag of the note as it is now; absent if it does not exist.
    pub current_etag: Option<Etag>,
    /// The content of the note as it is now, if it is text.
    pub current: Option<String>,
    /// The content that the caller wanted; absent if it wanted to remove the note.
    pub proposed: Option<String>,
    /// The content that both started from, if it is still known.
    pub base: Option<String>,
    /// Both changes together.
    pub merge: Option<Merge>,
}

/// The result of a three-way merge.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Merge {
    /// The merged text; where both changed the same lines, both versions are between markers (`<<<<<<<`, `=======`,
    /// `>>>>>>>`).
    pub text: String,
    /// Number of places with markers. 0: the merge can be written as it is.
    pub conflicts: usize,
}

impl Conflict {
    pub(crate) fn new(
        path: NotePath,
        expected: IfMatch,
        current: Option<&[u8]>,
        proposed: Option<&[u8]>,
        base: Option<Vec<u8>>,
    ) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let merge = match (&base, current, proposed) {
            (Some(base), Some(current), Some(proposed)) => merge(base, current, proposed),
            _ => None,
        };
        Self {
            path,
            expected,
            current_etag: current.map(Etag::of),
            current: current.and_then(text),
            proposed: proposed.and_then(text),
            base: base.as_deref().and_then(text),
            merge,
        }
    }

    pub(crate) fn remedy(&self) -> String {
        match (&self.merge, self.current_etag) {
            (Some(Merge { conflicts: 0, .. }), Some(etag)) => {
                format!("both changes fit together: write the offered merge with if_match {etag}")
            }
            (Some(_), Some(etag)) => {
                format!("resolve the marked places of the offered merge and write it with if_match {etag}")
            }
            (None, Some(etag)) => format!("read it again, redo the change and use if_match {etag}"),
            (_, None) => "use if_match \"absent\" to create it".to_owned(),
        }
    }
}

fn merge(base: &[u8], current: &[u8], proposed: &[u8]) -> Option<Merge> {
    let merged = merge_text(base, current, proposed, ("current", "proposed"))?;
    Some(Merge { text: String::from_utf8(merged.text).ok()?, conflicts: merged.conflicts })
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.expected, self.current_etag) {
            (IfMatch::Absent, _) => write!(f, "{:?} exists already", self.path.as_str()),
            (IfMatch::Is(_), None) => write!(f, "{:?} no longer exists", self.path.as_str()),
            (IfMatch::Is(_), Some(_)) => write!(f, "{:?} has changed since it was read", self.path.as_str()),
        }
    }
}
