//! Finds virtio serial ports by name.

use std::{
    fs,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{Mode, OFlags};

const PORTS: &str = "/sys/class/virtio-ports";
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Opens the port with this name. Waits for it, because ports appear shortly after their driver is loaded.
pub(crate) fn find(name: &str, flags: OFlags) -> Option<OwnedFd> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(port) = open(name, flags) {
            return Some(port);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn open(name: &str, flags: OFlags) -> Option<OwnedFd> {
    for entry in fs::read_dir(PORTS).ok()?.flatten() {
        let called = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if called.trim_end() != name {
            continue;
        }
        let device = [b"/dev/", entry.file_name().as_encoded_bytes()].concat();
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY | flags;
        if let Ok(port) = rustix::fs::open(device.as_slice(), flags, Mode::empty()) {
            return Some(port);
        }
    }
    None
}
