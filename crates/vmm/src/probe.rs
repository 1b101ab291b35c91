//! Finds out how guests run on this host (KVM or emulation, vsock or serial) by booting one.
//!
//! `/dev/kvm` may exist, open, and still never run a stock kernel, so only a boot of the real guest kernel decides. The
//! result is cached until the host reboots or QEMU, kernel, user or the device's permissions change. A device that
//! cannot be opened is never cached: it is looked at again for every machine.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::chain;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hardware::{Accel, Hardware, LinkKind};
use crate::machine::{GuestKernel, Host, Launch, Machine};
use crate::qemu::{DiskFile, Memory};
use crate::transport::VSOCK_DEVICE;
use crate::users::User;

/// How long a kernel may be silent under KVM before an emulated one races it.
const KVM_HEAD_START: Duration = Duration::from_secs(5);
const KVM_DEVICE: &str = "/dev/kvm";

/// How guests run on this host, and why.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Acceleration {
    /// How.
    pub accel: Accel,
    /// Why, for a reader.
    pub reason: String,
}

/// How host and guest talk on this host, and why.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LinkChoice {
    /// How.
    pub link: LinkKind,
    /// Why, for a reader.
    pub reason: String,
}

#[derive(Deserialize, Serialize)]
struct Remembered<T> {
    key: String,
    answer: T,
}

/// Decides how guests run. `wanted` is what the configuration insists on; the probe may use the directory `cache`
/// and remembers its answer there.
pub async fn probe(host: &Host, kernel: &GuestKernel, wanted: Option<Accel>, cache: &Path) -> Acceleration {
    if let Some(accel) = wanted {
        return Acceleration { accel, reason: "set in the configuration".to_owned() };
    }
    let tcg = |reason: String| Acceleration { accel: Accel::Tcg, reason };
    let file = cache.join("acceleration.json");
    let key = match look_up(&file, KVM_DEVICE, |device| key(host, kernel, device)) {
        LookUp::Known(known) => return known,
        LookUp::Unusable { reason, last } => {
            if last.is_some_and(|last: Acceleration| last.accel == Accel::Kvm) {
                tracing::warn!("{reason}; it worked before: new machines run without KVM");
            }
            return tcg(reason);
        }
        LookUp::Unknown { key } => key,
    };
    let answer = match try_kvm(host, kernel, cache).await {
        Ok(()) => Acceleration { accel: Accel::Kvm, reason: "the guest kernel boots under KVM".to_owned() },
        Err(said) => tcg(format!("{KVM_DEVICE} is there, but the guest kernel does not run on it: {said}")),
    };
    in_place(|| remember(&file, key, &answer));
    answer
}

/// The result of the last probe, without a new one: KVM only if the probe found it to work and the device can still be
/// opened.
pub fn last_known(wanted: Option<Accel>, cache: &Path) -> Accel {
    let remembered = || {
        device_state(KVM_DEVICE).ok()?;
        read(&cache.join("acceleration.json")).map(|last: Remembered<Acceleration>| last.answer.accel)
    };
    wanted.or_else(|| in_place(remembered)).unwrap_or(Accel::Tcg)
}

/// Decides between vsock and serial, in the same way.
pub async fn choose_link(
    host: &Host,
    kernel: &GuestKernel,
    accel: Accel,
    wanted: Option<LinkKind>,
    cache: &Path,
) -> LinkChoice {
    if let Some(link) = wanted {
        return LinkChoice { link, reason: "set in the configuration".to_owned() };
    }
    let serial = |reason: String| LinkChoice { link: LinkKind::Serial, reason };
    let file = cache.join("link.json");
    let key = match look_up(&file, VSOCK_DEVICE, |device| format!("{} {accel}", key(host, kernel, device))) {
        LookUp::Known(known) => return known,
        LookUp::Unusable { reason, last } => {
            if last.is_some_and(|last: LinkChoice| last.link == LinkKind::Vsock) {
                tracing::warn!("{reason}; it worked before: new machines use a virtio serial port");
            }
            return serial(reason);
        }
        LookUp::Unknown { key } => key,
    };
    let answer = match try_boot(host, kernel, accel, LinkKind::Vsock, cache).await {
        Ok(()) => LinkChoice { link: LinkKind::Vsock, reason: "the agent answers on it".to_owned() },
        Err(said) => serial(format!("{VSOCK_DEVICE} is there, but the agent does not answer on it: {said}")),
    };
    in_place(|| remember(&file, key, &answer));
    answer
}

