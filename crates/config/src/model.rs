//! The configuration model, with its defaults and checks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::ports::Dataset;
use agentiso_core::{ImageName, Limits, MIN_MEMORY_MB, NameError, Resources};
use serde::{Deserialize, Deserializer, Serialize};

use super::network::Network;

/// Memory in MiB that a QEMU process may use in addition to its guest's memory.
///
/// Measured after a guest had used all its memory and its disk: 25 MiB for QEMU and 5 MiB in the kernel with KVM; 79
/// MiB and 7 MiB with TCG, of which 64 are translated code. Each vCPU adds up to 4 MiB, each GiB of guest memory 4 MiB
/// of page tables. The limit is twice that. Cached pages of files (templates, disks) count too, but the kernel drops
/// them before it kills.
const OVERHEAD_MB: u32 = 192;
/// With less than this, every machine would be killed when it starts.
const LEAST_OVERHEAD_MB: u32 = 64;

/// The whole configuration. Every key is optional; an empty file is [`Config::default`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Default resources of a machine.
    pub defaults: Defaults,
    /// Maximum resources of a machine.
    pub limits: Limits,
    /// How machines run.
    pub vm: Vm,
    /// Resource limits that the host enforces on each machine.
    pub resources: Holding,
    /// Memory images of booted guests.
    pub templates: Templates,
    /// Disks of workspaces.
    pub disks: Disks,
    /// Machines that are started in advance.
    pub pool: Pool,
    /// The daemon and its listeners.
    pub daemon: Daemon,
    /// Quotas of an agent's session.
    pub sessions: Sessions,
    /// Rate limits of a session.
    pub rate_limit: RateLimit,
    /// Access of agents to images.
    pub images: Images,
    /// The network of workspaces.
    pub network: Network,
}

/// Access of agents to images.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Images {
    /// What agents may do with images.
    pub agents: ImageAccess,
}

/// What agents may do with images. The CLI user may do everything.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageAccess {
    /// Only use images whose names they know.
    Off,
    /// List and show them.
    #[default]
    List,
    /// Also pull, import, build, commit and remove them.
    Manage,
}

/// The daemon and its listeners.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Daemon {
    /// TCP address to listen on, in addition to the socket.
    #[serde(deserialize_with = "address_unless_empty", skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// File with the token that clients of that address must present.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Port on 127.0.0.1 for metrics and health checks; 0 for none.
    pub metrics_port: u16,
    /// Host directory that agents may copy from and to; `transfers` in the data directory if absent.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub transfer_dir: Option<PathBuf>,
    /// Limit on one download from a workspace, in GiB.
    pub download_max_gb: u32,
    /// Limit on the files, directories and links of one download.
    pub download_max_files: u32,
    /// MiB that a download leaves free on the file system it is written to.
    pub download_reserve_mb: u32,
}

/// Quotas of an agent's session.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    /// Number of workspaces.
    pub max_workspaces: u32,
    /// Total memory of its workspaces, in MiB.
    pub max_memory_mb: u32,
    /// Total disk size of its workspaces, in GiB.
    pub max_disk_gb: u32,
    /// Total number of snapshots of its workspaces.
    pub max_snapshots: u32,
    /// Seconds without a call after which another session may forcibly take over its workspaces.
    pub adopt_idle_secs: u32,
    /// Which workspaces of other sessions a session can see and use.
    pub isolation: Isolation,
}

/// Which workspaces of other sessions a session can see and use.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// All workspaces are listed. A workspace without an owner is adopted by the first session that uses it.
    #[default]
    Shared,
    /// A session sees and uses only the workspaces that it owns.
    Strict,
}

/// Rate limits of a session.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Whether rate limits apply.
    pub enabled: bool,
    /// Calls per minute that start machines.
    pub create_per_minute: u32,
    /// Calls per minute that run commands.
    pub exec_per_minute: u32,
    /// All other calls per minute.
    pub default_per_minute: u32,
}

/// Machines that are started in advance.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// Number of machines per combination of image and size.
    pub size: u32,
    /// Limit on the memory of all of them together, in MiB; 0 to derive it from the host's memory.
    pub memory_mb: u32,
}

/// Disks of workspaces.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disks {
    /// How disks are stored.
    pub backend: DiskBackend,
    /// The ZFS dataset that contains them.
    #[serde(deserialize_with = "dataset_unless_empty", skip_serializing_if = "Option::is_none")]
    pub zfs_dataset: Option<String>,
}

