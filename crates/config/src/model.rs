//! What a configuration holds.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::ports::Dataset;
use agentiso_core::{ImageName, Limits, MIN_MEMORY_MB, NameError, Resources};
use serde::{Deserialize, Deserializer, Serialize};

/// MiB a QEMU may take beside its guest's memory.
///
/// Measured, after a guest had used all of its memory and its disk: 25 MiB of QEMU's own and 5 MiB of the kernel's with
/// KVM, 79 MiB and 7 MiB with TCG, of which 64 are translated code; a processor adds up to 4 MiB, a GiB of guest memory
/// 4 MiB of page tables. Twice that is allowed. Pages of files (templates, disks) count too, but the kernel lets go of
/// them before it kills.
const OVERHEAD_MB: u32 = 192;
/// Below this every machine would be killed at its start.
const LEAST_OVERHEAD_MB: u32 = 64;

/// The whole configuration. Every key is optional; an empty file is [`Config::default`].
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What a machine gets when the command line does not say.
    pub defaults: Defaults,
    /// The largest machine that may be asked for.
    pub limits: Limits,
    /// How machines are run.
    pub vm: Vm,
    /// What the host holds each machine to.
    pub resources: Holding,
    /// Memory images of booted guests.
    pub templates: Templates,
    /// Disks of workspaces.
    pub disks: Disks,
    /// Machines that are ready before anyone asks for them.
    pub pool: Pool,
    /// The daemon and its doors.
    pub daemon: Daemon,
    /// What a session of an agent may have.
    pub sessions: Sessions,
    /// How often a session may call.
    pub rate_limit: RateLimit,
    /// What agents may do with images.
    pub images: Images,
}

/// What agents may do with images.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Images {
    /// What agents may do with images.
    pub agents: ImageAccess,
}

/// What agents may do with images. The user of the command line may do everything.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageAccess {
    /// Nothing but start from those they know by name.
    Off,
    /// List and show them.
    #[default]
    List,
    /// Pull, import, build, commit and remove them, too.
    Manage,
}

/// The daemon and its doors.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Daemon {
    /// Address to listen on besides the socket.
    #[serde(deserialize_with = "address_unless_empty", skip_serializing_if = "Option::is_none")]
    pub listen: Option<SocketAddr>,
    /// The file with the token that whoever comes over that address must have.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// Port on 127.0.0.1 for metrics and health; 0 for none.
    pub metrics_port: u16,
    /// The directory of the host agents may copy from and to, instead of `transfers` in the data directory.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub transfer_dir: Option<PathBuf>,
    /// GiB one download out of a workspace may have.
    pub download_max_gb: u32,
    /// Files, directories and links one download may have.
    pub download_max_files: u32,
    /// MiB a download leaves free on the file system it is written to.
    pub download_reserve_mb: u32,
}

/// What a session of an agent may have.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    /// Workspaces.
    pub max_workspaces: u32,
    /// MiB of memory of all of them.
    pub max_memory_mb: u32,
    /// GiB of disk of all of them.
    pub max_disk_gb: u32,
    /// Most snapshots of all of them.
    pub max_snapshots: u32,
    /// Seconds without a call after which another session may take its workspaces over by force.
    pub adopt_idle_secs: u32,
    /// What sessions see and reach of each other's workspaces.
    pub isolation: Isolation,
}

/// What sessions see and reach of each other's workspaces.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// All workspaces are listed, and one that nobody owns belongs to the session that uses it first.
    #[default]
    Shared,
    /// A session sees and reaches only workspaces that it owns.
    Strict,
}

/// How often a session may call.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Whether calls are counted at all.
    pub enabled: bool,
    /// Calls a minute that start machines.
    pub create_per_minute: u32,
    /// Calls a minute that run commands.
    pub exec_per_minute: u32,
    /// All other calls a minute.
    pub default_per_minute: u32,
}

/// Machines that are ready before anyone asks for them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pool {
    /// How many of each shape.
    pub size: u32,
    /// MiB of memory all of them together may have; 0: as much as suits the host.
    pub memory_mb: u32,
}

