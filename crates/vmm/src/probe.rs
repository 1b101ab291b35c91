//! Finding out whether the processor can run guests: by letting it run one.
//!
//! `/dev/kvm` may exist, open, and still never run a stock kernel, so nothing but a boot of the real guest kernel
//! decides. The answer holds until the host reboots or QEMU, kernel or user change.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hardware::{Accel, Hardware, LinkKind};
use crate::machine::{GuestKernel, Host, Launch, Machine};
use crate::qemu::{DiskFile, Memory};

/// A kernel under KVM answers in well under a second; nested in another machine it may take a few.
const KVM_LIMIT: Duration = Duration::from_secs(10);
const KVM_DEVICE: &str = "/dev/kvm";

/// How guests run on this host, and why.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Acceleration {
    /// How.
    pub accel: Accel,
    /// Why, for a reader.
    pub reason: String,
}

#[derive(Deserialize, Serialize)]
struct Remembered {
    key: String,
    answer: Acceleration,
}

/// Decides how guests run. `wanted` is what the configuration insists on; `scratch` is a directory that the probe
/// may use and `cache` the file that remembers its answer.
pub async fn probe(
    host: &Host,
    kernel: &GuestKernel,
    wanted: Option<Accel>,
    scratch: &Path,
    cache: &Path,
) -> Acceleration {
    if let Some(accel) = wanted {
        return Acceleration { accel, reason: "set in the configuration".to_owned() };
    }
    let key = key(host, kernel);
    if let Some(known) = recall(cache, &key) {
        return known;
    }
    let answer = try_kvm(host, kernel, scratch).await;
    remember(cache, key, &answer);
    answer
}

async fn try_kvm(host: &Host, kernel: &GuestKernel, scratch: &Path) -> Acceleration {
    let tcg = |reason: String| Acceleration { accel: Accel::Tcg, reason };
    if let Err(error) = fs::OpenOptions::new().read(true).write(true).open(KVM_DEVICE) {
        return tcg(format!("{KVM_DEVICE} cannot be opened: {error}"));
    }
    let launch = Launch {
        dir: scratch,
        hardware: Hardware { accel: Accel::Kvm, link: LinkKind::Serial, vcpus: 1, memory_mb: 256 },
        disk: DiskFile::Blank,
        memory: Memory::Anonymous,
        ephemeral: true,
        spare_port: false,
    };
    let host = Host { boot_limit: KVM_LIMIT, ..host.clone() };
    match Machine::boot(&host, launch, kernel).await {
        Ok(machine) => {
            machine.kill().await;
            Acceleration { accel: Accel::Kvm, reason: "the guest kernel boots under KVM".to_owned() }
        }
        Err(error) => {
            let said = error.to_string();
            let reason: Vec<&str> = said.lines().take(2).map(str::trim).collect();
            tcg(format!("{KVM_DEVICE} is there, but the guest kernel does not run on it: {}", reason.join("; ")))
        }
    }
}

fn key(host: &Host, kernel: &GuestKernel) -> String {
    let user = rustix::process::geteuid().as_raw();
    format!("{} {} {user} {}", boot_id(), host.qemu.identity, kernel.digest)
}

/// Identifies this boot of the host.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn recall(cache: &Path, key: &str) -> Option<Acceleration> {
    let known: Remembered = serde_json::from_slice(&fs::read(cache).ok()?).ok()?;
    (known.key == key).then_some(known.answer)
}

/// Failing to remember only means asking again.
fn remember(cache: &Path, key: String, answer: &Acceleration) {
    if let Ok(text) = serde_json::to_vec_pretty(&Remembered { key, answer: answer.clone() }) {
        let _ = fs::write(cache, text);
    }
}
