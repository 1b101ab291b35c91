//! The directories and files that runs use.

use std::path::{Path, PathBuf};

use agentiso_vfs::VaultId;

/// The directories and files that runs use, below the data directory of an installation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Places {
    /// The vaults.
    pub vaults: PathBuf,
    /// The database of the installation, with the queue of approvals.
    pub database: PathBuf,
    /// The home directory of the caller.
    pub home: Option<PathBuf>,
}

impl Places {
    /// The places in a data directory.
    pub fn new(data: &Path, home: Option<PathBuf>) -> Self {
        Self { vaults: data.join("vaults"), database: data.join("state.db"), home }
    }

    /// Trees that are laid out as directories.
    pub fn layouts(&self) -> PathBuf {
        self.vaults.join("layouts")
    }

    /// Working directories of commands.
    pub fn work(&self) -> PathBuf {
        self.vaults.join("work")
    }

    /// Mounts.
    pub fn mounts(&self) -> PathBuf {
        self.vaults.join("mounts")
    }

    /// Long outputs of commands.
    pub fn output(&self) -> PathBuf {
        self.vaults.join("output")
    }

    /// Sessions.
    pub fn sessions(&self) -> PathBuf {
        self.vaults.join("sessions")
    }

    /// The default vaults of directories.
    pub fn directories(&self) -> PathBuf {
        self.vaults.join("directories")
    }

    /// The policies of vaults.
    pub fn policies(&self) -> PathBuf {
        self.vaults.join("policies")
    }

    /// The policy of one vault.
    pub fn policy(&self, vault: VaultId) -> PathBuf {
        self.policies().join(format!("{vault}.toml"))
    }
}

/// A name for a file that stands for something else.
pub fn name_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