/// How disks are stored.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskBackend {
    /// The best backend that the data directory's file system supports.
    #[default]
    Auto,
    /// Layers of qcow2 files, on any file system.
    Qcow2,
    /// Raw files that share data, on XFS and btrfs.
    Reflink,
    /// Volumes of a ZFS pool.
    Zfs,
}

/// Default resources of a machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// The image. Checked to be a valid name when the file is read.
    #[serde(deserialize_with = "image_name")]
    pub image: String,
    /// Number of vCPUs; 0 for the number that suits the acceleration.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Size of the root file system in GiB.
    pub disk_gb: u32,
    /// The number of vCPUs that suits the acceleration, if that is known.
    #[serde(skip)]
    suitable_vcpus: Option<u32>,
}

/// How machines run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vm {
    /// Path of QEMU, instead of the one in `PATH`.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub qemu: Option<PathBuf>,
    /// Path of the guest kernel, instead of the one that `init` prepares.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
    /// The accelerator.
    pub accel: Accel,
    /// The transport between host and guest.
    pub link: Link,
    /// When agentiso runs as root: the user whose group every QEMU has.
    pub user: String,
    /// When agentiso runs as root: the first user id for QEMU processes.
    pub first_uid: u32,
    /// Number of user ids; 0 to run every QEMU as `user`.
    pub uids: u32,
    /// Whether QEMU is isolated from the host.
    pub isolation: QemuIsolation,
    /// Seconds until a booted or restored machine must respond, and for each later step of its start.
    pub boot_timeout_secs: u32,
    /// Seconds a machine may take to power off before it is killed.
    pub stop_timeout_secs: u32,
    /// Whether a stopped or suspended workspace starts when a command, file or git action uses it.
    pub start_on_use: bool,
}

/// Resource limits that the host enforces on each machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Holding {
    /// Whether machines run in cgroups.
    pub cgroup: Cgroup,
    /// Whether a machine that cannot be limited fails to start.
    pub cgroup_required: bool,
    /// Memory in MiB that QEMU may use in addition to its guest's memory.
    pub overhead_mb: u32,
    /// Limit on disk reads per machine, in MiB per second; 0 for none.
    pub io_read_mb_per_sec: u32,
    /// Limit on disk writes per machine, in MiB per second; 0 for none.
    pub io_write_mb_per_sec: u32,
}

/// Whether machines run in cgroups.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cgroup {
    /// If the host allows it.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Whether QEMU is isolated from the host.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QemuIsolation {
    /// If the host allows it.
    #[default]
    Auto,
    /// Machines whose QEMU cannot be isolated do not start.
    Required,
    /// QEMU can access everything that its user can.
    Off,
}

/// Which accelerator QEMU uses.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM if the guest kernel boots with it, otherwise TCG.
    #[default]
    Auto,
    /// KVM only.
    Kvm,
    /// Software emulation.
    Tcg,
}

/// Which transport the guest link uses.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Vsock if the host has it, otherwise virtio-serial.
    #[default]
    Auto,
    /// Vsock only.
    Vsock,
    /// Virtio-serial.
    Serial,
}

/// Memory images of booted guests.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Templates {
    /// Limit on the disk space of all templates together, in MiB.
    pub max_mb: u32,
}

impl Default for Defaults {
    fn default() -> Self {
        let Resources { memory_mb, disk_gb, .. } = Resources::default();
        Self { image: "debian".to_owned(), vcpus: 0, memory_mb, disk_gb, suitable_vcpus: None }
    }
}

impl Default for Vm {
    fn default() -> Self {
        Self {
            qemu: None,
            kernel: None,
            accel: Accel::default(),
            link: Link::default(),
            user: "nobody".to_owned(),
            first_uid: 1_900_000_000,
            uids: 65_536,
            isolation: QemuIsolation::default(),
            boot_timeout_secs: 60,
            stop_timeout_secs: 10,
            start_on_use: true,
        }
    }
}

impl Default for Holding {
    fn default() -> Self {
        Self {
            cgroup: Cgroup::default(),
            cgroup_required: false,
            overhead_mb: OVERHEAD_MB,
            io_read_mb_per_sec: 0,
            io_write_mb_per_sec: 0,
        }
    }
}

impl Default for Templates {
    fn default() -> Self {
        Self { max_mb: 4096 }
    }
}

