//! Every key with its default and one line of explanation.

use std::fmt::Write;

use super::Config;

/// One section of the file.
pub(super) struct Section {
    pub name: &'static str,
    help: &'static str,
    pub keys: &'static [Key],
}

/// One key of a section.
pub(super) struct Key {
    pub name: &'static str,
    /// Its default as TOML.
    default: &'static str,
    help: &'static str,
}

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, default, help }
}

/// The whole configuration in the order in which it is shown.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "defaults",
        help: "What a machine gets when the command line does not say.",
        keys: &[
            key(
                "image",
                "\"debian\"",
                "The image machines start from; `agentiso image ls` lists those there are.",
            ),
            key("vcpus", "0", "Virtual processors; 0: 2 under KVM, 1 where processors are emulated."),
            key("memory_mb", "512", "Memory in MiB, at least 128."),
            key("disk_gb", "10", "Size of the root file system in GiB; only what is written takes space."),
        ],
    },
    Section {
        name: "limits",
        help: "The largest machine that may be asked for.",
        keys: &[
            key("max_vcpus", "8", "Most virtual processors."),
            key("max_memory_mb", "8192", "Most memory in MiB."),
            key("max_disk_gb", "100", "Largest root file system in GiB."),
            key("max_workspaces", "200", "Most workspaces of this installation, whoever made them."),
        ],
    },
    Section {
        name: "vm",
        help: "How machines are run.",
        keys: &[
            key("qemu", "\"\"", "Absolute path of the QEMU to use; empty: the one in PATH."),
            key(
                "kernel",
                "\"\"",
                "Absolute path of the guest kernel; empty: the one `agentiso init` prepares.",
            ),
            key(
                "accel",
                "\"auto\"",
                "Acceleration: \"kvm\", \"tcg\", or \"auto\" (KVM if a guest really boots with it).",
            ),
            key(
                "link",
                "\"auto\"",
                "Transport to the guest: \"vsock\", \"serial\", or \"auto\" (vsock if there is one).",
            ),
            key(
                "user",
                "\"nobody\"",
                "When agentiso runs as root: the user whose group every QEMU has, and whose id where `uids` is 0.",
            ),
            key(
                "first_uid",
                "1900000000",
                "When agentiso runs as root: the first of the user ids that QEMUs have, each its own.",
            ),
            key("uids", "65536", "How many such ids there are; 0: every QEMU runs as `user`."),
            key(
                "isolation",
                "\"auto\"",
                "QEMU in namespaces of its own with nothing but its files: \"auto\" (where the host allows it), \"required\", \"off\".",
            ),
            key(
                "boot_timeout_secs",
                "60",
                "Seconds a machine may take until it answers, booted or restored, and for each step of its start after that.",
            ),
            key("stop_timeout_secs", "10", "Seconds a machine may take to power off before it is killed."),
            key(
                "start_on_use",
                "true",
                "Whether a stopped or suspended workspace starts when a command runs or a file is used in it.",
            ),
        ],
    },
    Section {
        name: "resources",
        help: "What the host holds each machine to, by cgroup v2.",
        keys: &[
            key("cgroup", "\"auto\"", "\"auto\" (wherever the host lets us) or \"off\"."),
            key("cgroup_required", "false", "Whether a machine that cannot be limited is refused."),
            key(
                "overhead_mb",
                "192",
                "MiB a QEMU may take beside its guest's memory; a machine that needs more is killed.",
            ),
            key("io_read_mb_per_sec", "0", "MiB a machine may read from the disk in a second; 0: no limit."),
            key("io_write_mb_per_sec", "0", "MiB a machine may write to the disk in a second; 0: no limit."),
        ],
    },
    Section {
        name: "templates",
        help: "Memory images of booted guests, from which machines start.",
        keys: &[key("max_mb", "4096", "MiB all templates together may take; the least used go first.")],
    },
    Section {
        name: "disks",
        help: "Disks of workspaces and their snapshots.",
        keys: &[
            key(
                "backend",
                "\"auto\"",
                "\"qcow2\" (layers, on any file system), \"reflink\" (copies that share data, on XFS and btrfs), \
                 \"zfs\" (volumes in zfs_dataset), or \"auto\": zfs if there is a zfs_dataset, else what the file \
                 system allows. The first workspace decides for all.",
            ),
            key(
                "zfs_dataset",
                "\"\"",
                "The dataset of a ZFS pool that `agentiso init --zfs-pool POOL` has made for the disks, as in \
                 \"tank/agentiso\"; empty: none.",
            ),
        ],
    },
    Section {
        name: "daemon",
        help: "The daemon and its doors. Its socket is only for the user it runs as.",
        keys: &[
            key(
                "listen",
                "\"\"",
                "Address to listen on besides the socket, as in \"127.0.0.1:7070\"; empty: none. Needs token_file.",
            ),
            key(
                "token_file",
                "\"\"",
                "Absolute path of a file, readable by nobody else, with the token that whoever comes over the \
                 network must send; it is made if it is not there.",
            ),
            key("metrics_port", "0", "Port on 127.0.0.1 for /metrics and /healthz; 0: none."),
            key(
                "transfer_dir",
                "\"\"",
                "Absolute path of the directory agents may copy from and to; empty: transfers in the data directory.",
            ),
            key("download_max_gb", "64", "GiB one copy out of a workspace may have."),
            key(
                "download_max_files",
                "1000000",
                "Files, directories and links one copy out of a workspace may have.",
            ),
            key(
                "download_reserve_mb",
                "512",
                "MiB a copy out of a workspace leaves free on the host's disk.",
            ),
        ],
    },
    Section {
        name: "sessions",
        help: "What a session of an agent may have. The user of the command line is not limited.",
        keys: &[
            key("max_workspaces", "20", "Workspaces."),
            key("max_memory_mb", "16384", "MiB of memory of all of them together."),
            key("max_disk_gb", "400", "GiB of disk of all of them together."),
            key("max_snapshots", "1000", "Snapshots of all of them together."),
            key(
                "adopt_idle_secs",
                "60",
                "Seconds without a call after which another session may take its workspaces over by force.",
            ),
            key(
                "isolation",
                "\"shared\"",
                "What sessions see: \"shared\" (all; what nobody owns is adopted by use) or \"strict\" (what they made or were given).",
            ),
        ],
    },
    Section {
        name: "rate_limit",
        help: "How many calls a minute a session of an agent may make; all of them together ten times as many.",
        keys: &[
            key("enabled", "true", "Whether calls are counted."),
            key("create_per_minute", "60", "Calls that start machines."),
            key("exec_per_minute", "600", "Calls that run commands."),
            key("default_per_minute", "3000", "All other calls."),
        ],
    },
    Section {
        name: "images",
        help: "What agents may do with images. The user of the command line may do everything.",
        keys: &[key(
            "agents",
            "\"list\"",
            "\"off\" (nothing), \"list\" (list and show them) or \"manage\" (also pull, import, build, commit and \
             remove: agents then fill the host's disk, reach registries from the host and choose what others start from).",
        )],
    },
    Section {
        name: "pool",
        help: "Machines that are ready before anyone asks for them, of the default size and of those created lately. \
               They are made when an agent connects or after a create, and kept for a day.",
        keys: &[
            key("size", "2", "How many of each size and image; 0: none."),
            key(
                "memory_mb",
                "0",
                "MiB of memory all of them together may have. 0: an eighth of the host's, at most 2048, and none on \
                 hosts with less than 12 GiB or while less than an eighth is available.",
            ),
        ],
    },
];

