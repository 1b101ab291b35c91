//! Errors of ZFS.

use std::path::PathBuf;

use crate::{Code, Explain};

/// Why a zpool, or a dataset in it, could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ZpoolError {
    /// A program of ZFS is not installed.
    #[error("the program {0} is not installed")]
    ToolMissing(&'static str),
    /// The name is not a valid dataset for disks.
    #[error("{name:?} cannot hold the disks: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The dataset was not created by agentiso.
    #[error("the dataset {0} is there, but was not made for agentiso")]
    NotOurs(String),
    /// The zpool or dataset does not exist.
    #[error("could not {doing} {name}: {said}")]
    Unavailable {
        /// What was attempted.
        doing: &'static str,
        /// The dataset or zpool.
        name: String,
        /// The message of the program.
        said: String,
    },
    /// The zpool is full.
    #[error("the pool of {name} has {free} bytes left, and {needed} are needed")]
    Full {
        /// The dataset.
        name: String,
        /// The free space.
        free: u64,
        /// The needed space.
        needed: u64,
    },
    /// It is in use.
    #[error("could not {doing} {name}: it is in use")]
    Busy {
        /// What was attempted.
        doing: &'static str,
        /// The dataset or zpool.
        name: String,
    },
    /// Permission denied.
    #[error("could not {doing} {name}: {said}")]
    NotPermitted {
        /// What was attempted.
        doing: &'static str,
        /// The dataset or zpool.
        name: String,
        /// The message of the program.
        said: String,
        /// The dataset for which permission is needed.
        dataset: String,
    },
    /// No permission to create the dataset.
    #[error("could not make {name}: only root may")]
    NotMade {
        /// The dataset.
        name: String,
        /// The command that creates it.
        command: String,
    },
    /// The device of a volume did not appear.
    #[error("the device {} did not appear within {seconds} s", node.display())]
    NoNode {
        /// The device.
        node: PathBuf,
        /// The time limit.
        seconds: u64,
    },
    /// No permission to use the device of a volume.
    #[error("the device {} may not be read and written", node.display())]
    NodeClosed {
        /// The device.
        node: PathBuf,
        /// The dataset the volumes are in.
        dataset: String,
    },
    /// The device or file for a new zpool is not empty.
    #[error("{} cannot become a pool: {reason}", path.display())]
    Occupied {
        /// The file or device.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// It failed for another reason.
    #[error("could not {doing} {name}: {said}")]
    Failed {
        /// What was attempted.
        doing: &'static str,
        /// The dataset or zpool.
        name: String,
        /// The message of the program.
        said: String,
    },
}

impl Explain for ZpoolError {
    fn code(&self) -> Code {
        match self {
            Self::ToolMissing(_) => Code::ToolMissing,
            Self::BadName { .. } | Self::NotOurs(_) => Code::InvalidConfig,
            Self::Unavailable { .. } | Self::NoNode { .. } => Code::StorageUnavailable,
            Self::Full { .. } => Code::DiskFull,
            Self::Busy { .. } => Code::Io,
            Self::NotPermitted { .. } | Self::NotMade { .. } | Self::NodeClosed { .. } => {
                Code::PermissionDenied
            }
            Self::Occupied { .. } => Code::InvalidArgument,
            Self::Failed { .. } => Code::ToolFailed,
        }
    }

    fn remedy(&self) -> Option<String> {
        let pool = |name: &str| name.split(['/', '@']).next().unwrap_or_default().to_owned();
        Some(match self {
            Self::ToolMissing(_) => "install the tools of ZFS: zfsutils-linux on Debian and Ubuntu, zfs on \
                                     Fedora; and load its module: modprobe zfs"
                .to_owned(),
            Self::BadName { .. } => {
                "name a dataset of its own inside a pool, as in disks.zfs_dataset = \"tank/agentiso\""
                    .to_owned()
            }
            Self::NotOurs(name) => format!(
                "have one made: agentiso init --zfs-pool {}; or set disks.zfs_dataset to one that was",
                pool(name)
            ),
            Self::Unavailable { name, .. } => {
                format!("bring the pool back and try again: zpool import {}", pool(name))
            }
            Self::Full { name, .. } => {
                format!("remove snapshots or workspaces, or add a device to the pool {}", pool(name))
            }
            Self::Busy { .. } => "try again when nothing uses it any more".to_owned(),
            Self::NotPermitted { dataset, .. } => format!("as root, permit it: {}", allow(dataset)),
            Self::NotMade { name, command } => {
                format!("as root, make it and permit its use: {command}; {}", allow(name))
            }
            Self::NoNode { .. } => {
                "check that udev runs and has the rules of ZFS (60-zvol.rules): udevadm settle".to_owned()
            }
            Self::NodeClosed { dataset, .. } => format!(
                "as root, write to /etc/udev/rules.d/91-agentiso.rules: KERNEL==\"zd*\", \
                 PROGRAM==\"/lib/udev/zvol_id $devnode\", RESULT==\"{dataset}/*\", OWNER=\"$USER\"; then run: \
                 udevadm control --reload; udevadm trigger"
            ),
            Self::Occupied { .. } => "name a file that does not exist, or a device that is empty".to_owned(),
            Self::Failed { .. } => return None,
        })
    }
}

/// The command that grants permission to a user.
fn allow(dataset: &str) -> String {
    format!(
        "zfs allow $USER create,destroy,mount,snapshot,clone,promote,canmount,compression,userprop,volsize,volblocksize {dataset}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lets_a_user_do_what_the_error_says() {
        let page = include_str!("../../../../docs/hosts.md").replace("\\\n  ", "");
        assert!(page.contains(&allow("tank/agentiso")));
    }
}
