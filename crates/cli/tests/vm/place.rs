//! An installation with workspaces that leaves nothing behind.

use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use agentiso_testing::{TestHome, pace};
use serde_json::Value;

use crate::common::{agentiso, text};

/// How long the daemon may take to remove what it was working on.
const TIDYING: Duration = Duration::from_secs(60);

/// A test's own installation. On drop its workspaces are removed, nothing else may be left, and its daemon is stopped.
pub struct Place {
    home: TestHome,
}

impl Place {
    /// An installation without workspaces.
    pub fn new() -> Self {
        Self { home: TestHome::new() }
    }

    /// An installation without workspaces and with its own, empty set of images.
    pub fn without_images() -> Self {
        Self::sharing(&["kernel", "templates", "cache"])
    }

    /// An installation without workspaces that shares only some of what is prepared.
    pub fn sharing(shared: &[&str]) -> Self {
        Self { home: TestHome::sharing(shared) }
    }

    /// An installation with one running workspace.
    pub fn with(name: &str) -> Self {
        let place = Self::new();
        place.json(&["create", "--name", name]);
        place
    }

    /// Whether nothing of any workspace or machine is left.
    pub fn is_empty(&self) -> bool {
        self.left().is_empty() && self.machines().is_empty() && self.processes().is_empty()
    }

