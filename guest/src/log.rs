//! Logs to the kernel log (and thus the console), or to standard error outside a guest.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::OnceLock,
};

use rustix::fs::{Mode, OFlags};

static KERNEL_LOG: OnceLock<OwnedFd> = OnceLock::new();

/// Logs to the kernel log from now on. The descriptor stays valid after the change of root.
pub(crate) fn use_kernel_log() {
    if let Ok(fd) = rustix::fs::open("/dev/kmsg", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        // A second call keeps the descriptor of the first.
        let _ = KERNEL_LOG.set(fd);
    }
}

/// Logs one line. Failures are ignored.
pub(crate) fn log(message: &str) {
    let line = format!("agentiso-guest: {message}\n");
    let _ = match KERNEL_LOG.get() {
        // Priority 3 (error): lower priorities do not reach the console.
        Some(fd) => rustix::io::write(fd.as_fd(), format!("<3>{line}").as_bytes()),
        None => rustix::io::write(rustix::stdio::stderr(), line.as_bytes()),
    };
}