impl Default for Daemon {
    fn default() -> Self {
        Self {
            listen: None,
            token_file: None,
            metrics_port: 0,
            transfer_dir: None,
            download_max_gb: 64,
            download_max_files: 1_000_000,
            download_reserve_mb: 512,
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            max_workspaces: 20,
            max_memory_mb: 16_384,
            max_disk_gb: 400,
            max_snapshots: 1000,
            adopt_idle_secs: 60,
            isolation: Isolation::Shared,
        }
    }
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { enabled: true, create_per_minute: 60, exec_per_minute: 600, default_per_minute: 3000 }
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self { size: 2, memory_mb: 0 }
    }
}

impl Defaults {
    /// The resources of a machine for which no size was given.
    pub fn resources(&self) -> Resources {
        let vcpus = match self.vcpus {
            0 => self.suitable_vcpus.unwrap_or(Resources::default().vcpus),
            configured => configured,
        };
        Resources { vcpus, memory_mb: self.memory_mb, disk_gb: self.disk_gb }
    }

    /// The default image as a checked name.
    pub fn image_name(&self) -> Result<ImageName, NameError> {
        self.image.parse()
    }
}

impl Vm {
    /// How long a machine may take until it responds.
    pub fn boot_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.boot_timeout_secs))
    }

    /// How long a machine may take to power off.
    pub fn stop_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.stop_timeout_secs))
    }
}

/// A value that has the right type but is invalid.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Nonsense {
    pub section: &'static str,
    pub key: &'static str,
    /// The key in `[limits]` that it conflicts with.
    pub limit: Option<&'static str>,
    pub reason: String,
}

impl Config {
    /// Sets the default number of vCPUs to suit the accelerator: two with hardware virtualisation; one with emulation,
    /// where a second vCPU only slows down the first.
    pub fn suit(&mut self, accel: Accel) {
        let suitable = if accel == Accel::Kvm { 2 } else { 1 };
        self.defaults.suitable_vcpus = Some(suitable.min(self.limits.max_vcpus));
    }

    /// Finds the first value that is invalid, by itself or in combination with others.
    pub(super) fn nonsense(&self) -> Option<Nonsense> {
        let (defaults, limits) = (&self.defaults, &self.limits);
        let sizes = [
            ("vcpus", "max_vcpus", defaults.vcpus.max(1), limits.max_vcpus, 1),
            ("memory_mb", "max_memory_mb", defaults.memory_mb, limits.max_memory_mb, MIN_MEMORY_MB),
            ("disk_gb", "max_disk_gb", defaults.disk_gb, limits.max_disk_gb, 1),
        ];
        for (key, limit_key, value, limit, least) in sizes {
            if limit < least {
                let reason = format!("must be at least {least}, not {limit}");
                return Some(Nonsense { section: "limits", key: limit_key, limit: None, reason });
            }
            if value < least {
                let reason = format!("must be at least {least}, not {value}");
                return Some(Nonsense { section: "defaults", key, limit: None, reason });
            }
            if value > limit {
                let reason = format!("{value} is more than limits.{limit_key}, which is {limit}");
                return Some(Nonsense { section: "defaults", key, limit: Some(limit_key), reason });
            }
        }
        if let Some((key, reason)) = self.network.nonsense() {
            return Some(Nonsense { section: "network", key, limit: None, reason });
        }
        let timeouts = [
            ("boot_timeout_secs", self.vm.boot_timeout_secs),
            ("stop_timeout_secs", self.vm.stop_timeout_secs),
        ];
        for (key, seconds) in timeouts {
            if seconds == 0 {
                let reason = "must be at least 1".to_owned();
                return Some(Nonsense { section: "vm", key, limit: None, reason });
            }
        }
        let rates = [
            ("create_per_minute", self.rate_limit.create_per_minute),
            ("exec_per_minute", self.rate_limit.exec_per_minute),
            ("default_per_minute", self.rate_limit.default_per_minute),
        ];
        if let Some((key, _)) = rates.iter().find(|(_, per_minute)| *per_minute == 0) {
            let reason = "must be at least 1; set enabled = false to turn off all limits".to_owned();
            return Some(Nonsense { section: "rate_limit", key, limit: None, reason });
        }
        if self.resources.cgroup_required && self.resources.cgroup == Cgroup::Off {
            let reason = "cannot be true while cgroup is \"off\"".to_owned();
            return Some(Nonsense { section: "resources", key: "cgroup_required", limit: None, reason });
        }
        if self.resources.overhead_mb < LEAST_OVERHEAD_MB {
            let reason = format!("must be at least {LEAST_OVERHEAD_MB}, because QEMU does not run with less");
            return Some(Nonsense { section: "resources", key: "overhead_mb", limit: None, reason });
        }
        if self.daemon.listen.is_some() && self.daemon.token_file.is_none() {
            let reason = "requires token_file: clients must authenticate with a token".to_owned();
            return Some(Nonsense { section: "daemon", key: "listen", limit: None, reason });
        }
        if self.disks.backend == DiskBackend::Zfs && self.disks.zfs_dataset.is_none() {
            let reason = "requires zfs_dataset, the dataset that stores the disks".to_owned();
            return Some(Nonsense { section: "disks", key: "backend", limit: None, reason });
        }
        if self.vm.uids > 0 && !are_ids_for_machines(self.vm.first_uid, self.vm.uids) {
            let reason = format!(
                "the range of {} ids that starts here must lie between 65536 and 4294967293",
                self.vm.uids
            );
            return Some(Nonsense { section: "vm", key: "first_uid", limit: None, reason });
        }
        if self.vm.user.is_empty() {
            let reason = "must not be empty".to_owned();
            return Some(Nonsense { section: "vm", key: "user", limit: None, reason });
        }
        None
    }
}

