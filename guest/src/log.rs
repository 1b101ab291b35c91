//! The agent's few words to whoever reads the console: into the kernel log, or on standard error outside a guest.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::OnceLock,
};

use rustix::fs::{Mode, OFlags};

static KERNEL_LOG: OnceLock<OwnedFd> = OnceLock::new();

/// Sends everything logged from now on to the kernel log. The descriptor survives the change of root.
pub(crate) fn use_kernel_log() {
    if let Ok(fd) = rustix::fs::open("/dev/kmsg", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        // A second call finds the log already in place, which is as good.
        let _ = KERNEL_LOG.set(fd);
    }
}

/// Logs one line. Failing to log is no reason to fail.
pub(crate) fn log(message: &str) {
    let line = format!("agentiso-guest: {message}\n");
    let _ = match KERNEL_LOG.get() {
        // An error: what is less does not reach the console.
        Some(fd) => rustix::io::write(fd.as_fd(), format!("<3>{line}").as_bytes()),
        None => rustix::io::write(rustix::stdio::stderr(), line.as_bytes()),
    };
}
