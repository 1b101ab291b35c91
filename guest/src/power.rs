//! Powers the machine off.

use std::{
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    mount::MountFlags,
    process::{Pid, Signal},
    system::RebootCommand,
};

use crate::{agent::Agent, hold, kill, log::log, sync::locked};

/// How long processes may take to exit after SIGTERM, and again after SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Ends all processes, makes the root clean and powers off.
pub(crate) fn off(agent: &Agent) {
    hold::end_forgotten(agent);
    end_processes();
    rustix::fs::sync();
    let mount_point = agent.machine().ok().and_then(|machine| locked(&machine.root).mount_point());
    if let Some(path) = mount_point
        && let Err(errno) = release_disk(path)
    {
        log(&format!("the root could not be made read-only, only synced: {errno}"));
    }
    halt()
}

/// Powers off immediately.
pub(crate) fn halt() {
    let command = if kernel_option("agentiso.poweroff") == Some("acpi".to_owned()) {
        RebootCommand::PowerOff
    } else {
        // A microvm has no power-off device, but QEMU exits when the machine resets (-no-reboot).
        RebootCommand::Restart
    };
    if let Err(errno) = rustix::system::reboot(command) {
        log(&format!("cannot power off: {errno}"));
    }
}

/// The value of an option on the kernel command line.
pub(crate) fn kernel_option(name: &str) -> Option<String> {
    let line = std::fs::read_to_string("/proc/cmdline").ok()?;
    let mut words = line.split_ascii_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

fn end_processes() {
    signal_all(Signal::TERM);
    if !wait_until_gone() {
        signal_all(Signal::KILL);
        if !wait_until_gone() {
            log("some processes did not exit after SIGKILL");
        }
    }
}

/// PID -1 addresses every process except PID 1 itself.
fn signal_all(signal: Signal) {
    // SAFETY: sends a signal and accesses no memory.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

fn wait_until_gone() -> bool {
    let deadline = Instant::now() + GRACE;
    loop {
        let myself = Pid::INIT.as_raw_nonzero().get();
        let alive = kill::processes()
            .iter()
            .any(|process| process.pid != myself && !process.is_dead && !process.is_kernel);
        if !alive || Instant::now() >= deadline {
            return !alive;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Remounts the file system read-only, which makes it clean. Fails with EBUSY while a file is open for writing.
fn release_disk(mount_point: &str) -> rustix::io::Result<()> {
    let deadline = Instant::now() + GRACE;
    loop {
        match rustix::mount::mount_remount(mount_point, MountFlags::RDONLY, c"") {
            Err(Errno::BUSY) if Instant::now() < deadline => thread::sleep(LOOK_AGAIN),
            result => return result,
        }
    }
}
