//! What a merge could not decide.

use crate::node::Node;
use crate::path::TreePath;

/// Why two changes do not fit together.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ConflictKind {
    /// Both sides changed the content, differently.
    BothModified,
    /// Both sides added the path, differently.
    BothAdded,
    /// One side deleted what the other changed. The merged tree keeps the changed one.
    DeleteModify,
    /// The sides made different kinds of things of it.
    TypeChange,
    /// One side has a directory where the other has something else.
    DirectoryFile,
    /// Both sides changed mode, owner or attributes, differently.
    Metadata,
}

/// A path at which the merged tree needs a decision. It has our side there, unless the kind says otherwise.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// Where.
    pub path: TreePath,
    /// Why.
    pub kind: ConflictKind,
    /// In the common base.
    pub base: Option<Node>,
    /// On our side.
    pub ours: Option<Node>,
    /// On their side.
    pub theirs: Option<Node>,
    /// The merged file contains both sides between markers.
    pub has_markers: bool,
}