/// Disks of workspaces.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disks {
    /// How they are kept.
    pub backend: DiskBackend,
    /// The dataset of a ZFS pool to keep them in.
    #[serde(deserialize_with = "dataset_unless_empty", skip_serializing_if = "Option::is_none")]
    pub zfs_dataset: Option<String>,
}

/// How disks are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskBackend {
    /// The best the file system of the data directory allows.
    #[default]
    Auto,
    /// As layers of qcow2 files, on any file system.
    Qcow2,
    /// As raw files that share data, on XFS and btrfs.
    Reflink,
    /// As volumes of a ZFS pool.
    Zfs,
}

/// What a machine gets when the command line does not say.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Defaults {
    /// The image; checked to be a valid name when the file is read.
    #[serde(deserialize_with = "image_name")]
    pub image: String,
    /// Virtual processors; 0 for as many as suit the acceleration.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mb: u32,
    /// Size of the root file system in GiB.
    pub disk_gb: u32,
    /// As many virtual processors as suit the acceleration, if that is known.
    #[serde(skip)]
    suitable_vcpus: Option<u32>,
}

/// How machines are run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Vm {
    /// The QEMU to use instead of the one in `PATH`.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub qemu: Option<PathBuf>,
    /// The guest kernel to use instead of the one `init` prepares.
    #[serde(deserialize_with = "path_unless_empty", skip_serializing_if = "Option::is_none")]
    pub kernel: Option<PathBuf>,
    /// The acceleration.
    pub accel: Accel,
    /// The transport between host and guest.
    pub link: Link,
    /// The user whose group every QEMU has when agentiso itself is root.
    pub user: String,
    /// The first of the user ids that QEMUs have then.
    pub first_uid: u32,
    /// How many there are; with none, every QEMU runs as `user`.
    pub uids: u32,
    /// Whether QEMU is isolated from the host.
    pub isolation: QemuIsolation,
    /// Seconds a machine may take until it answers, booted or restored, and for each step of its start after that.
    pub boot_timeout_secs: u32,
    /// Seconds a machine may take to power off before it is killed.
    pub stop_timeout_secs: u32,
    /// Whether a stopped or suspended workspace starts when a command, a file or git is used in it.
    pub start_on_use: bool,
}

/// What the host holds each machine to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Holding {
    /// Whether machines are put into groups.
    pub cgroup: Cgroup,
    /// A machine that cannot be limited does not start.
    pub cgroup_required: bool,
    /// MiB a QEMU may take beside its guest's memory.
    pub overhead_mb: u32,
    /// MiB a machine may read from the disk in a second; 0 for no limit.
    pub io_read_mb_per_sec: u32,
    /// MiB a machine may write to the disk in a second; 0 for no limit.
    pub io_write_mb_per_sec: u32,
}

/// Whether machines are put into groups.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cgroup {
    /// Wherever the host lets us.
    #[default]
    Auto,
    /// Never.
    Off,
}

/// Whether QEMU is isolated from the host.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QemuIsolation {
    /// Wherever the host allows it.
    #[default]
    Auto,
    /// A machine whose QEMU cannot be isolated is refused.
    Required,
    /// It sees what its user sees.
    Off,
}

/// Which acceleration QEMU uses.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Accel {
    /// KVM if the guest kernel really boots with it, else TCG.
    #[default]
    Auto,
    /// KVM or nothing.
    Kvm,
    /// Software emulation.
    Tcg,
}

/// Which transport carries the guest link.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Vsock if the host offers it, else virtio-serial.
    #[default]
    Auto,
    /// Vsock or nothing.
    Vsock,
    /// Virtio-serial.
    Serial,
}

/// Memory images of booted guests.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Templates {
    /// MiB all templates together may take on disk.
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
    /// The size of a machine nobody asked a particular size for.
    pub fn resources(&self) -> Resources {
        let vcpus = match self.vcpus {
            0 => self.suitable_vcpus.unwrap_or(Resources::default().vcpus),
            configured => configured,
        };
        Resources { vcpus, memory_mb: self.memory_mb, disk_gb: self.disk_gb }
    }

    /// The default image as a name.
    pub fn image_name(&self) -> Result<ImageName, NameError> {
        self.image.parse()
    }
}

