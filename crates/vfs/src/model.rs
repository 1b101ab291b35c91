//! What is known about vaults.

use agentiso_store::{TreeId, TreePath};
use jiff::Timestamp;

use crate::name::{VaultId, VaultName};
use crate::state::StateRef;

/// How much is in a tree.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Files, links and pipes, counted by name.
    pub files: u64,
    /// Directories without the root.
    pub directories: u64,
    /// Size of all files, counted by name.
    pub bytes: u64,
}

/// Limits of the working tree. History does not count.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Quotas {
    /// Size of all files.
    pub max_bytes: Option<u64>,
    /// Number of files, links and pipes.
    pub max_files: Option<u64>,
    /// Size of one file.
    pub max_file_bytes: Option<u64>,
}

/// Quotas and what is used of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuotaStatus {
    /// The limits.
    pub quotas: Quotas,
    /// What the working tree has.
    pub totals: Totals,
}

impl QuotaStatus {
    /// Used share of `max_bytes`.
    pub fn bytes_percent(&self) -> Option<f64> {
        self.quotas.max_bytes.map(|max| percent(self.totals.bytes, max))
    }

    /// Used share of `max_files`.
    pub fn files_percent(&self) -> Option<f64> {
        self.quotas.max_files.map(|max| percent(self.totals.files, max))
    }
}

fn percent(used: u64, max: u64) -> f64 {
    if max == 0 { 100.0 } else { used as f64 * 100.0 / max as f64 }
}

/// How much history a vault keeps. Applied by `maintain`, and from time to time while the vault is changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// The newest changes that are kept.
    pub revisions: Option<u64>,
    /// The newest automatic checkpoints that are kept.
    pub auto_checkpoints: Option<u64>,
    /// The newest checkpoints from before a restore that are kept.
    pub undo_points: Option<u64>,
    /// Changes and automatic checkpoints that are older are not kept.
    pub max_age_days: Option<u64>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            revisions: Some(10_000),
            auto_checkpoints: Some(100),
            undo_points: Some(20),
            max_age_days: None,
        }
    }
}

/// What a vault was forked from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parent {
    /// The parent.
    pub id: VaultId,
    /// Its present name; nothing if it was removed.
    pub name: Option<String>,
    /// The last change of the parent that the fork has.
    pub revision: u64,
    /// The tree that was forked.
    pub tree: TreeId,
}

/// A vault.
#[derive(Clone, Debug, PartialEq)]
pub struct VaultInfo {
    /// Its permanent identity.
    pub id: VaultId,
    /// Its name.
    pub name: String,
    /// What the user says about it.
    pub description: Option<String>,
    /// The working tree.
    pub tree: TreeId,
    /// The number of the last change.
    pub revision: u64,
    /// How much the working tree has.
    pub totals: Totals,
    /// When it was created or forked.
    pub created_at: Timestamp,
    /// When the working tree was last changed.
    pub modified_at: Timestamp,
    /// When it is removed by itself.
    pub expires_at: Option<Timestamp>,
    /// What it was forked from.
    pub parent: Option<Parent>,
    /// Number of its forks.
    pub forks: u64,
    /// Number of its own checkpoints.
    pub checkpoints: u64,
    /// Number of runs in progress.
    pub uses: u64,
    /// Its limits.
    pub quotas: Quotas,
}

/// A vault to create, empty.
#[derive(Clone, Debug)]
pub struct CreateVault {
    /// Its name.
    pub name: VaultName,
    /// What the user says about it.
    pub description: Option<String>,
    /// Limits.
    pub quotas: Quotas,
    /// When it is removed by itself.
    pub expires_at: Option<Timestamp>,
}

impl CreateVault {
    /// A vault without limits.
    pub fn new(name: VaultName) -> Self {
        Self { name, description: None, quotas: Quotas::default(), expires_at: None }
    }
}

/// Forks to create.
#[derive(Clone, Debug)]
pub struct ForkVault {
    /// Name or id of the vault to fork.
    pub source: String,
    /// The state to begin with.
    pub state: StateRef,
    /// How the forks are called.
    pub names: ForkNames,
    /// What the user says about them.
    pub description: Option<String>,
    /// When they are removed by themselves.
    pub expires_at: Option<Timestamp>,
}

impl ForkVault {
    /// One fork of the present state.
    pub fn new(source: &str, name: VaultName) -> Self {
        Self {
            source: source.to_owned(),
            state: StateRef::Now,
            names: ForkNames::Given(vec![name]),
            description: None,
            expires_at: None,
        }
    }
}

/// Names of forks.
#[derive(Clone, Debug)]
pub enum ForkNames {
    /// One fork for each name.
    Given(Vec<VaultName>),
    /// This many forks, called after their source, with a number.
    Automatic(usize),
}

/// How a vault is removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemoveOptions {
    /// Although runs are in progress. What they changed is lost.
    pub force: bool,
}

/// A vault that was removed.
#[derive(Clone, Debug, PartialEq)]
pub struct RemovedVault {
    /// Its identity.
    pub id: VaultId,
    /// Its former name.
    pub name: String,
    /// Number of checkpoints that went with it.
    pub checkpoints: u64,
    /// Its forks still need its history, which stays until they are removed, too.
    pub is_kept_for_forks: bool,
}

/// A fork of a vault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fork {
    /// Its identity.
    pub id: VaultId,
    /// Its name; nothing if it was removed and has forks of its own.
    pub name: Option<String>,
    /// The last change that it has in common with its parent.
    pub revision: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is removed by itself.
    pub expires_at: Option<Timestamp>,
}

/// Where a vault comes from, and what came from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lineage {
    /// The parent, its parent, and so on.
    pub ancestors: Vec<Parent>,
    /// Direct forks in the order of their creation.
    pub forks: Vec<Fork>,
}

/// What a change says about itself in the journal and in the audit log.
#[derive(Clone, Debug)]
pub struct Note {
    /// What was done, for example `write_file`.
    pub operation: String,
    /// The path that it was done to.
    pub path: Option<TreePath>,
    /// More about it, as JSON.
    pub detail: Option<String>,
}

impl Note {
    /// An operation on the whole vault.
    pub fn new(operation: impl Into<String>) -> Self {
        Self { operation: operation.into(), path: None, detail: None }
    }

    /// Names the path.
    pub fn at(self, path: &TreePath) -> Self {
        Self { path: Some(path.clone()), ..self }
    }

    /// Adds details as JSON.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// A change of a working tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// The vault.
    pub vault: VaultId,
    /// The number of the change, or of the last one if nothing changed.
    pub revision: u64,
    /// The tree before.
    pub before: TreeId,
    /// The tree after.
    pub after: TreeId,
    /// How much the vault has now.
    pub totals: Totals,
    /// Whether anything changed: files, tags or metadata.
    pub is_changed: bool,
}
