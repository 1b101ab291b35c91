//! The kernel configuration.

use std::collections::HashSet;

/// The settings, for `make allnoconfig`.
pub(super) const SETTINGS: &str = include_str!("guest.config");

/// Required settings: without them a guest does not start or the agent does not work. Others may be unknown to a version of
/// the source, and are optional.
const REQUIRED: [&str; 12] = [
    "CONFIG_64BIT",
    "CONFIG_BLK_DEV_INITRD",
    "CONFIG_CGROUPS",
    "CONFIG_DEVTMPFS",
    "CONFIG_EXT4_FS",
    "CONFIG_OVERLAY_FS",
    "CONFIG_PVH",
    "CONFIG_SERIAL_8250_CONSOLE",
    "CONFIG_VIRTIO_BLK",
    "CONFIG_VIRTIO_CONSOLE",
    "CONFIG_VIRTIO_MMIO",
    "CONFIG_VIRTIO_NET",
];

/// The effective settings.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Taken {
    /// Settings with the requested value.
    pub(super) taken: usize,
    /// Names of settings with another value.
    pub(super) refused: Vec<String>,
}

impl Taken {
    /// Compares the requested settings with the resulting `.config`.
    pub(super) fn compare(asked: &str, config: &str) -> Self {
        let in_force: HashSet<&str> = config.lines().map(str::trim).collect();
        let asked = asked.lines().map(str::trim).filter(|line| line.starts_with("CONFIG_"));
        let (taken, refused): (Vec<&str>, Vec<&str>) = asked.partition(|line| in_force.contains(line));
        Self { taken: taken.len(), refused: refused.into_iter().map(name).collect() }
    }

    /// Required settings that are missing.
    pub(super) fn missing(&self) -> Vec<String> {
        self.refused.iter().filter(|name| REQUIRED.contains(&name.as_str())).cloned().collect()
    }
}

fn name(setting: &str) -> String {
    setting.split('=').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_required_setting_is_asked_for_and_none_is_asked_for_twice() {
        let names: Vec<String> =
            SETTINGS.lines().filter(|line| line.starts_with("CONFIG_")).map(name).collect();
        for required in REQUIRED {
            assert!(names.iter().any(|name| name == required), "{required}");
        }
        let distinct: HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(!SETTINGS.contains("=m"), "nothing loads modules");
    }

    #[test]
    fn what_a_source_does_not_take_is_found_out() {
        let asked = "# a comment\nCONFIG_PVH=y\nCONFIG_NEW=y\nCONFIG_LOCALVERSION=\"-x\"\n";
        let taken =
            Taken::compare(asked, "CONFIG_LOCALVERSION=\"-x\"\nCONFIG_PVH=y\n# CONFIG_NEW is not set\n");
        assert_eq!(taken, Taken { taken: 2, refused: vec!["CONFIG_NEW".to_owned()] });
        assert!(taken.missing().is_empty());
        let taken = Taken::compare(asked, "# CONFIG_PVH is not set\n");
        assert_eq!(taken.missing(), ["CONFIG_PVH"]);
    }
}