    /// `agentiso` with these arguments.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = agentiso(&self.home);
        command.args(words);
        command
    }

    /// Runs `agentiso` to completion.
    pub fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().expect("agentiso runs")
    }

    /// The output of a command that must succeed.
    pub fn text(&self, words: &[&str]) -> String {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The JSON output of a command that must succeed.
    pub fn json(&self, words: &[&str]) -> Value {
        let output = self.command(words).arg("--json").output().expect("agentiso runs");
        assert!(output.status.success(), "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("one object")
    }

    /// The error of a command that must fail.
    pub fn refused(&self, words: &[&str]) -> Refusal {
        // `--json` comes first, because a guest command may follow.
        let output = self.command(&["--json"]).args(words).output().expect("agentiso runs");
        assert!(!output.status.success(), "{words:?} succeeded: {}", text(&output.stdout));
        let object: Value = serde_json::from_slice(&output.stdout).expect("one object");
        let word = |key: &str| object["error"][key].as_str().unwrap_or_default().to_owned();
        Refusal { code: word("code"), said: format!("{} {}", word("message"), word("remedy")) }
    }

    /// The output of a script in a workspace, which must succeed.
    pub fn sh(&self, workspace: &str, script: &str) -> String {
        self.text(&["exec", workspace, "--", "sh", "-c", script])
    }

    /// The snapshots of a workspace.
    pub fn snapshots(&self, workspace: &str) -> Vec<Value> {
        self.json(&["snapshot", "ls", workspace])["snapshots"].as_array().expect("a list").clone()
    }

    /// The names of the workspaces.
    pub fn names(&self) -> Vec<String> {
        let list = self.json(&["ls"]);
        let name = |view: &Value| view["name"].as_str().expect("a name").to_owned();
        list["workspaces"].as_array().expect("a list").iter().map(name).collect()
    }

    /// Files and directories of workspaces.
    pub fn left(&self) -> Vec<PathBuf> {
        let dirs = ["disks", "memory", "workspaces", "bases"];
        let entries =
            dirs.iter().flat_map(|dir| std::fs::read_dir(self.path().join(dir)).into_iter().flatten());
        let paths = entries.map(|entry| entry.expect("an entry").path());
        // Files of the back end begin with a dot.
        paths.filter(|path| path.file_name().is_none_or(|name| name.as_encoded_bytes()[0] != b'.')).collect()
    }

    fn remove_all(&self) -> Output {
        let listed = self.command(&["ls", "--json"]).output().expect("agentiso runs");
        let list: Value = serde_json::from_slice(&listed.stdout).unwrap_or_default();
        let list = list["workspaces"].as_array();
        let names = list.into_iter().flatten().filter_map(|view| view["workspace_id"].as_str());
        let names: Vec<&str> = names.collect();
        if names.is_empty() {
            return listed;
        }
        self.command(&["rm", "--force"]).args(names).output().expect("agentiso runs")
    }

    /// The process id of the daemon, if one is running.
    pub fn daemon(&self) -> Option<u32> {
        let said = self.output(&["daemon", "status", "--json"]).stdout;
        let said: Value = serde_json::from_slice(&said).unwrap_or_default();
        said["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())
    }

    /// Stops the daemon and its machines, by force if necessary.
    fn end_daemon(&self) {
        let pid = self.daemon();
        let stopped = self.output(&["daemon", "stop", "--machines"]);
        if let Some(pid) = pid.filter(|_| !stopped.status.success()) {
            kill(pid);
        }
    }
}

impl Deref for Place {
    type Target = TestHome;

    fn deref(&self) -> &TestHome {
        &self.home
    }
}

fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

impl Drop for Place {
    fn drop(&mut self) {
        let removed = self.remove_all();
        // The daemon removes merged disks when it is done.
        let deadline = Instant::now() + TIDYING;
        // The same applies to machines that create templates.
        let busy = || !self.left().is_empty() || !self.processes().is_empty();
        while !std::thread::panicking() && busy() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        let (left, processes) = (self.left(), self.processes());
        self.end_daemon();
        self.processes().into_iter().for_each(kill);
        if !std::thread::panicking() {
            assert!(removed.status.success(), "{}", text(&removed.stderr));
            assert!(left.is_empty() && processes.is_empty(), "left behind: {left:?}, {processes:?}");
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub struct Refusal {
    /// The stable error code.
    pub code: String,
    /// Message and remedy.
    pub said: String,
}

impl Refusal {
    /// Asserts the code, and that the message or remedy contains these words.
    pub fn is(&self, code: &str, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.said);
        for word in words {
            assert!(self.said.contains(word), "{word:?} is not in: {}", self.said);
        }
    }
}

/// A process in a workspace that counts into a file it holds open, with a word after every number.
pub struct Counter<'a> {
    place: &'a Place,
    workspace: String,
}

impl<'a> Counter<'a> {
    /// Starts a counter with the word `first`.
    pub fn start(place: &'a Place, workspace: &str) -> Self {
        let script = "open C, q(>), q(/root/count); while (open W, q(<), q(/run/word)) \
                      { syswrite C, ++$i . q( ) . <W>; select undef, undef, undef, $ARGV[0] }";
        let start = format!(
            "echo first > /run/word; setsid perl -e '{script}' {} </dev/null >/dev/null 2>&1 & echo $! > /root/counter",
            pace()
        );
        place.sh(workspace, &start);
        let counter = Self { place, workspace: workspace.to_owned() };
        counter.beyond(0);
        counter
    }

    /// Its copy in a fork.
    pub fn in_fork(&self, fork: &str) -> Self {
        Self { place: self.place, workspace: fork.to_owned() }
    }

    /// Changes its word, and waits until it has used it.
    pub fn say(&self, word: &str) {
        let said = until(&format!("[[ \"${{lines[*]}}\" == *\" {word}\"* ]]"), ":");
        self.place.sh(&self.workspace, &format!("echo {word} > /run/new; mv /run/new /run/word; {said}"));
    }

    /// All words it has used.
    pub fn words(&self) -> String {
        self.place
            .sh(&self.workspace, "cut -d' ' -f2 /root/count | sort -u | tr '\\n' ' '")
            .trim_end()
            .to_owned()
    }

    /// Waits until it has counted beyond `least`, and returns the current number.
    pub fn beyond(&self, least: u64) -> u64 {
        let last = "${lines[-1]%% *}";
        let script = until(&format!("[ \"{last}\" -gt {least} ]"), &format!("echo {last}"));
        let said = self.place.sh(&self.workspace, &script);
        said.parse().unwrap_or_else(|_| panic!("not a number: {said:?}"))
    }

    /// Its process id, if it is still the one that was started.
    pub fn pid(&self) -> String {
        self.place.sh(&self.workspace, "kill -0 $(cat /root/counter) && cat /root/counter")
    }

    /// Asserts that no number is missing or repeated.
    pub fn is_gapless(&self) {
        self.place.sh(&self.workspace, "awk '$1 != NR { print NR, $1; exit 1 }' /root/count >&2");
    }
}

/// A script that waits, up to a limit, until a condition holds for the counted lines, and then runs a command. It
/// starts no processes, which would slow down the counter.
fn until(condition: &str, then: &str) -> String {
    let look = "mapfile -t lines < /root/count";
    let pause = format!("read -t {} -u 4", pace());
    let wait = format!("exec 4<> <(:); until {look} && {condition}; do {pause}; done 2>/dev/null; {then}");
    format!("timeout 600 bash -c '{wait}'")
}
