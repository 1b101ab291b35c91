//! What the database knows about a running machine.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_vmm::{MachineRecord, User};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::intent::BerthName;

/// A machine that runs without an owner.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct MachineState {
    /// How to find it.
    pub record: MachineRecord,
    /// Its directory.
    pub berth: BerthName,
    /// What a host must be like to restore its memory.
    pub restore_key: String,
}

impl MachineState {
    /// Its form in the database.
    pub fn to_value(&self) -> Result<Value, Failure> {
        serde_json::to_value(self).map_err(|error| Failure::new(Code::Internal, error.to_string()))
    }

    /// Reads what the database has.
    pub fn from_value(value: &Value) -> Result<Self, Failure> {
        serde_json::from_value(value.clone()).map_err(|error| {
            Failure::new(
                Code::DataDamaged,
                format!("what is stored about a running machine makes no sense: {error}"),
            )
        })
    }
}

impl BerthName {
    /// The directory.
    pub fn path(&self, workspaces: &Path) -> PathBuf {
        workspaces.join(self.workspace.to_string()).join(self.machine.to_string())
    }

    /// Makes the directory, for `user` if QEMU runs as another one.
    pub fn create(&self, workspaces: &Path, user: Option<&User>) -> io::Result<PathBuf> {
        let path = self.path(workspaces);
        let parent = workspaces.join(self.workspace.to_string());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&parent)?;
        if user.is_some() {
            // The parent has QEMU's group from the directory of all workspaces.
            agentiso_images::access::share_directory(&parent)?;
        }
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        if let Some((uid, gid)) = user.map(User::owner) {
            std::os::unix::fs::chown(&path, Some(uid), Some(gid))?;
        }
        Ok(path)
    }

    /// Removes the directory, and the workspace's if it is the last.
    pub fn remove(&self, workspaces: &Path) -> io::Result<()> {
        match fs::remove_dir_all(self.path(workspaces)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // It stays while another machine of the workspace has a directory in it.
        let _ = fs::remove_dir(workspaces.join(self.workspace.to_string()));
        Ok(())
    }
}
