//! An installation with a daemon that leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentiso_testing::TestHome;

use crate::http::Http;
use crate::mcp::Mcp;

/// Nothing takes this long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A test's own installation. On drop its daemon and machines are stopped.
pub struct Place {
    home: TestHome,
}

impl Place {
    /// An installation as after `agentiso init`.
    pub fn new() -> Self {
        Self::configured("")
    }

    /// The same with this configuration.
    pub fn configured(text: &str) -> Self {
        let home = TestHome::new();
        home.configure(text);
        Self { home }
    }

    /// The same with this configuration and its own, empty set of images.
    pub fn without_images(text: &str) -> Self {
        let home = TestHome::sharing(&["kernel", "templates", "cache"]);
        home.configure(text);
        Self { home }
    }

    /// Replaces the configuration, for the next daemon.
    pub fn configure(&self, text: &str) {
        self.home.configure(text);
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// The process ids of its QEMUs.
    pub fn machines(&self) -> Vec<u32> {
        self.home.processes()
    }

    /// `agentiso` with these arguments.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentiso"));
        command.arg("--quiet").args(words).env("AGENTISO_HOME", self.path());
        command.env_remove("AGENTISO_CONFIG").stdin(Stdio::null());
        command
    }

    /// The output of a command that must succeed.
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().expect("agentiso runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// An MCP client of `agentiso serve`.
    pub fn mcp(&self, flags: &[&str]) -> Mcp {
        Mcp::begin(self.command(&[&["serve"], flags].concat()))
    }

    /// The user, over the socket. The daemon is running when this returns.
    pub fn http(&self) -> Http {
        self.run(&["daemon", "start"]);
        Http::at_socket(&self.path().join("run"))
    }

    /// A session of an agent, over the socket.
    pub fn session(&self, name: &str) -> Http {
        self.http().begin_session(name)
    }

    /// The process id of the daemon, if one is running.
    pub fn daemon(&self) -> Option<u32> {
        let pid = fs::read_to_string(self.path().join("daemon.lock")).ok()?.trim().parse().ok()?;
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let ours = format!("AGENTISO_HOME={}", self.path().display());
        let is_ours = environment.split(|&byte| byte == 0).any(|word| word == ours.as_bytes());
        (is_ours && !is_gone(pid)).then_some(pid)
    }

    /// Kills the daemon.
    pub fn kill_daemon(&self) {
        kill(self.daemon().expect("a daemon"));
    }

    /// The content of the daemon's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("daemon.log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let stopped = self.command(&["daemon", "stop", "--machines"]).output();
        let left: Vec<u32> = self.daemon().into_iter().chain(self.machines()).collect();
        for &pid in &left {
            kill(pid);
        }
        if std::thread::panicking() {
            // Print the log of a failed test to standard error.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), self.log().as_bytes());
        } else {
            let stopped = stopped.expect("agentiso runs");
            assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
            assert!(left.is_empty(), "left behind: {left:?}");
            assert!(!self.log().contains("panicked"), "{}", self.log());
        }
    }
}

/// Kills a process and waits until it has exited.
pub fn kill(pid: u32) {
    let status = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
    status.expect("kill runs");
    until(|| is_gone(pid));
}

/// Waits, up to a limit, until a condition is true.
pub fn until(condition: impl FnMut() -> bool) {
    let mut condition = condition;
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "waited too long");
        std::thread::yield_now();
    }
}

/// Whether a process has exited, reaped or not. Its files stay open until its last thread has exited.
fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let ended = stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']));
    ended && fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) <= 1
}
