//! Sizes of machines.

use serde::{Deserialize, Serialize};

use crate::{Code, Explain};

/// The size of a machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Virtual processors.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Size of the root file system in GiB.
    pub disk_gb: u32,
}

/// The largest permitted machine, and the maximum number of workspaces.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of virtual processors.
    pub max_vcpus: u32,
    /// Maximum memory in MiB.
    pub max_memory_mb: u32,
    /// Maximum disk size in GiB.
    pub max_disk_gb: u32,
    /// Maximum number of workspaces of one installation.
    pub max_workspaces: u32,
}

/// The minimum memory for a guest that boots and runs a shell, in MiB.
pub const MIN_MEMORY_MB: u32 = 128;

impl Default for Resources {
    fn default() -> Self {
        Self { vcpus: 1, memory_mb: 512, disk_gb: 10 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_vcpus: 8, max_memory_mb: 8192, max_disk_gb: 100, max_workspaces: 200 }
    }
}

/// Why a size was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what} must be between {min} and {max}, not {asked}")]
pub struct ResourcesError {
    what: &'static str,
    min: u32,
    max: u32,
    asked: u32,
}

impl Explain for ResourcesError {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        Some(match self.asked < self.min {
            true => format!("ask for at least {}", self.min),
            false => format!(
                "ask for at most {}, or raise the limit in the [limits] section of the configuration",
                self.max
            ),
        })
    }
}

impl Resources {
    /// Checks the size against the limits.
    pub fn check(&self, limits: &Limits) -> Result<(), ResourcesError> {
        within("vcpus", self.vcpus, 1, limits.max_vcpus)?;
        within("memory_mb", self.memory_mb, MIN_MEMORY_MB, limits.max_memory_mb)?;
        within("disk_gb", self.disk_gb, 1, limits.max_disk_gb)
    }

    /// The disk size in bytes.
    pub fn disk_bytes(&self) -> u64 {
        u64::from(self.disk_gb) << 30
    }

    /// The memory size in bytes.
    pub fn memory_bytes(&self) -> u64 {
        u64::from(self.memory_mb) << 20
    }
}

fn within(what: &'static str, asked: u32, min: u32, max: u32) -> Result<(), ResourcesError> {
    if (min..=max).contains(&asked) { Ok(()) } else { Err(ResourcesError { what, min, max, asked }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_machine_fits_the_default_limits() {
        assert_eq!(Resources::default().check(&Limits::default()), Ok(()));
    }

    #[test]
    fn the_remedy_names_the_bound_that_was_crossed() {
        let remedy = |memory_mb| {
            let asked = Resources { memory_mb, ..Resources::default() };
            asked.check(&Limits::default()).unwrap_err().remedy().unwrap()
        };
        assert_eq!(remedy(64), "ask for at least 128");
        assert!(remedy(9000).starts_with("ask for at most 8192"));
    }

    #[test]
    fn zero_and_absurd_sizes_are_refused() {
        let good = Resources::default();
        for bad in [
            Resources { vcpus: 0, ..good },
            Resources { vcpus: 9, ..good },
            Resources { memory_mb: 0, ..good },
            Resources { memory_mb: MIN_MEMORY_MB - 1, ..good },
            Resources { memory_mb: u32::MAX, ..good },
            Resources { disk_gb: 0, ..good },
            Resources { disk_gb: 101, ..good },
        ] {
            assert!(bad.check(&Limits::default()).is_err(), "{bad:?}");
        }
    }
}