/// Why machines with this hardware cannot run here at the moment: a device they need is missing or not accessible. `None`
/// does not mean that the device works.
pub fn missing_device(hardware: &Hardware) -> Option<String> {
    let kvm = (hardware.accel == Accel::Kvm).then_some(KVM_DEVICE);
    let vsock = (hardware.link == LinkKind::Vsock).then_some(VSOCK_DEVICE);
    in_place(|| [kvm, vsock].into_iter().flatten().find_map(|device| device_state(device).err()))
}

/// Who may use a device, as part of the cache key: a probe's result may change with it, also for a QEMU that runs as
/// another user. The error says why the device cannot be opened.
#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn device_state(device: &str) -> Result<String, String> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    let found = opened.and_then(|device| device.metadata());
    let found = found.map_err(|error| format!("{device} cannot be opened: {error}"))?;
    Ok(format!("{:o} {} {} {}", found.mode(), found.uid(), found.gid(), found.ino()))
}

/// Boots the guest kernel under KVM; the error says in one line why it failed. A kernel that KVM cannot run may spin
/// without printing anything, and how long a working boot takes depends on the host. So a silent boot is given up once
/// an emulated one, started later, has finished.
async fn try_kvm(host: &Host, kernel: &GuestKernel, cache: &Path) -> Result<(), String> {
    let scratch = Scratch::new(cache, host)?;
    let emulated = try_boot(host, kernel, Accel::Tcg, LinkKind::Serial, cache);
    tokio::select! {
        booted = boot(host, kernel, Accel::Kvm, LinkKind::Serial, &scratch) => booted,
        () = overtaken(&scratch.dir, KVM_HEAD_START, emulated) => {
            Err("it printed nothing in the time in which an emulated one booted".to_owned())
        }
    }
}

/// Boots the guest kernel once; the error says in one line why it failed.
async fn try_boot(
    host: &Host,
    kernel: &GuestKernel,
    accel: Accel,
    link: LinkKind,
    cache: &Path,
) -> Result<(), String> {
    let scratch = Scratch::new(cache, host)?;
    boot(host, kernel, accel, link, &scratch).await
}

async fn boot(
    host: &Host,
    kernel: &GuestKernel,
    accel: Accel,
    link: LinkKind,
    scratch: &Scratch,
) -> Result<(), String> {
    let launch = Launch {
        dir: &scratch.dir,
        hardware: Hardware { accel, link, vcpus: 1, memory_mb: 256 },
        user: scratch.user.clone(),
        disk: DiskFile::Blank,
        memory: Memory::Anonymous,
        ephemeral: true,
        spare_port: false,
    };
    match Machine::boot(host, launch, kernel).await {
        Ok(machine) => {
            machine.kill().await;
            Ok(())
        }
        Err(error) => Err(chain(&error).lines().take(2).map(str::trim).collect::<Vec<_>>().join("; ")),
    }
}

/// Returns if the console of the machine in `dir` is still empty when another one has booted that was started
/// `head_start` later.
async fn overtaken(dir: &Path, head_start: Duration, other: impl Future<Output = Result<(), String>>) {
    tokio::time::sleep(head_start).await;
    if console_is_empty(dir) && other.await.is_ok() && console_is_empty(dir) {
        return;
    }
    std::future::pending().await
}

#[expect(clippy::disallowed_methods, reason = "one stat, twice per probe")]
fn console_is_empty(dir: &Path) -> bool {
    fs::metadata(dir.join("console.log")).map_or(0, |log| log.len()) == 0
}

/// A directory for one probe, removed when dropped.
struct Scratch {
    dir: PathBuf,
    user: Option<User>,
}

