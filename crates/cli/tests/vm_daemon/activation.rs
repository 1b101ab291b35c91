//! Socket activation: a service manager listens and starts the daemon on demand.

use std::fs::{self, DirBuilder, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::http::Http;
use crate::place::{PATIENCE, Place, kill};

/// What systemd does for a socket unit, as far as the daemon can tell.
struct Manager<'a> {
    place: &'a Place,
    socket: UnixListener,
    notes: UnixDatagram,
    notes_at: PathBuf,
    // Socket paths must be short.
    _dir: tempfile::TempDir,
}

impl<'a> Manager<'a> {
    fn new(place: &'a Place) -> Self {
        let run_dir = place.path().join("run");
        DirBuilder::new().recursive(true).mode(0o700).create(&run_dir).unwrap();
        // A path through the open directory is never too long for the kernel.
        let open = File::open(&run_dir).unwrap();
        let socket = UnixListener::bind(format!("/proc/self/fd/{}/daemon.sock", open.as_raw_fd())).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let notes_at = dir.path().join("notify");
        let notes = UnixDatagram::bind(&notes_at).unwrap();
        notes.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { place, socket, notes, notes_at, _dir: dir }
    }

    /// Starts the daemon with the socket as descriptor 3.
    fn start(&self) -> Child {
        // Only the shell that becomes the daemon knows its process id.
        self.start_for("$$")
    }

    /// The same, with a socket that is meant for the process with this id.
    fn start_for(&self, pid: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("export LISTEN_PID={pid}; exec \"$@\" 3<&0 </dev/null"), "sh"]);
        command.args([env!("CARGO_BIN_EXE_agentiso"), "daemon", "run"]);
        command.env("AGENTISO_HOME", self.place.path()).env_remove("AGENTISO_CONFIG");
        command.env("LISTEN_FDS", "1").env("NOTIFY_SOCKET", &self.notes_at);
        command.stdin(Stdio::from(OwnedFd::from(self.socket.try_clone().unwrap())));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The daemon's next notification.
    fn hears(&self) -> String {
        let mut note = [0; 4096];
        let length = self.notes.recv(&mut note).expect("a note");
        String::from_utf8_lossy(&note[..length]).into_owned()
    }
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn a_socket_activated_daemon_serves_waiting_clients_and_keeps_the_socket() {
    let place = Place::new();
    let manager = Manager::new(&place);
    let path = place.path().join("run/daemon.sock");
    let bound = inode(&path);

    // A client connects before the daemon runs.
    let early = Http::at_socket(&place.path().join("run"));
    let waiting = std::thread::spawn({
        let early = early.clone();
        move || early.request("GET", "/healthz", None).status
    });
    let mut daemon = manager.start();
    assert_eq!(manager.hears(), "READY=1\n");
    assert_eq!(waiting.join().unwrap(), 200);
    assert_eq!(place.daemon(), Some(daemon.id()));
    // CLI commands find this daemon.
    assert_eq!(early.act("server_status", json!({}))["pid"], daemon.id());
    assert!(place.run(&["create", "--name", "web"]).contains("web"));

    // Only the daemon has the socket: a machine outlives it and must not inherit it.
    let listening = fs::read_link(format!("/proc/{}/fd/3", daemon.id())).unwrap();
    assert!(listening.to_string_lossy().starts_with("socket:"), "{listening:?}");
    let machine = place.machines();
    assert_eq!(machine.len(), 1);
    let open = fs::read_dir(format!("/proc/{}/fd", machine[0])).unwrap();
    let mut open = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    assert!(!open.any(|one| one == listening), "a machine has the daemon's socket");

    let told = Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap();
    assert!(told.success());
    assert_eq!(manager.hears(), "STOPPING=1\n");
    assert!(daemon.wait().unwrap().success());
    assert_eq!(inode(&path), bound, "the socket belongs to its manager");
    assert_eq!(place.machines(), machine);

    // The next daemon serves on it too, also after a crash.
    let mut second = manager.start();
    assert_eq!(manager.hears(), "READY=1\n");
    assert_eq!(early.sh("web", "hostname"), "web");
    kill(second.id());
    second.wait().unwrap();
    let mut third = manager.start();
    assert_eq!(manager.hears(), "READY=1\n");
    assert_eq!(early.sh("web", "hostname"), "web");
    assert_eq!(inode(&path), bound);
    place.run(&["daemon", "stop", "--machines"]);
    assert_eq!(manager.hears(), "STOPPING=1\n");
    assert!(third.wait().unwrap().success());
    assert!(place.machines().is_empty());
}

#[test]
fn a_socket_meant_for_another_process_is_not_used() {
    let place = Place::new();
    let manager = Manager::new(&place);
    let mut daemon = manager.start_for("1");
    assert_eq!(manager.hears(), "READY=1\n");
    assert_eq!(
        Http::at_socket(&place.path().join("run")).act("server_status", json!({}))["pid"],
        daemon.id()
    );
    manager.socket.set_nonblocking(true).unwrap();
    assert!(manager.socket.accept().is_err(), "it listens on its own socket");
    place.run(&["daemon", "stop"]);
    assert!(daemon.wait().unwrap().success());
}
