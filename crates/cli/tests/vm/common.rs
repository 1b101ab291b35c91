//! Helpers for tests of the CLI on real machines.

use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};

use agentiso_testing::TestHome;

/// `agentiso` with the test's own home and none of the user's settings.
pub fn agentiso(home: &TestHome) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentiso"));
    // Whether a template is created first depends on earlier tests, and would be reported on standard error.
    command.arg("--quiet").env("AGENTISO_HOME", home.path());
    command.env_remove("AGENTISO_CONFIG").stdin(Stdio::null());
    command
}

/// Runs a command in a machine.
pub fn run(home: &TestHome, flags: &[&str], command: &[&str]) -> Output {
    agentiso(home).arg("run").args(flags).arg("--").args(command).output().expect("agentiso runs")
}

/// Runs a shell script in a machine.
pub fn sh(home: &TestHome, script: &str) -> Output {
    run(home, &[], &["sh", "-c", script])
}

/// The output without the final newline.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

/// A started `agentiso`, killed if the test fails.
pub struct Started(pub Child);

impl Started {
    /// Starts a script in a new machine and waits until it has printed the line `ready`.
    pub fn ready(home: &TestHome, script: &str) -> Self {
        let mut command = agentiso(home);
        command.args(["run", "--", "sh", "-c", script]);
        Self::until_ready(command)
    }

    /// Starts `agentiso` and waits until it has printed the line `ready`.
    pub fn until_ready(command: Command) -> Self {
        Self::until(command, "ready\n")
    }

    /// Starts `agentiso` and waits until it has printed this text.
    pub fn until(mut command: Command, printed: &str) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut started = Self(command.spawn().expect("agentiso runs"));
        started.wait_for(printed);
        started
    }

    /// Waits until this text was printed on standard output.
    pub fn wait_for(&mut self, printed: &str) {
        read_until(self.0.stdout.as_mut().expect("a pipe"), printed);
    }

    /// Waits until this text was printed on standard error.
    pub fn wait_for_complaint(&mut self, said: &str) {
        read_until(self.0.stderr.as_mut().expect("a pipe"), said);
    }

    /// Sends it a signal.
    pub fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs").success());
    }

    /// Waits for it to exit and returns its exit code and error output.
    pub fn finish(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.0.stderr.take().expect("a pipe").read_to_string(&mut said).expect("error output");
        let status = self.0.wait().expect("its end");
        (status.code(), said)
    }
}

fn read_until(stream: &mut impl Read, end: &str) {
    let (mut byte, mut read) = ([0], Vec::new());
    while !read.ends_with(end.as_bytes()) {
        assert_eq!(stream.read(&mut byte).expect("output"), 1, "ended early: {}", text(&read));
        read.push(byte[0]);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command in a machine with this standard input.
pub fn run_with_input(home: &TestHome, command: &[&str], input: &[u8]) -> Output {
    let mut agentiso = agentiso(home);
    agentiso.arg("run").arg("--").args(command);
    with_input(agentiso, input)
}

/// Runs `agentiso` with this standard input.
pub fn with_input(mut agentiso: Command, input: &[u8]) -> Output {
    agentiso.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = agentiso.spawn().expect("agentiso runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("output");
    writer.join().expect("no panic").expect("all input is accepted");
    output
}
