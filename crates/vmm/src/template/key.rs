//! Keys of templates and memory images: hashes of everything they depend on.

use std::fs;
use std::sync::OnceLock;

use agentiso_core::ports::Disks;

use super::make::WARM_UP;
use crate::hardware::{Hardware, LinkKind};
use crate::machine::{GuestKernel, Host};
use crate::qemu::{LAYOUT, kernel_words, processor};

/// The key of the base template for some hardware.
pub fn base_key(host: &Host, kernel: &GuestKernel, hardware: &Hardware) -> String {
    let Hardware { accel, link, vcpus, memory_mb } = hardware;
    digest(&[
        "base",
        &LAYOUT.to_string(),
        &host.qemu.path.to_string_lossy(),
        &host.qemu.version,
        &host.qemu.identity,
        &kernel.digest,
        host_processor(),
        processor(*accel),
        &kernel_words(hardware),
        &format!("{accel} {} {vcpus} {memory_mb}", devices_of(*link)),
    ])
}

/// The key of the warm template of an image's disk on a base.
pub fn warm_key(base: &str, image: &str, disk_bytes: u64, disks: &dyn Disks) -> String {
    digest(&["warm", base, image, &disk_bytes.to_string(), &disks.realm(), &format!("{WARM_UP:?}")])
}

/// The key that must match for a memory image to be restored: everything that a base template depends on, except the
/// kernel, which is part of the image.
pub fn restore_key(host: &Host, hardware: &Hardware) -> String {
    let Hardware { accel, link, vcpus, memory_mb } = hardware;
    digest(&[
        "restore",
        &LAYOUT.to_string(),
        &host.qemu.version,
        host_processor(),
        processor(*accel),
        &format!("{accel} {} {vcpus} {memory_mb}", devices_of(*link)),
    ])
}

/// The devices of a link. Images with different devices are not compatible.
fn devices_of(link: LinkKind) -> &'static str {
    match link {
        LinkKind::Serial => "virtio-serial",
        LinkKind::Vsock => "vsock with a port for its key",
    }
}

/// The host's processor: a guest must not be restored on one with fewer features.
fn host_processor() -> &'static str {
    static PROCESSOR: OnceLock<String> = OnceLock::new();
    if let Some(processor) = PROCESSOR.get() {
        return processor;
    }
    #[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
    let read = fs::read_to_string("/proc/cpuinfo");
    let relevant = |info: String| {
        info.lines()
            .take_while(|line| !line.is_empty())
            .filter(|line| line.starts_with("model name") || line.starts_with("flags"))
            .collect()
    };
    // A failure is not kept: the next call reads again.
    read.map_or("", |info| PROCESSOR.get_or_init(|| relevant(info)))
}

fn digest(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..24].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
    }
}
