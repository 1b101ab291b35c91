//! Requests to systemd for scopes.
//!
//! They use the private socket that systemctl uses, which needs neither a message bus nor a library.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ConfineError;
use super::dbus::{PREFIX, Reply, Value, call, reply, rest_of};
use super::hierarchy::group_of;

/// How long systemd may take to answer, and to carry out a request.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The slice of all our scopes. An administrator can set limits on it for all machines together.
pub(super) const SLICE: &str = "agentiso.slice";

/// The systemd that manages our processes.
#[derive(Debug)]
pub(super) struct Manager {
    socket: PathBuf,
    /// The path of its cgroups, below the mount point.
    top: PathBuf,
}

impl Manager {
    /// The system manager for root, else the user's manager. `None` on a host without systemd.
    pub fn here(uid: u32) -> Option<Self> {
        Path::new("/run/systemd/system").is_dir().then(|| Self::of(uid))
    }

    fn of(uid: u32) -> Self {
        if uid == 0 {
            return Self { socket: "/run/systemd/private".into(), top: PathBuf::new() };
        }
        Self {
            socket: format!("/run/user/{uid}/systemd/private").into(),
            top: format!("user.slice/user-{uid}.slice/user@{uid}.service").into(),
        }
    }

    /// The path of a scope's cgroup, below the mount point.
    pub fn scope_dir(&self, scope: &str) -> PathBuf {
        self.top.join(SLICE).join(scope)
    }

    /// Creates a delegated scope around a process. Returns the path of its cgroup, below the mount point.
    pub fn start_scope(&self, scope: &str, pid: u32) -> Result<PathBuf, ConfineError> {
        let properties = vec![
            ("Description", Value::Text("Machines of agentiso".to_owned())),
            ("Slice", Value::Text(SLICE.to_owned())),
            ("Delegate", Value::Bool(true)),
            ("TasksMax", Value::Number(u64::MAX)),
            ("CollectMode", Value::Text("inactive-or-failed".to_owned())),
            ("PIDs", Value::Pids(vec![pid])),
        ];
        let arguments = [
            Value::Text(scope.to_owned()),
            Value::Text("fail".to_owned()),
            Value::Properties(properties),
            Value::NoUnits,
        ];
        self.ask("make a scope", "StartTransientUnit", &arguments)?;
        wait_until_in(pid, scope)
    }

    /// Moves a process into a cgroup inside a scope. A process outside of the user's own part of the hierarchy has no
    /// permission to do that itself.
    pub fn attach(&self, scope: &str, inner: &str, pid: u32) -> Result<(), ConfineError> {
        let arguments =
            [Value::Text(scope.to_owned()), Value::Text(format!("/{inner}")), Value::Pids(vec![pid])];
        self.ask("move a process into a scope", "AttachProcessesToUnit", &arguments)
    }

    fn ask(&self, doing: &'static str, method: &str, arguments: &[Value]) -> Result<(), ConfineError> {
        let unreachable = |cause| ConfineError::NoManager { socket: self.socket.clone(), cause };
        let stream = UnixStream::connect(&self.socket).map_err(unreachable)?;
        match converse(stream, &call(method, arguments)).map_err(ConfineError::io("talk to systemd"))? {
            Reply::Refused { name, message } => {
                let reason = if message.is_empty() { name.clone() } else { message };
                Err(ConfineError::Refused { doing, name, reason })
            }
            Reply::Done | Reply::Unrelated => Ok(()),
        }
    }
}

/// Authenticates, calls a method and waits for the answer.
fn converse(stream: UnixStream, call: &[u8]) -> io::Result<Reply> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let uid: String =
        rustix::process::geteuid().as_raw().to_string().bytes().map(|digit| format!("{digit:02x}")).collect();
    (&stream).write_all(format!("\0AUTH EXTERNAL {uid}\r\n").as_bytes())?;
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    reader.by_ref().take(1024).read_line(&mut line)?;
    if !line.starts_with("OK ") {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, line.trim().to_owned()));
    }
    (&stream).write_all(b"BEGIN\r\n")?;
    (&stream).write_all(call)?;
    loop {
        let mut prefix = [0; PREFIX];
        reader.read_exact(&mut prefix)?;
        let rest = rest_of(&prefix).ok_or_else(|| io::Error::other("its answer makes no sense"))?;
        let mut message = prefix.to_vec();
        message.resize(PREFIX + rest, 0);
        reader.read_exact(&mut message[PREFIX..])?;
        match reply(&message) {
            Reply::Unrelated => {}
            answer => return Ok(answer),
        }
    }
}

/// Waits until the scope exists: the answer only says that the job was queued.
fn wait_until_in(pid: u32, scope: &str) -> Result<PathBuf, ConfineError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let group = group_of(pid).map_err(ConfineError::io("look for the new scope"))?;
        if group.ends_with(scope) {
            return Ok(group);
        }
        if Instant::now() > deadline {
            let reason = format!("it was not done after {} s", PATIENCE.as_secs());
            return Err(ConfineError::Refused { doing: "make a scope", name: String::new(), reason });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn root_has_the_systemd_of_the_host_and_a_user_its_own() {
        assert_eq!(Manager::of(0).scope_dir("a.scope"), Path::new("agentiso.slice/a.scope"));
        let user = Manager::of(1000);
        assert_eq!(user.socket, Path::new("/run/user/1000/systemd/private"));
        let dir = "user.slice/user-1000.slice/user@1000.service/agentiso.slice/a.scope";
        assert_eq!(user.scope_dir("a.scope"), Path::new(dir));
    }

    /// A systemd that lets everyone in and says one thing.
    fn systemd(answer: Vec<u8>) -> (tempfile::TempDir, Manager) {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("private");
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            assert!(line.starts_with("\0AUTH EXTERNAL 3"), "{line:?}");
            stream.write_all(b"OK 00\r\n").unwrap();
            line.clear();
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, "BEGIN\r\n");
            let mut prefix = [0; PREFIX];
            reader.read_exact(&mut prefix).unwrap();
            let mut rest = vec![0; rest_of(&prefix).unwrap()];
            reader.read_exact(&mut rest).unwrap();
            stream.write_all(&answer).unwrap();
        });
        (dir, Manager { socket, top: PathBuf::new() })
    }

    fn message(kind: u8) -> Vec<u8> {
        vec![b'l', kind, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    }

    #[test]
    fn an_answer_is_waited_for_past_what_nobody_asked() {
        let (_dir, manager) = systemd([message(4), message(2)].concat());
        manager.attach("a.scope", "m", 1).unwrap();
    }

    #[test]
    fn a_refusal_and_a_systemd_that_hangs_up_are_errors() {
        let (_dir, manager) = systemd(message(3));
        assert!(matches!(manager.attach("a.scope", "m", 1), Err(ConfineError::Refused { .. })));
        let (_dir, manager) = systemd(Vec::new());
        assert!(matches!(manager.attach("a.scope", "m", 1), Err(ConfineError::Io { .. })));
    }

    #[test]
    fn a_user_without_a_systemd_is_told_so() {
        let manager = Manager { socket: "/nonexistent/private".into(), top: PathBuf::new() };
        let refused = manager.attach("a.scope", "m", 1).unwrap_err();
        assert!(matches!(refused, ConfineError::NoManager { .. }), "{refused}");
    }
}