impl Vm {
    /// How long a machine may take until it answers.
    pub fn boot_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.boot_timeout_secs))
    }

    /// How long a machine may take to power off.
    pub fn stop_timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.stop_timeout_secs))
    }
}

/// A value that is well formed but makes no sense.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Nonsense {
    pub section: &'static str,
    pub key: &'static str,
    /// The key of `[limits]` it does not fit.
    pub limit: Option<&'static str>,
    pub reason: String,
}

impl Config {
    /// Learns how guests run here, which decides how many processors a machine gets that nobody chose for it: two where
    /// they are the host's own, one where a processor is emulated and a second one only slows the first.
    pub fn suit(&mut self, accel: Accel) {
        let suitable = if accel == Accel::Kvm { 2 } else { 1 };
        self.defaults.suitable_vcpus = Some(suitable.min(self.limits.max_vcpus));
    }

    /// Finds the first value that makes no sense by itself or beside the others.
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
            let reason = "must be at least 1; enabled = false switches all limits off".to_owned();
            return Some(Nonsense { section: "rate_limit", key, limit: None, reason });
        }
        if self.resources.cgroup_required && self.resources.cgroup == Cgroup::Off {
            let reason = "limits cannot be required where cgroup is \"off\"".to_owned();
            return Some(Nonsense { section: "resources", key: "cgroup_required", limit: None, reason });
        }
        if self.resources.overhead_mb < LEAST_OVERHEAD_MB {
            let reason = format!("must be at least {LEAST_OVERHEAD_MB}: no QEMU lives with less");
            return Some(Nonsense { section: "resources", key: "overhead_mb", limit: None, reason });
        }
        if self.daemon.listen.is_some() && self.daemon.token_file.is_none() {
            let reason = "needs token_file: nobody may come over the network without a token".to_owned();
            return Some(Nonsense { section: "daemon", key: "listen", limit: None, reason });
        }
        if self.disks.backend == DiskBackend::Zfs && self.disks.zfs_dataset.is_none() {
            let reason = "needs zfs_dataset: the dataset of a pool to keep the disks in".to_owned();
            return Some(Nonsense { section: "disks", key: "backend", limit: None, reason });
        }
        if self.vm.uids > 0 && !are_ids_for_machines(self.vm.first_uid, self.vm.uids) {
            let reason = format!("{} ids from there on are not between 65536 and 4294967293", self.vm.uids);
            return Some(Nonsense { section: "vm", key: "first_uid", limit: None, reason });
        }
        if self.vm.user.is_empty() {
            let reason = "must not be empty".to_owned();
            return Some(Nonsense { section: "vm", key: "user", limit: None, reason });
        }
        None
    }
}

/// Ids of a distribution's own users and of nobody are not for machines, nor is the one that stands for none.
fn are_ids_for_machines(first: u32, count: u32) -> bool {
    first >= 1 << 16 && first.checked_add(count).is_some_and(|end| end < u32::MAX - 1)
}

/// Whatever is not the name of a dataset of its own is refused here, before anything is done with it.
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

/// An empty string stands for "not set", so that the commented file can show every key with its default.
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
    fn the_default_configuration_makes_sense() {
        assert_eq!(Config::default().nonsense(), None);
        assert!(Config::default().defaults.image_name().is_ok());
        assert_eq!(Config::default().defaults.resources(), Resources::default());
    }

    #[test]
    fn a_hostile_dataset_is_refused_with_the_file() {
        for name in ["tank", "tank/../x", "tank/a@b", "-o x", "tank/agentiso ", "/tank/a", "tank/-r"] {
            let text = format!("[disks]\nzfs_dataset = {name:?}\n");
            let refused = crate::parse(&text, std::path::Path::new("c")).unwrap_err().to_string();
            assert!(refused.contains("disks.zfs_dataset"), "{name:?}: {refused}");
        }
        let alone = crate::parse("[disks]\nbackend = \"zfs\"\n", std::path::Path::new("c"));
        assert!(alone.unwrap_err().to_string().contains("zfs_dataset"));
    }

    #[test]
    fn processors_nobody_chose_suit_the_acceleration() {
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
        assert_eq!(Config::default().defaults.resources().vcpus, 1, "where nothing is known yet");
    }

    #[test]
    fn accepted_defaults_are_machines_the_limits_allow() {
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