impl Config {
    /// The configuration file as it is first written: every key, commented out, with its default.
    pub fn commented() -> String {
        let mut text = String::from(
            "# Configuration of agentiso. Every key is optional; the values shown are the defaults.\n\
             # Remove the '#' in front of a key to change it.\n",
        );
        for section in SECTIONS {
            let _ = write!(text, "\n# {}\n[{}]\n", section.help, section.name);
            for key in section.keys {
                let _ = write!(text, "\n# {}\n#{} = {}\n", key.help, key.name, key.default);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::{Daemon, Disks, Vm, parse};

    fn uncommented() -> String {
        let is_key = |line: &str| line.starts_with('#') && !line.starts_with("# ");
        Config::commented()
            .lines()
            .map(|line| if is_key(line) { &line[1..] } else { line })
            .fold(String::new(), |text, line| text + line + "\n")
    }

    #[test]
    fn the_commented_file_as_it_stands_changes_nothing() {
        assert_eq!(parse(&Config::commented(), Path::new("c")).unwrap(), Config::default());
    }

    #[test]
    fn uncommenting_every_key_gives_exactly_the_defaults() {
        let text = uncommented();
        assert_eq!(parse(&text, Path::new("c")).unwrap(), Config::default());
        let written: toml::Table = text.parse().unwrap();
        let keys = |section: &Section| written[section.name].as_table().unwrap().len();
        assert!(SECTIONS.iter().all(|section| keys(section) == section.keys.len()), "{written}");
    }

    #[test]
    fn the_reference_lists_exactly_the_keys_a_configuration_has() {
        let vm =
            Vm { qemu: Some(PathBuf::from("/q")), kernel: Some(PathBuf::from("/k")), ..Default::default() };
        let daemon = Daemon {
            listen: Some("127.0.0.1:1".parse().unwrap()),
            token_file: Some(PathBuf::from("/t")),
            transfer_dir: Some(PathBuf::from("/d")),
            ..Default::default()
        };
        let disks = Disks { zfs_dataset: Some("tank/a".to_owned()), ..Default::default() };
        let full = serde_json::to_value(Config { vm, daemon, disks, ..Config::default() }).unwrap();
        let has: BTreeSet<String> = full
            .as_object()
            .unwrap()
            .iter()
            .flat_map(|(section, keys)| {
                keys.as_object().unwrap().keys().map(move |key| format!("{section}.{key}"))
            })
            .collect();
        let listed: BTreeSet<String> = SECTIONS
            .iter()
            .flat_map(|section| section.keys.iter().map(move |key| format!("{}.{}", section.name, key.name)))
            .collect();
        assert_eq!(has, listed);
    }
}