/// Excludes the ids of a distribution's own users, of nobody, and the one that means "unchanged".
fn are_ids_for_machines(first: u32, count: u32) -> bool {
    first >= 1 << 16 && first.checked_add(count).is_some_and(|end| end < u32::MAX - 1)
}

/// Rejects anything but a valid dataset name before it is used.
fn dataset_unless_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() {
        return Ok(None);
    }
    Dataset::parse(&name).map(|dataset| Some(dataset.as_str().to_owned())).map_err(serde::de::Error::custom)
}

fn image_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    ImageName::deserialize(deserializer).map(String::from)
}

fn address_unless_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Ok(None);
    }
    let bad =
        |_| serde::de::Error::custom(format!("{text:?} is not an address and port, as in 127.0.0.1:7070"));
    text.parse().map(Some).map_err(bad)
}

/// Treats an empty string as "not set", so that the commented file can show every key with its default.
fn path_unless_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    if path.as_os_str().is_empty() {
        return Ok(None);
    }
    if path.is_relative() {
        return Err(serde::de::Error::custom(format!("{path:?} is not an absolute path")));
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_configuration_is_valid() {
        assert_eq!(Config::default().nonsense(), None);
        assert!(Config::default().defaults.image_name().is_ok());
        assert_eq!(Config::default().defaults.resources(), Resources::default());
    }

    #[test]
    fn a_hostile_dataset_name_is_rejected() {
        for name in ["tank", "tank/../x", "tank/a@b", "-o x", "tank/agentiso ", "/tank/a", "tank/-r"] {
            let text = format!("[disks]\nzfs_dataset = {name:?}\n");
            let refused = crate::parse(&text, std::path::Path::new("c")).unwrap_err().to_string();
            assert!(refused.contains("disks.zfs_dataset"), "{name:?}: {refused}");
        }
        let alone = crate::parse("[disks]\nbackend = \"zfs\"\n", std::path::Path::new("c"));
        assert!(alone.unwrap_err().to_string().contains("zfs_dataset"));
    }

    #[test]
    fn the_default_number_of_vcpus_suits_the_accelerator() {
        let vcpus = |config: &str, accel| {
            let mut config = crate::parse(config, std::path::Path::new("c")).unwrap();
            config.suit(accel);
            config.defaults.resources().vcpus
        };
        use Accel::{Kvm, Tcg};
        assert_eq!((vcpus("", Kvm), vcpus("", Tcg)), (2, 1));
        for accel in [Kvm, Tcg] {
            assert_eq!(vcpus("[defaults]\nvcpus = 3\n", accel), 3);
            assert_eq!(vcpus("[limits]\nmax_vcpus = 1\n", accel), 1);
        }
        assert_eq!(Config::default().defaults.resources().vcpus, 1, "before the accelerator is known");
    }

    #[test]
    fn accepted_defaults_are_within_the_limits() {
        for memory_mb in [0, 1, 127, 128, 8192, 8193, u32::MAX] {
            for vcpus in [0, 1, 8, 9] {
                let mut config = Config::default();
                config.defaults.memory_mb = memory_mb;
                config.defaults.vcpus = vcpus;
                let allowed = config.defaults.resources().check(&config.limits).is_ok();
                assert_eq!(config.nonsense().is_none(), allowed, "{vcpus} vcpus, {memory_mb} MiB");
            }
        }
    }
}