impl Scratch {
    fn new(parent: &Path, host: &Host) -> Result<Self, String> {
        let user = host.user().map_err(|error| chain(&error))?;
        let dir = parent.join(format!("probe-{}", uuid::Uuid::new_v4().simple()));
        let scratch = Self { dir, user };
        in_place(|| scratch.make())
            .map_err(|error| format!("{} cannot be made: {error}", scratch.dir.display()))?;
        Ok(scratch)
    }

    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.dir)?;
        match self.user.as_ref().map(User::owner) {
            Some((uid, gid)) => std::os::unix::fs::chown(&self.dir, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

impl Drop for Scratch {
    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn drop(&mut self) {
        let _ = in_place(|| fs::remove_dir_all(&self.dir));
    }
}

fn key(host: &Host, kernel: &GuestKernel, device: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    format!("{} {} {user} {} {device}", boot_id(), host.qemu.identity, kernel.digest)
}

/// Identifies this boot of the host.
pub(crate) fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(id) = BOOT.get() {
        return id;
    }
    #[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
    let read = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    // A failure is not kept: the next call reads again.
    read.map_or("", |id| BOOT.get_or_init(|| id.trim().to_owned()))
}

/// What the cache says about a device.
enum LookUp<T> {
    /// The result of an earlier probe that still holds.
    Known(T),
    /// No probe is needed: the device cannot be opened. `last` is the result of the last probe.
    Unusable { reason: String, last: Option<T> },
    /// A probe has to be made. Its result is stored under `key`.
    Unknown { key: String },
}

fn look_up<T: DeserializeOwned>(file: &Path, device: &str, key_of: impl FnOnce(&str) -> String) -> LookUp<T> {
    in_place(|| match device_state(device) {
        Err(reason) => LookUp::Unusable { reason, last: read(file).map(|last| last.answer) },
        Ok(state) => {
            let key = key_of(&state);
            match read(file) {
                Some(Remembered { key: known, answer }) if known == key => LookUp::Known(answer),
                _ => LookUp::Unknown { key },
            }
        }
    })
}

/// The result of the last probe, whether or not it still holds.
#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn read<T: DeserializeOwned>(cache: &Path) -> Option<Remembered<T>> {
    serde_json::from_slice(&fs::read(cache).ok()?).ok()
}

/// A failure only means another probe.
#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn remember<T: Serialize>(cache: &Path, key: String, answer: &T) {
    if let Ok(text) = serde_json::to_vec_pretty(&Remembered { key, answer }) {
        let _ = fs::write(cache, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_console_is_empty_until_something_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(console_is_empty(dir.path()));
        fs::write(dir.path().join("console.log"), "").unwrap();
        assert!(console_is_empty(dir.path()));
        fs::write(dir.path().join("console.log"), "[    0.1] hello").unwrap();
        assert!(!console_is_empty(dir.path()));
    }

    #[test]
    fn what_is_known_of_a_device_changes_with_who_may_use_it() {
        use std::os::unix::fs::PermissionsExt;

        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        let standing = || device_state(device.to_str().unwrap());
        assert!(standing().unwrap_err().contains("cannot be opened: No such file"));
        fs::write(&device, "").unwrap();
        let before = standing().unwrap();
        assert_eq!(standing().unwrap(), before);
        fs::set_permissions(&device, fs::Permissions::from_mode(0o666)).unwrap();
        assert_ne!(standing().unwrap(), before);
    }

    /// Whether a machine, whose console has this in it when another one has ended so, is given up.
    async fn is_given_up(printed: &'static str, other: Result<(), String>) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let other = async {
            fs::write(dir.path().join("console.log"), printed).unwrap();
            other
        };
        tokio::select! {
            () = overtaken(dir.path(), KVM_HEAD_START, other) => true,
            () = tokio::time::sleep(KVM_HEAD_START * 2) => false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_without_a_word_is_given_up_when_another_has_booted() {
        assert!(is_given_up("", Ok(())).await);
        assert!(!is_given_up("[    0.1] hello", Ok(())).await);
        assert!(!is_given_up("", Err("the other did not boot".to_owned())).await);
    }
}
