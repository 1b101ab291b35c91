//! The way out: `pasta` connects the namespace with sockets of the host, and is started again when it ends.

use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::Ipv4Net;

use super::rules::UPLINK;
use super::state::Shared;

/// The program.
pub(super) const PROGRAM: &str = "pasta";
/// The addresses of the link to the host's network: documentation addresses, which no guest can reach.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Where the namespace is mounted for it.
const PLACE: &str = "/mnt/namespace";
/// How long it may take until its link is there, and until it is started again.
const START: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);

/// `pasta`, kept running until this is dropped.
#[derive(Debug)]
pub(super) struct Uplink {
    stop: Arc<AtomicBool>,
    child: Arc<Mutex<Option<u32>>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Uplink {
    /// Starts `pasta` and its supervisor. A host without a network has no uplink until it has one.
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let child = Arc::new(Mutex::new(None));
        let (weak, stopped, running) = (Arc::downgrade(shared), Arc::clone(&stop), Arc::clone(&child));
        // The thread lives as long as the router: `pasta` ends with the thread that started it.
        let supervise = move || supervise(&weak, &stopped, &running);
        let thread = thread::Builder::new().name("uplink".to_owned()).spawn(supervise)?;
        Ok(Self { stop, child, thread: Some(thread) })
    }

    /// The process, if it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        *self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(pid) = self.pid().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "runs in a thread of its own")]
fn supervise(shared: &Weak<Shared>, stop: &AtomicBool, running: &Mutex<Option<u32>>) {
    let mut pause = PAUSE;
    while !stop.load(Relaxed) {
        let Some(namespace) = shared.upgrade().map(|shared| shared.namespace.path()) else { return };
        match spawn(&namespace) {
            Ok(mut child) => {
                *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id());
                match configure(shared, &mut child) {
                    Ok(()) => pause = PAUSE,
                    Err(error) => tracing::debug!(%error, "the uplink is not there"),
                }
                let ended = child.wait();
                *running.lock().unwrap_or_else(PoisonError::into_inner) = None;
                if !stop.load(Relaxed) {
                    tracing::warn!(?ended, "the uplink has ended and is started again");
                }
            }
            Err(error) => tracing::warn!(%error, "the uplink cannot be started"),
        }
        if !stop.load(Relaxed) {
            thread::park_timeout(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "runs in a thread of its own")]
fn spawn(namespace: &Path) -> io::Result<Child> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "unshare", "--mount", "--propagation", "private", "sh", "-c"]);
    // `pasta` has given up the right to open the namespace of another process by the time it does, so the namespace
    // is mounted on a file, which only this process sees.
    command
        .arg(format!("mount -t tmpfs none /mnt && : >{PLACE} && mount --bind \"$0\" {PLACE} && exec \"$@\""));
    command.arg(namespace);
    command.args([PROGRAM, "--foreground", "--quiet", "--netns-only", "--netns", PLACE]);
    command.args(["--runas", "0", "--ns-ifname", UPLINK, "--ipv4-only", "--no-map-gw"]);
    command.args(["--address", &ADDRESS.to_string(), "--netmask", "24", "--gateway", &PEER.to_string()]);
    // No port leads in, and none of the namespace leads to the host's loopback.
    command.args(["-t", "none", "-u", "none", "-T", "none", "-U", "none"]);
    command.args(["--no-dhcp", "--no-dhcpv6", "--no-ndp", "--no-ra"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn()
}

/// Gives the link its address and the default route, as soon as it is there.
fn configure(shared: &Weak<Shared>, child: &mut Child) -> io::Result<()> {
    let deadline = Instant::now() + START;
    loop {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        if shared.links(|links| links.find(UPLINK))?.is_some() {
            return shared.links(|links| {
                links.add_address(UPLINK, ADDRESS, 24)?;
                links.set_up(UPLINK)?;
                links.route(Ipv4Net::from(PEER), UPLINK, None)?;
                links.route(Ipv4Net::default(), UPLINK, Some(PEER))
            });
        }
        if child.try_wait()?.is_some() || Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        drop(shared);
        thread::park_timeout(LOOK);
    }
}
