//! PID 1: mounts the kernel file systems, loads drivers, and serves the host.

use std::{fs, sync::Arc, thread};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
    mount::{MountFlags, mount},
    process::{Resource, Rlimit},
};

use crate::{
    agent::Agent,
    link::{Link, Transport},
    log::{log, use_kernel_log},
    network, ports, power, reaper, serve, session, vsock,
};

const PORT_NAME: &str = "agentiso";
const MODULES: &str = "/modules.list";
const OPEN_FILES: u64 = 65_536;

/// Runs as PID 1 and never returns: mounts, loads drivers, then serves the host and reaps orphans.
pub fn run_as_init() -> ! {
    serve::prepare_process();
    raise_open_files();
    mount_kernel_file_systems();
    use_kernel_log();
    load_modules();
    if let Err(error) = network::bring_up_loopback() {
        log(&error.message);
    }
    let serving = thread::Builder::new().name("link".to_owned()).spawn(serve_host);
    if let Err(error) = serving {
        log(&format!("cannot start the link thread: {error}"));
        power::halt();
    }
    reaper::reap_for_ever()
}

fn raise_open_files() {
    let limit = Rlimit { current: Some(OPEN_FILES), maximum: Some(OPEN_FILES) };
    if let Err(errno) = rustix::process::setrlimit(Resource::Nofile, limit) {
        log(&format!("cannot raise the limit on open files: {errno}"));
    }
}

fn mount_kernel_file_systems() {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let temporary = MountFlags::NOSUID | MountFlags::NODEV;
    let devices = MountFlags::NOSUID;
    let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
    let table = [
        ("proc", "/proc", quiet, None),
        ("sysfs", "/sys", quiet, None),
        ("devtmpfs", "/dev", devices, None),
        ("devpts", "/dev/pts", terminals, Some(c"gid=5,mode=620,ptmxmode=666")),
        ("tmpfs", "/tmp", temporary, Some(c"mode=1777")),
        ("tmpfs", "/run", temporary, Some(c"mode=755")),
    ];
    for (fstype, target, flags, data) in table {
        // It may already exist. If it cannot be created, the mount reports it.
        let _ = rustix::fs::mkdir(target, Mode::from_raw_mode(0o755));
        match mount(fstype, target, fstype, flags, data) {
            // The kernel may already have mounted /dev.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(errno) => log(&format!("cannot mount {target}: {errno}")),
        }
    }
}

/// Loads the modules in the order of the list, which respects their dependencies.
fn load_modules() {
    for path in fs::read_to_string(MODULES).unwrap_or_default().lines().filter(|line| !line.is_empty()) {
        let loaded = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|file| rustix::system::finit_module(file, c"", 0));
        match loaded {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => log(&format!("cannot load {path}: {errno}")),
        }
    }
}

fn serve_host() {
    let agent = Arc::new(Agent::of_machine());
    if power::kernel_option("agentiso.link").as_deref() == Some("vsock") {
        vsock::serve(&agent);
    } else {
        serve_port(&agent);
    }
    log("no transport to the host; powering off");
    power::halt();
}

/// Serves the host on the virtio port; reopens the port if it disappears.
fn serve_port(agent: &Arc<Agent>) {
    while let Some(port) = ports::find(PORT_NAME, OFlags::empty()) {
        session::serve(agent, &Arc::new(Link::new(port, Transport::Port)));
        log("the virtio port disappeared; looking for it again");
    }
}
