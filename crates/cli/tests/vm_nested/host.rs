//! An installation on a host that a test can modify. Leaves nothing behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use agentiso_testing::TestHome;
use serde_json::Value;

use crate::user::User;

/// Nothing takes this long unless it hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// A test's own installation.
pub struct Host {
    home: TestHome,
    /// The command that runs agentiso.
    wrapper: Vec<String>,
}

/// The error of a failed command.
#[derive(Debug)]
pub struct Refusal {
    pub code: String,
    pub message: String,
    pub remedy: String,
}

impl Host {
    /// With these `[vm]` settings and further configuration.
    pub fn new(vm: &str, rest: &str) -> Self {
        let home = TestHome::new();
        configure(&home, vm, rest);
        Self { home, wrapper: Vec::new() }
    }

    /// Of an ordinary user, who shares nothing with others.
    pub fn of_user(user: &User, rest: &str) -> Self {
        let home = TestHome::sharing(&[]);
        configure(&home, "", rest);
        user.is_given(home.path());
        Self { home, wrapper: user.wrapper() }
    }

    /// The same without cgroup v2 for everything that is started from now on.
    pub fn without_groups(self) -> Self {
        self.behind("umount /sys/fs/cgroup")
    }

    /// The same without systemd.
    pub fn without_systemd(self) -> Self {
        self.behind("mount -t tmpfs none /run/systemd")
    }

    /// The same with another CPU model.
    pub fn on_another_processor(self) -> Self {
        let here = fs::read_to_string("/proc/cpuinfo").expect("what processor this is");
        let file = self.path().join("cpuinfo");
        fs::write(&file, here.replace("model name\t: ", "model name\t: Another ")).expect("a file");
        let bind = format!("mount --bind {} /proc/cpuinfo", file.display());
        self.behind(&bind)
    }

    fn behind(mut self, change: &str) -> Self {
        self.run(&["daemon", "stop"]);
        let script = format!("{change} && exec \"$@\"");
        self.wrapper = ["unshare", "-m", "sh", "-c", &script, "sh"].map(str::to_owned).to_vec();
        self
    }

    /// Reverts all modifications.
    pub fn with_all_again(mut self) -> Self {
        self.run(&["daemon", "stop"]);
        self.wrapper.clear();
        self
    }

    pub fn path(&self) -> &Path {
        self.home.path()
    }

    /// The command line of a workspace's QEMU.
    pub fn command_line(&self, name: &str) -> String {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid(name))).expect("it runs");
        String::from_utf8_lossy(&line).replace('\0', " ")
    }

    fn output(&self, words: &[&str]) -> Output {
        let mut line = self.wrapper.clone();
        line.push(env!("CARGO_BIN_EXE_agentiso").to_owned());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).args(["--quiet", "--json"]).args(words);
        command.env("AGENTISO_HOME", self.path()).env_remove("AGENTISO_CONFIG").stdin(Stdio::null());
        command.output().expect("agentiso runs")
    }

    /// The output of a command that must succeed.
    pub fn run(&self, words: &[&str]) -> Value {
        let output = self.output(words);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    }

    /// The error of a command that must fail.
    pub fn refusal(&self, words: &[&str]) -> Refusal {
        let output = self.output(words);
        assert!(!output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let error = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).next_back();
        let error = error.map(|value| value["error"].clone()).unwrap_or_default();
        let text = |key: &str| error[key].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
        let remedy = error["remedy"].as_str().unwrap_or_default().to_owned();
        Refusal { code: text("code"), message: text("message"), remedy }
    }

    pub fn create(&self, name: &str) {
        self.run(&["create", "--name", name]);
    }

    /// The output of a script in a workspace, which must succeed.
    pub fn sh(&self, workspace: &str, script: &str) -> String {
        let done = self.run(&["exec", workspace, "--", "sh", "-c", script]);
        done["stdout"].as_str().expect("what it printed").trim_end().to_owned()
    }

    pub fn info(&self, name: &str) -> Value {
        self.run(&["info", name])
    }

    /// QEMU's process id.
    pub fn pid(&self, name: &str) -> u32 {
        self.info(name)["pid"].as_u64().expect("it runs") as u32
    }

    /// The cgroup of a workspace's machine.
    pub fn group(&self, name: &str) -> PathBuf {
        group_of(self.pid(name))
    }

    /// The content of the daemon's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.path().join("daemon.log")).unwrap_or_default()
    }

    /// The process ids of its QEMUs.
    pub fn machines(&self) -> Vec<u32> {
        self.home.processes()
    }

    /// The finding of this name in `agentiso check`.
    pub fn finding(&self, name: &str) -> Value {
        let output = self.output(&["check"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
        let findings = report["findings"].as_array().expect("findings");
        findings.iter().find(|finding| finding["name"] == name).expect("the finding").clone()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // End what a failed test left, so that the next one starts on a quiet host.
        let _ = self.output(&["daemon", "stop", "--machines"]);
        for pid in self.machines() {
            kill(pid);
        }
    }
}

fn configure(home: &TestHome, vm: &str, rest: &str) {
    home.configure(&format!("[defaults]\nmemory_mb = 256\n[vm]\nboot_timeout_secs = 600\n{vm}\n{rest}\n"));
}

/// The cgroup of a process.
pub fn group_of(pid: u32) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("the process is there");
    let group = text.lines().find_map(|line| line.strip_prefix("0::/")).expect("cgroup v2");
    Path::new("/sys/fs/cgroup").join(group)
}

/// The content of a file of a cgroup.
pub fn read(group: &Path, file: &str) -> String {
    fs::read_to_string(group.join(file)).expect("a file of the group").trim().to_owned()
}

/// Sets the memory limit of a machine slightly above its usage: with less it would be killed immediately. Returns the
/// new limit in MiB.
pub fn leave_little_memory(group: &Path) -> u64 {
    let taken: u64 = read(group, "memory.current").parse().expect("a number");
    let limit = (taken >> 20) + 8;
    fs::write(group.join("memory.max"), (limit << 20).to_string()).expect("a limit");
    limit
}

/// Kills a process.
pub fn kill(pid: u32) {
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
}

/// Waits, up to a limit, for an expected event.
pub fn until(what: &str, mut come: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !come() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
