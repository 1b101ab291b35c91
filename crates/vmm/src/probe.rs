//! Finding out whether the processor can run guests: by letting it run one.
//!
//! `/dev/kvm` may exist, open, and still never run a stock kernel, so nothing but a boot of the real guest kernel
//! decides. The answer holds until the host reboots or QEMU, kernel, user or the device's permissions change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    let memory = cache.join("acceleration.json");
    let device = match device_standing(KVM_DEVICE) {
        Ok(device) => device,
        Err(reason) => {
            if read(&memory).is_some_and(|last: Remembered<Acceleration>| last.answer.accel == Accel::Kvm) {
                tracing::warn!("{reason}; it worked before: new machines run without KVM");
            }
            return tcg(reason);
        }
    };
    let key = key(host, kernel, &device);
    if let Some(known) = recall(&memory, &key) {
        return known;
    }
    let answer = match try_kvm(host, kernel, cache).await {
        Ok(()) => Acceleration { accel: Accel::Kvm, reason: "the guest kernel boots under KVM".to_owned() },
        Err(said) => tcg(format!("{KVM_DEVICE} is there, but the guest kernel does not run on it: {said}")),
    };
    remember(&memory, key, &answer);
    answer
}

/// How guests ran when that was last found out, without finding it out again: KVM only if it was that and its device can
/// still be opened.
pub fn last_known(wanted: Option<Accel>, cache: &Path) -> Accel {
    let remembered = || {
        device_standing(KVM_DEVICE).ok()?;
        read(&cache.join("acceleration.json")).map(|last: Remembered<Acceleration>| last.answer.accel)
    };
    wanted.or_else(remembered).unwrap_or(Accel::Tcg)
}

/// Decides how host and guest talk, in the same way.
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
    let memory = cache.join("link.json");
    let device = match device_standing(VSOCK_DEVICE) {
        Ok(device) => device,
        Err(reason) => {
            if read(&memory).is_some_and(|last: Remembered<LinkChoice>| last.answer.link == LinkKind::Vsock) {
                tracing::warn!("{reason}; it worked before: new machines use a virtio serial port");
            }
            return serial(reason);
        }
    };
    let key = format!("{} {accel}", key(host, kernel, &device));
    if let Some(known) = recall(&memory, &key) {
        return known;
    }
    let answer = match try_boot(host, kernel, accel, LinkKind::Vsock, cache).await {
        Ok(()) => LinkChoice { link: LinkKind::Vsock, reason: "the agent answers on it".to_owned() },
        Err(said) => serial(format!("{VSOCK_DEVICE} is there, but the agent does not answer on it: {said}")),
    };
    remember(&memory, key, &answer);
    answer
}

/// Why machines of this kind cannot run here at the moment, if they cannot: a device that is needed is missing or
/// closed to us. That it is open does not mean that it works.
pub fn missing_device(hardware: &Hardware) -> Option<String> {
    let kvm = (hardware.accel == Accel::Kvm).then_some(KVM_DEVICE);
    let vsock = (hardware.link == LinkKind::Vsock).then_some(VSOCK_DEVICE);
    [kvm, vsock].into_iter().flatten().find_map(|device| device_standing(device).err())
}

/// Who may use a device that can be opened: what was found out about it holds as long as this does, also for a QEMU
/// that runs as somebody else. Otherwise, why it cannot be.
fn device_standing(device: &str) -> Result<String, String> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    let found = opened.and_then(|device| device.metadata());
    let found = found.map_err(|error| format!("{device} cannot be opened: {error}"))?;
    Ok(format!("{:o} {} {} {}", found.mode(), found.uid(), found.gid(), found.ino()))
}

/// Boots the guest kernel under KVM; in case of failure, says why in one line. A kernel that KVM cannot run may spin for
/// ever without a word, and how long one takes that it can run depends on the host. So one that is silent is given up
/// when an emulated one, which began later, has booted.
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

/// Boots the guest kernel once; in case of failure, says why in one line.
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

fn console_is_empty(dir: &Path) -> bool {
    fs::metadata(dir.join("console.log")).map_or(0, |log| log.len()) == 0
}

/// A directory for one probe, gone with it.
struct Scratch {
    dir: PathBuf,
    user: Option<User>,
}

impl Scratch {
    fn new(parent: &Path, host: &Host) -> Result<Self, String> {
        let user = host.user().map_err(|error| chain(&error))?;
        let dir = parent.join(format!("probe-{}", uuid::Uuid::new_v4().simple()));
        let scratch = Self { dir, user };
        scratch.make().map_err(|error| format!("{} cannot be made: {error}", scratch.dir.display()))?;
        Ok(scratch)
    }

    fn make(&self) -> io::Result<()> {
        fs::create_dir(&self.dir)?;
        match self.user.as_ref().map(User::owner) {
            Some((uid, gid)) => std::os::unix::fs::chown(&self.dir, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn key(host: &Host, kernel: &GuestKernel, device: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    format!("{} {} {user} {} {device}", boot_id(), host.qemu.identity, kernel.digest)
}

/// Identifies this boot of the host.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn recall<T: DeserializeOwned>(cache: &Path, key: &str) -> Option<T> {
    let known: Remembered<T> = read(cache)?;
    (known.key == key).then_some(known.answer)
}

/// What was found out last, whatever has changed since.
fn read<T: DeserializeOwned>(cache: &Path) -> Option<Remembered<T>> {
    serde_json::from_slice(&fs::read(cache).ok()?).ok()
}

/// Failing to remember only means asking again.
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
        let standing = || device_standing(device.to_str().unwrap());
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
