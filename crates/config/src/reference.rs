//! The reference of all keys: default and description. Source of the commented configuration file and of the docs.

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
    /// The default, as TOML.
    default: &'static str,
    help: &'static str,
}

const fn key(name: &'static str, default: &'static str, help: &'static str) -> Key {
    Key { name, default, help }
}

/// The whole configuration, in the order in which it is shown.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "defaults",
        help: "Default resources of a machine.",
        keys: &[
            key(
                "image",
                "\"debian\"",
                "The image that machines start from; `agentiso image ls` lists the available ones.",
            ),
            key("vcpus", "0", "Number of vCPUs; 0: 2 with KVM, 1 with emulation."),
            key("memory_mb", "512", "Memory in MiB, at least 128."),
            key("disk_gb", "10", "Size of the root file system in GiB; space is allocated on write."),
        ],
    },
    Section {
        name: "limits",
        help: "Maximum resources of a machine.",
        keys: &[
            key("max_vcpus", "8", "Maximum number of vCPUs."),
            key("max_memory_mb", "8192", "Maximum memory in MiB."),
            key("max_disk_gb", "100", "Maximum size of the root file system in GiB."),
            key(
                "max_workspaces",
                "200",
                "Maximum number of workspaces of this installation, over all users and sessions.",
            ),
        ],
    },
    Section {
        name: "vm",
        help: "How machines run.",
        keys: &[
            key("qemu", "\"\"", "Absolute path of the QEMU to use; empty: the one in PATH."),
            key(
                "kernel",
                "\"\"",
                "Absolute path of the guest kernel; empty: the one that `agentiso init` prepares.",
            ),
            key(
                "accel",
                "\"auto\"",
                "Acceleration: \"kvm\", \"tcg\", or \"auto\" (KVM if a guest boots with it).",
            ),
            key(
                "link",
                "\"auto\"",
                "Transport to the guest: \"vsock\", \"serial\", or \"auto\" (vsock if available).",
            ),
            key(
                "user",
                "\"nobody\"",
                "When agentiso runs as root: the user whose group every QEMU process has, and whose user id it has if `uids` is 0.",
            ),
            key(
                "first_uid",
                "1900000000",
                "When agentiso runs as root: the first user id for QEMU processes, each of which has its own.",
            ),
            key("uids", "65536", "Number of user ids from first_uid on; 0: every QEMU runs as `user`."),
            key(
                "isolation",
                "\"auto\"",
                "Isolate QEMU in its own namespaces, with access only to its own files: \"auto\" (where the host allows it), \"required\", \"off\".",
            ),
            key(
                "boot_timeout_secs",
                "60",
                "Seconds until a booted or restored machine must respond, and for each later step of its start.",
            ),
            key("stop_timeout_secs", "10", "Seconds a machine may take to power off before it is killed."),
            key(
                "start_on_use",
                "true",
                "Whether a stopped or suspended workspace starts automatically when a command, file or git operation uses it.",
            ),
        ],
    },
    Section {
        name: "resources",
        help: "Limits that the host enforces on each machine, with cgroup v2.",
        keys: &[
            key("cgroup", "\"auto\"", "\"auto\" (if the host allows it) or \"off\"."),
            key("cgroup_required", "false", "Whether a machine that cannot be limited fails to start."),
            key(
                "overhead_mb",
                "192",
                "MiB that QEMU may use in addition to the guest's memory; a machine that needs more is killed.",
            ),
            key("io_read_mb_per_sec", "0", "Limit on disk reads per machine in MiB per second; 0: no limit."),
            key(
                "io_write_mb_per_sec",
                "0",
                "Limit on disk writes per machine in MiB per second; 0: no limit.",
            ),
        ],
    },
    Section {
        name: "templates",
        help: "Memory images of booted guests, from which machines start.",
        keys: &[key(
            "max_mb",
            "4096",
            "Limit on the size of all templates in MiB; the least recently used are removed first.",
        )],
    },
    Section {
        name: "disks",
        help: "Disks of workspaces and their snapshots.",
        keys: &[
            key(
                "backend",
                "\"auto\"",
                "\"qcow2\" (layers, on any file system), \"reflink\" (copies that share data, on XFS and btrfs), \
                 \"zfs\" (volumes in zfs_dataset), or \"auto\": zfs if zfs_dataset is set, otherwise the best that the file \
                 system supports. Fixed once the first workspace exists.",
            ),
            key(
                "zfs_dataset",
                "\"\"",
                "The ZFS dataset for disks, created by `agentiso init --zfs-pool POOL`, for example \"tank/agentiso\"; \
                 empty: none.",
            ),
        ],
    },
    Section {
        name: "daemon",
        help: "The daemon and its listeners. Only the user it runs as can open its socket.",
        keys: &[
            key(
                "listen",
                "\"\"",
                "TCP address to listen on in addition to the socket, for example \"127.0.0.1:7070\"; empty: none. Needs token_file.",
            ),
            key(
                "token_file",
                "\"\"",
                "Absolute path of a file with the token that network clients must send. It must be readable only by \
                 the daemon's user, and is created if it does not exist.",
            ),
            key("metrics_port", "0", "Port on 127.0.0.1 for /metrics and /healthz; 0: none."),
            key(
                "transfer_dir",
                "\"\"",
                "Absolute path of the host directory that agents may copy from and to; empty: `transfers` in the data directory.",
            ),
            key("download_max_gb", "64", "Limit on one copy out of a workspace in GiB."),
            key(
                "download_max_files",
                "1000000",
                "Limit on the number of files, directories and links of one copy out of a workspace.",
            ),
            key(
                "download_reserve_mb",
                "512",
                "MiB that a copy out of a workspace leaves free on the host's disk.",
            ),
        ],
    },
    Section {
        name: "sessions",
        help: "Quotas of an agent's session. The CLI user is not limited.",
        keys: &[
            key("max_workspaces", "20", "Number of workspaces."),
            key("max_memory_mb", "16384", "Total memory of its workspaces in MiB."),
            key("max_disk_gb", "400", "Total disk size of its workspaces in GiB."),
            key("max_snapshots", "1000", "Total number of snapshots of its workspaces."),
            key(
                "adopt_idle_secs",
                "60",
                "Seconds without a call after which another session may forcibly take over its workspaces.",
            ),
            key(
                "isolation",
                "\"shared\"",
                "Which workspaces a session can see and use: \"shared\" (all are listed; one without an owner is adopted on use) or \"strict\" (only those it created or was granted).",
            ),
        ],
    },
    Section {
        name: "rate_limit",
        help: "Calls per minute for each session of an agent. All sessions together may make ten times as many.",
        keys: &[
            key("enabled", "true", "Whether rate limits apply."),
            key("create_per_minute", "60", "Calls that start machines."),
            key("exec_per_minute", "600", "Calls that run commands."),
            key("default_per_minute", "3000", "All other calls."),
        ],
    },
    Section {
        name: "images",
        help: "What agents may do with images. The CLI user may do everything.",
        keys: &[key(
            "agents",
            "\"list\"",
            "\"off\" (nothing), \"list\" (list and show them) or \"manage\" (also pull, import, build, commit and \
             remove them: agents can then fill the host's disk, reach registries from the host, and replace images that \
             others start from).",
        )],
    },
    Section {
        name: "network",
        help: "The network of workspaces. Without rules that allow something, a workspace reaches nothing.",
        keys: &[
            key(
                "backend",
                "\"auto\"",
                "\"user\" (a router in user space, which needs no privileges), \"bridge\" (TAP devices \
                 and nftables in a network namespace, which needs root, nftables and passt) or \"auto\" (the same as \
                 \"user\").",
            ),
            key(
                "pool",
                "\"10.99.0.0/16\"",
                "Private range that the addresses of workspaces are from. The first one is the router's. Addresses that \
                 the host has a route to are not used.",
            ),
            key(
                "default_allow_internet",
                "false",
                "Whether a new workspace may reach the internet unless its creator says otherwise.",
            ),
            key(
                "ask",
                "false",
                "Whether every destination that is refused raises a request for approval (`agentiso inbox`). New \
                 workspaces then start with an empty list of allowed names, and agents cannot allow more by themselves.",
            ),
            key(
                "presets",
                "{ off = { allow_internet = false }, open = { allow_internet = true }, packages = { allow_internet = true, allow_domains = [], packages = true } }",
                "Named sets of rules for `--net` and `preset`. Add your own as [network.presets.NAME] with the fields \
                 of network_policy; `packages = true` also allows the hosts that package managers are configured for.",
            ),
            key(
                "mtu",
                "65520",
                "Largest packet between a workspace and the router, 1280 to 65520. Connections leave the host with the \
                 host's own packet size.",
            ),
            key(
                "max_connections",
                "4096",
                "Connections, UDP flows and pings of one workspace at the same time.",
            ),
            key("packets_per_second", "200000", "Packets per second from one workspace; 0: no limit."),
            key(
                "bytes_per_second",
                "1250000000",
                "Bytes per second to and from one workspace together; 0: no limit.",
            ),
            key("dns_queries_per_second", "200", "DNS queries per second from one workspace; 0: no limit."),
        ],
    },
    Section {
        name: "pool",
        help: "Machines that are started in advance, of the default size and of sizes created within the last day. \
               The pool is filled when an agent connects and after a create.",
        keys: &[
            key("size", "2", "Number of machines per combination of image and size; 0: none."),
            key(
                "memory_mb",
                "0",
                "Limit on the memory of all of them together in MiB. 0: an eighth of the host's, at most 2048, and none on \
                 hosts with less than 12 GiB or while less than an eighth is available.",
            ),
        ],
    },
];

impl Config {
    /// The initial configuration file: every key, commented out, with its default.
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
    fn the_unchanged_commented_file_means_the_defaults() {
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
