//! What is known about a checkpoint.

use agentiso_store::TreeId;
use jiff::Timestamp;

use crate::model::Totals;
use crate::name::VaultId;
use crate::records::CheckpointRow;

/// Why a checkpoint was made. Stored, so numbers never change meaning.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum CheckpointKind {
    /// On request. Kept until it is removed.
    #[default]
    User = 1,
    /// Before something risky. The oldest go according to the vault's retention.
    Auto = 2,
    /// Before a restore, so that it can be undone.
    Undo = 3,
    /// What a run left that could not be merged into the vault. Kept until it is removed.
    Conflict = 4,
}

impl CheckpointKind {
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::User, Self::Auto, Self::Undo, Self::Conflict].into_iter().find(|kind| kind.number() == number)
    }

    /// The kind in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Auto => "auto",
            Self::Undo => "undo",
            Self::Conflict => "conflict",
        }
    }

    /// How automatic names begin.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::User => "snap",
            Self::Auto => "checkpoint",
            Self::Undo => "undo",
            Self::Conflict => "conflict",
        }
    }
}

/// A checkpoint to save.
#[derive(Clone, Debug, Default)]
pub struct SaveCheckpoint {
    /// Its name. Without one it is called after its kind and the time.
    pub name: Option<String>,
    /// What the user says about it.
    pub description: Option<String>,
    /// Why it is made.
    pub kind: CheckpointKind,
    /// Words to find it by.
    pub tags: Vec<String>,
}

/// A checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkpoint {
    /// The vault that has it.
    pub vault: VaultId,
    /// Its name.
    pub name: String,
    /// Why it was made.
    pub kind: CheckpointKind,
    /// The files.
    pub tree: TreeId,
    /// The last change that it has.
    pub revision: u64,
    /// How much it has.
    pub totals: Totals,
    /// What the user says about it.
    pub description: Option<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Who made it.
    pub actor: String,
    /// When.
    pub created_at: Timestamp,
    /// It was made in a vault that this one was forked from.
    pub is_inherited: bool,
}

impl Checkpoint {
    pub(crate) fn from_row(row: CheckpointRow, vault: VaultId, is_inherited: bool) -> Self {
        Self {
            vault,
            name: row.name,
            kind: row.kind,
            tree: row.tree,
            revision: row.revision,
            totals: row.totals,
            description: row.description,
            tags: row.tags,
            actor: row.actor,
            created_at: row.created_at,
            is_inherited,
        }
    }
}
