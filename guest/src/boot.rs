//! The first process of the guest: from the kernel's hands to the first answer.

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

/// Runs as PID 1 and never returns: mounts, loads drivers, then serves the host while it reaps orphans.
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
        log(&format!("cannot raise the limit of open files: {errno}"));
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
        // It may be there already; if it cannot be made, the mount says so.
        let _ = rustix::fs::mkdir(target, Mode::from_raw_mode(0o755));
        match mount(fstype, target, fstype, flags, data) {
            // The kernel may have mounted the devices itself.
            Ok(()) | Err(Errno::BUSY) => {}
            Err(errno) => log(&format!("cannot mount {target}: {errno}")),
        }
    }
}

/// The list is in the order in which the modules need each other.
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
    log("no way to the host; switching off");
    power::halt();
}

/// Serves the host on the port of our name; if the port goes away, on the next one.
fn serve_port(agent: &Arc<Agent>) {
    while let Some(port) = ports::find(PORT_NAME, OFlags::empty()) {
        session::serve(agent, &Arc::new(Link::new(port, Transport::Port)));
        log("the port to the host is gone; looking for another");
    }
}
