//! Runs `agentiso`, and kills something while it runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::strike::{Strike, kill};

/// How long any command may take on a busy host. Longer means a hang.
const LIMIT: Duration = Duration::from_secs(90);
/// Poll interval for a running command.
const TICK: Duration = Duration::from_millis(1);

/// `agentiso` with a home.
pub struct Agentiso {
    home: PathBuf,
}

/// The result of a command.
#[derive(Debug)]
pub struct Answer {
    /// Its output, if it is complete JSON.
    pub printed: Option<Value>,
    /// Its error output.
    pub said: String,
    /// How long it ran.
    pub took: Duration,
}

impl Answer {
    /// Whether it reported success.
    pub fn is_given(&self) -> bool {
        self.printed.as_ref().is_some_and(|printed| printed.get("error").is_none())
    }

    /// The error code it reported.
    pub fn error_code(&self) -> Option<&str> {
        self.printed.as_ref()?.get("error")?.get("code")?.as_str()
    }
}

impl Agentiso {
    pub fn new(home: &Path) -> Self {
        Self { home: home.to_owned() }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Runs a command that must succeed.
    pub fn must(&self, words: &[&str]) -> Value {
        let answer = self.run(words, &mut Strike::none());
        assert!(answer.is_given(), "agentiso {}: {:?} {}", words.join(" "), answer.printed, answer.said);
        answer.printed.unwrap()
    }

    /// The process id of the daemon, which is started if necessary.
    fn daemon(&self) -> Option<u32> {
        self.run(&["daemon", "start"], &mut Strike::none());
        self.running_daemon()
    }

    /// The process id of the daemon, if one is running.
    pub fn running_daemon(&self) -> Option<u32> {
        let status = self.run(&["daemon", "status"], &mut Strike::none()).printed?;
        u32::try_from(status["pid"].as_u64()?).ok()
    }

    /// Runs a command and strikes meanwhile.
    pub fn run(&self, words: &[&str], strike: &mut Strike) -> Answer {
        let (out, err) = (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let file = |named: &tempfile::NamedTempFile| -> File { named.reopen().unwrap() };
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentiso"));
        command.args(["--json", "--quiet"]).args(words);
        command.env("AGENTISO_HOME", &self.home).env_remove("AGENTISO_CONFIG");
        command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
        let daemon = if strike.hits_daemon() { self.daemon() } else { None };
        let began = Instant::now();
        let mut child = command.spawn().expect("agentiso runs");
        let mut ended = wait(&mut child, began + strike.after);
        if !strike.machine_first {
            daemon.into_iter().for_each(kill);
        }
        if let Some(qemu) = strike.choose_machine(&self.home) {
            kill(qemu);
        }
        if strike.machine_first {
            daemon.into_iter().for_each(kill);
        }
        if !ended {
            ended = wait(&mut child, began + LIMIT);
        }
        if !ended {
            let _ = child.kill();
            let _ = child.wait();
            let said = std::fs::read_to_string(err.path()).unwrap_or_default();
            panic!("agentiso {} does not exit: {said}", words.join(" "));
        }
        let printed = std::fs::read(out.path()).unwrap_or_default();
        Answer {
            printed: serde_json::from_slice(&printed).ok(),
            said: std::fs::read_to_string(err.path()).unwrap_or_default(),
            took: began.elapsed(),
        }
    }
}

/// Waits for a command to exit, up to a deadline. Returns whether it has exited.
fn wait(child: &mut Child, until: Instant) -> bool {
    loop {
        if child.try_wait().expect("a child of ours").is_some() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(TICK);
    }
}
