//! An installation of its own, and the program.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::schema::check;

/// The ordinary user.
const USER: u32 = 1234;

/// An installation of its own, and a directory to call the program from.
pub struct Place {
    home: TempDir,
    pub cwd: TempDir,
    /// A copy of the program for a user who may not see the original.
    program: Option<TempDir>,
}

/// How a call ended.
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap(), cwd: tempfile::tempdir().unwrap(), program: None }
    }

    /// The installation of an ordinary user, with one vault, called `work`. Needs root.
    pub fn of_an_ordinary_user() -> Self {
        let program = tempfile::tempdir().unwrap();
        std::fs::set_permissions(program.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        // Not by this process: a child that another thread starts meanwhile would inherit the open file.
        let copied = Command::new("cp").args([env!("CARGO_BIN_EXE_avfs").as_ref(), program.path()]).status();
        assert!(copied.unwrap().success());
        let place = Self { program: Some(program), ..Self::new() };
        for dir in [&place.home, &place.cwd] {
            std::os::unix::fs::chown(dir.path(), Some(USER), Some(USER)).unwrap();
        }
        place.json("vault_create", &["vault", "create", "work"]);
        place
    }

    /// An installation with one vault, called `work`.
    pub fn with_vault() -> Self {
        let place = Self::new();
        place.json("vault_create", &["vault", "create", "work"]);
        place
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The program with these arguments and a clean environment.
    pub fn command(&self, words: &[&str]) -> Command {
        let copy = self.program.as_ref().map(|program| program.path().join("avfs"));
        self.calling(copy.as_deref().unwrap_or(Path::new(env!("CARGO_BIN_EXE_avfs"))), words)
    }

    /// The same of the other program.
    pub fn agentiso(&self, words: &[&str]) -> Command {
        self.calling(Path::new(env!("CARGO_BIN_EXE_agentiso")), words)
    }

    fn calling(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        if self.program.is_some() {
            command.uid(USER).gid(USER);
        }
        command.args(words).env_clear().current_dir(self.cwd.path()).stdin(Stdio::null());
        command.env("AGENTISO_HOME", self.home.path()).env("HOME", "/home/caller");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    pub fn avfs(&self, words: &[&str]) -> Done {
        done(self.command(words).output().unwrap())
    }

    pub fn avfs_with_input(&self, words: &[&str], input: &[u8]) -> Done {
        let mut command = self.command(words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A call that needs no input may have ended.
        let _ = child.stdin.take().unwrap().write_all(input);
        done(child.wait_with_output().unwrap())
    }

    /// A call that succeeds and prints one JSON value of this schema.
    pub fn json(&self, schema: &str, words: &[&str]) -> Value {
        let done = self.avfs(&[&["--json"], words].concat());
        assert_eq!(done.code, 0, "{words:?}: {}{}", done.stdout, done.stderr);
        done.value(schema)
    }

    /// The same for the vault `work`.
    pub fn work(&self, schema: &str, words: &[&str]) -> Value {
        self.json(schema, &[&["--vault", "work"], words].concat())
    }

    /// A call that fails with this code. The error is JSON on standard output; returns its message.
    pub fn fails(&self, code: &str, words: &[&str]) -> String {
        let done = self.avfs(&[&["--json"], words].concat());
        assert_ne!(done.code, 0, "{words:?}: {}", done.stdout);
        let value = done.value("error");
        assert_eq!(value["error"]["code"], code, "{words:?}: {value}");
        value["error"]["message"].as_str().unwrap().to_owned()
    }

    /// Runs a command in the vault `work`; returns the exit code and the envelope.
    pub fn run(&self, words: &[&str]) -> (i32, Value) {
        self.run_in("work", words)
    }

    /// Runs a command in a vault; returns the exit code and the envelope.
    pub fn run_in(&self, vault: &str, words: &[&str]) -> (i32, Value) {
        let done = self.avfs(&[&["--json", "--vault", vault, "proxy", "exec"], words].concat());
        (done.code, done.value("proxy_exec_result"))
    }

    /// Runs a line of shell in the vault `work`, which must succeed; returns the result.
    pub fn line(&self, line: &str) -> Value {
        let (code, envelope) = self.run(&["--shell", line]);
        assert_eq!(code, 0, "{line}: {envelope}");
        envelope["result"].clone()
    }

    /// The text of a file of the vault `work`.
    pub fn cat(&self, path: &str) -> String {
        let done = self.avfs(&["--vault", "work", "cat", path]);
        assert_eq!(done.code, 0, "{path}: {}", done.stderr);
        done.stdout
    }

    pub fn write(&self, path: &str, content: &str) {
        self.work("write", &["write", "--parents", path, content]);
    }
}

impl Done {
    /// The one JSON value on standard output, which has this schema.
    pub fn value(&self, schema: &str) -> Value {
        let value: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {:?} {}", self.stdout, self.stderr));
        assert_eq!(self.stdout.trim_end().lines().count(), 1, "{}", self.stdout);
        check(schema, &value);
        value
    }
}

fn done(output: Output) -> Done {
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The texts of an array.
pub fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}
