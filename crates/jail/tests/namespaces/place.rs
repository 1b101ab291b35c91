//! A directory for one test, and commands in sandboxes that show it.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process;
use std::thread::{self, JoinHandle};

use agentiso_jail::{
    Bind, Command, End, Environment, Exit, JailError, Launcher, Running, Session, Spec, Stdio,
};
use tempfile::TempDir;

/// Where a child finds the helper.
const HELPER: &str = "JAIL_TEST_HELPER";
/// The ordinary user.
pub const USER: u32 = 1234;

/// Declares a test that runs as the caller, and as an ordinary user.
macro_rules! as_everyone {
    ($(#[$attribute:meta])* fn $name:ident() $body:block) => {
        mod $name {
            #[allow(unused_imports, reason = "not every test uses everything")]
            use super::*;

            $(#[$attribute])*
            #[test]
            fn as_the_caller() $body

            #[test]
            fn as_an_ordinary_user() {
                crate::place::repeat_as_user(concat!(module_path!(), "::as_the_caller"));
            }
        }
    };
}

/// How a command ended and what it wrote.
#[derive(Debug)]
pub struct Output {
    pub exit: Exit,
    pub stdout: String,
    pub stderr: String,
}

/// A command that runs, and its streams.
pub struct Streams {
    pub running: Running,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

/// A directory with a workspace.
pub struct Place {
    dir: TempDir,
}

pub fn helper() -> PathBuf {
    std::env::var_os(HELPER).map_or_else(|| env!("CARGO_BIN_EXE_agentiso-jail").into(), PathBuf::from)
}

pub fn launcher() -> Launcher {
    Launcher::with_helper(helper())
}

pub fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script]).env(environment()).cwd("/workspace")
}

pub fn environment() -> Environment {
    Environment::standard(Spec::HOME, [("LANG", "C.UTF-8")])
}

impl Place {
    pub fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.workspace()).unwrap();
        place
    }

    /// Its real path.
    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn workspace(&self) -> PathBuf {
        self.path().join("workspace")
    }

    /// A directory in it.
    pub fn subdir(&self, name: &str) -> PathBuf {
        let dir = self.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// A sandbox with the workspace.
    pub fn spec(&self) -> Spec {
        Spec::new().mount(Bind::writable(self.workspace(), "/workspace"))
    }

    /// Runs a script in it.
    pub fn run(&self, script: &str) -> Output {
        run(&self.spec(), &sh(script))
    }
}

impl Output {
    /// What it wrote, if it succeeded.
    pub fn text(&self) -> &str {
        assert_eq!(self.exit.end, End::Code(0), "{self:?}");
        self.stdout.trim_end()
    }
}

impl Streams {
    pub fn finish(mut self) -> Output {
        let exit = self.running.wait().unwrap();
        Output { exit, stdout: self.stdout.join().unwrap(), stderr: self.stderr.join().unwrap() }
    }
}

pub fn run(spec: &Spec, command: &Command) -> Output {
    start(spec, command).unwrap().finish()
}

pub fn start(spec: &Spec, command: &Command) -> Result<Streams, JailError> {
    with_pipes(|stdio| launcher().run(spec, command, stdio))
}

pub fn exec(session: &Session, command: &Command) -> Output {
    with_pipes(|stdio| session.exec(command, stdio)).unwrap().finish()
}

pub fn with_pipes(start: impl FnOnce(Stdio) -> Result<Running, JailError>) -> Result<Streams, JailError> {
    let (out, stdout) = std::io::pipe().unwrap();
    let (err, stderr) = std::io::pipe().unwrap();
    let stdin = Stdio::null().unwrap().stdin;
    let running = start(Stdio { stdin, stdout: OwnedFd::from(stdout), stderr: OwnedFd::from(stderr) })?;
    Ok(Streams { running, stdout: collect(out.into()), stderr: collect(err.into()) })
}

fn collect(pipe: OwnedFd) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        fs::File::from(pipe).read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs another test of this program as an ordinary user. Needs root.
pub fn repeat_as_user(test: &str) {
    repeat(test, |command| {
        command.uid(USER).gid(USER);
    });
}

/// Runs another test of this program as a child that `change` has prepared.
pub fn repeat(test: &str, change: impl FnOnce(&mut process::Command)) {
    let test = test.split_once("::").unwrap().1;
    let (dir, program, helper) = copies();
    let mut command = process::Command::new(program);
    command
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(HELPER, helper)
        .env("TMPDIR", dir.path().join("tmp"));
    command.env_remove("NEXTEST").current_dir("/");
    change(&mut command);
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}\n{stderr}");
}

/// Copies of this program and of the helper that every user can execute, and a directory for temporary files.
fn copies() -> (TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let copy = |from: &Path, name: &str| {
        let to = dir.path().join(name);
        // Not by this process: a child that another thread starts meanwhile would inherit the open file, which then is busy.
        assert!(process::Command::new("cp").args([from, &to]).status().unwrap().success());
        allow(&to, 0o755);
        to
    };
    let program = copy(&std::env::current_exe().unwrap(), "test");
    let helper = copy(&helper(), "helper");
    allow(dir.path(), 0o755);
    fs::create_dir(dir.path().join("tmp")).unwrap();
    allow(&dir.path().join("tmp"), 0o1777);
    (dir, program, helper)
}

pub fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Processes of this machine whose arguments contain a text.
pub fn processes_with(text: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = process::id();
    let is_one = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        *pid != own && arguments.split(|byte| *byte == 0).any(|argument| argument == text.as_bytes())
    };
    pids.filter(is_one).collect()
}

/// Waits until a descriptor can be read.
pub fn wait_readable(fd: impl AsFd) {
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).unwrap();
}
