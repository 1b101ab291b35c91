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
            key("vcpus", "1", "Virtual processors."),
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
            key("user", "\"nobody\"", "The user QEMU runs as when agentiso itself runs as root."),
            key("boot_timeout_secs", "60", "Seconds a cold boot may take until the guest answers."),
            key("stop_timeout_secs", "10", "Seconds a machine may take to power off before it is killed."),
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
        keys: &[key(
            "backend",
            "\"auto\"",
            "\"qcow2\" (layers, on any file system), \"reflink\" (copies that share data, on XFS and btrfs), or \
             \"auto\". The first workspace decides for all.",
        )],
    },
    Section {
        name: "pool",
        help: "Machines that are ready before anyone asks for them, of the default size and of those created lately.",
        keys: &[
            key("size", "0", "How many of each size and image; 0: none."),
            key(
                "memory_mb",
                "1024",
                "MiB of memory all of them together may have; what does not fit is not kept ready.",
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
    use crate::config::{Vm, parse};

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
        let full = serde_json::to_value(Config { vm, ..Config::default() }).unwrap();
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
