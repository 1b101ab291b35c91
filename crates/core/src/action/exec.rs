//! Commands: run and waited for, or left running.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::workspace::of_one;

/// What is said where a command may meet what only bash knows.
const SH: &str = "run by /bin/sh: this image has no bash";

/// Runs a command and waits for its end.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exec {
    /// Id or name.
    pub workspace_id: String,
    /// The command line, at most 2 MiB, for `/bin/bash -c` (`/bin/sh -c` without bash).
    pub command: String,
    /// Seconds after which it is ended with all it started; 120 if absent, at most 86400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
    /// Working directory; the image's, else the user's home, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Variables on top of those of set_env.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// User it runs as, a name or `UID[:GID]`; the image's, else root, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it reads from its standard input; nothing if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Most bytes of output returned, stdout and stderr together: 30000 for MCP tools, else 1048576, if absent; at most
    /// 8388608.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Seconds after which it continues as a background job; 0 for never. If absent, 45 for MCP clients that ask for no
    /// progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background_after_secs: Option<u64>,
    /// A job that exec returned: waits for it again, and does not run the command a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u32>,
}
action!(Exec -> Executed, "exec", "Run a command", Destroys, Exec;
    "Runs a shell command and waits for its end. A non-zero exit code is an ordinary result. After timeout_secs (120) \
     it is ended with everything it started. Of long output the beginning and the end are returned, and the path of a \
     file in the workspace with all of it (16 MiB per stream). For servers and long work use exec_background.");

/// How a command ended.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Executed {
    /// Its exit code; 128 + signal if a signal ended it, null if its time was up.
    pub exit_code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it printed as errors.
    pub stderr: String,
    /// Whether its time was up.
    pub timed_out: bool,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How long it ran.
    pub duration_ms: u64,
    /// Bytes it printed in all.
    pub stdout_bytes: u64,
    /// Bytes it printed as errors in all.
    pub stderr_bytes: u64,
    /// Whether some of what it printed is left out.
    pub truncated: bool,
    /// Set if it still runs, as this background job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u32>,
    /// The shell that ran it: `/bin/bash`, or `/bin/sh` in an image without bash.
    #[serde(default)]
    pub shell: String,
    /// File of the workspace with all of its output, if that was too long for the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_file: Option<String>,
    /// The same for what it printed as errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_file: Option<String>,
    /// What to try instead, if the cause of a failure is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Outcome for Executed {
    fn text(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            text.push_str(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
            text.push_str("--- stderr ---\n");
            text.push_str(&self.stderr);
        }
        let end = match (self.timed_out, self.exit_code) {
            _ if self.job_id.is_some() => self.still_running(),
            (true, _) => format!(
                "timed out after {} ms; raise timeout_secs, or run it with exec_background",
                self.duration_ms
            ),
            (false, Some(code)) => format!("exit code {code}"),
            (false, None) => "ended".to_owned(),
        };
        let end = match self.shell.as_str() {
            "/bin/sh" => format!("[{end}; {SH}]"),
            _ => format!("[{end}]"),
        };
        text.push_str(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
        text.push_str(&end);
        if self.truncated {
            let files: Vec<&str> =
                [&self.stdout_file, &self.stderr_file].into_iter().flatten().map(String::as_str).collect();
            let all = self.stdout_bytes + self.stderr_bytes;
            text.push_str(&match files.is_empty() {
                true => format!("\n[{all} bytes of output; raise max_output_bytes to see more]"),
                false => format!(
                    "\n[{all} bytes of output, all in {}: read a part of it with file_read or grep, or raise \
                     max_output_bytes]",
                    files.join(" and ")
                ),
            });
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n[hint: {hint}]"));
        }
        text
    }
}

impl Executed {
    fn still_running(&self) -> String {
        let id = self.job_id.unwrap_or_default();
        format!(
            "still running after {} s, now as background job {id}; call exec again with job_id {id} to wait for it",
            self.duration_ms / 1000
        )
    }
}

/// Starts a command and leaves it running.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobStart {
    /// Id or name.
    pub workspace_id: String,
    /// The command line, at most 2 MiB. Run by `/bin/bash -c`, or by `/bin/sh -c` in an image without bash.
    pub command: String,
    /// Working directory; the image's, else the user's home, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// Variables on top of those of set_env.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// User it runs as, a name or `UID[:GID]`; the image's, else root, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Keeps its standard input open for exec_write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin: bool,
    /// Seconds after which it is ended with all it started; never if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}
action!(JobStart -> JobStarted, "exec_start", "Start a background command", Destroys, Exec;
    "Starts a shell command in a workspace and returns at once with its job_id. It goes on when the client or the \
     server goes away, and through snapshots; it ends with the machine. The newest 1 MiB of each output is kept and \
     can be read while it runs.");

/// A command that was started.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobStarted {
    /// Its number.
    pub job_id: u32,
    /// `started`.
    pub status: String,
    /// The shell that runs it: `/bin/bash`, or `/bin/sh` in an image without bash.
    #[serde(default)]
    pub shell: String,
}

impl Outcome for JobStarted {
    fn text(&self) -> String {
        match self.shell.as_str() {
            "/bin/sh" => format!("job {} started ({SH})", self.job_id),
            _ => format!("job {} started", self.job_id),
        }
    }
}

/// Looks at a background command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobPoll {
    /// Id or name.
    pub workspace_id: String,
    /// Its number.
    pub job_id: u32,
    /// Shows its output from this byte on; all that is kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_offset: Option<u64>,
    /// Shows its errors from this byte on; all that is kept if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_offset: Option<u64>,
    /// Most bytes returned of each; 15000 for MCP tools and 262144 elsewhere if absent; at most 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// Waits for `output` beyond the offsets, for its `exit`, or for nothing (`none`, the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Seconds to wait at most; 30 if absent, at most 3600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_secs: Option<u64>,
}
action!(JobPoll -> JobPolled, "exec_poll", "Look at a background command", Reads, Default, idempotent: true;
    "Shows whether a background command runs, its exit code, and what it has printed so far, live. With offsets only \
     what is new; with wait it returns when there is something new or it has ended.");

/// A background command and what it printed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobPolled {
    /// Its number.
    pub job_id: u32,
    /// Whether it runs.
    pub running: bool,
    /// Its exit code; 128 + signal if a signal ended it; null while it runs.
    pub exit_code: Option<i32>,
    /// Whether it was ended because its time was up.
    pub timed_out: bool,
    /// What it printed from `stdout_offset` on.
    pub stdout: String,
    /// What it printed as errors from `stderr_offset` on.
    pub stderr: String,
    /// Where the shown output begins.
    pub stdout_offset: u64,
    /// Where the shown errors begin.
    pub stderr_offset: u64,
    /// The offset to ask for next.
    pub next_stdout_offset: u64,
    /// The offset to ask for next.
    pub next_stderr_offset: u64,
    /// Whether there is more than what is shown.
    pub more: bool,
}

impl Outcome for JobPolled {
    fn text(&self) -> String {
        let state = match (self.running, self.exit_code) {
            (true, _) => "running".to_owned(),
            (false, Some(code)) => format!("ended with exit code {code}"),
            (false, None) => "ended".to_owned(),
        };
        let stderr =
            if self.stderr.is_empty() { String::new() } else { format!("--- stderr ---\n{}", self.stderr) };
        let more = match self.more {
            true => format!(
                "\n[there is more: go on with stdout_offset {} and stderr_offset {}]",
                self.next_stdout_offset, self.next_stderr_offset
            ),
            false => String::new(),
        };
        format!("job {} {state}\n{}{stderr}{more}", self.job_id, self.stdout)
    }
}

/// Signals a background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobKill {
    /// Id or name.
    pub workspace_id: String,
    /// Its number.
    pub job_id: u32,
    /// The signal, 1 to 64; 9 if absent, which ends it with all it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}
action!(JobKill -> JobKilled, "exec_kill", "End a background command", Destroys, Default, idempotent: true;
    "Sends a signal to a background command and all it started; 9, the default, ends them. One that has ended is \
     left as it is.");

/// A command that was signalled.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobKilled {
    /// Its number.
    pub job_id: u32,
    /// The signal.
    pub signal: i32,
    /// `killed` for signal 9, `signalled` for others, `ended` if it had ended already.
    pub status: String,
}

impl Outcome for JobKilled {
    fn text(&self) -> String {
        format!("job {}: {}", self.job_id, self.status)
    }
}

of_one! {
    /// Lists background commands.
    JobList
}
action!(JobList -> JobListed, "exec_list", "List background commands", Reads, Default, idempotent: true;
    "Lists a workspace's background commands, running and ended, oldest first.");

/// Background commands.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobListed {
    /// The commands.
    pub jobs: Vec<Job>,
}

/// A background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Job {
    /// Its number.
    pub job_id: u32,
    /// The command.
    pub command: String,
    /// Whether it runs.
    pub running: bool,
    /// Its exit code; null while it runs.
    pub exit_code: Option<i32>,
    /// When it was started, by the machine's clock.
    pub started_at: String,
    /// Bytes it has printed.
    pub stdout_bytes: u64,
    /// Bytes it has printed as errors.
    pub stderr_bytes: u64,
}

impl Outcome for JobListed {
    fn text(&self) -> String {
        if self.jobs.is_empty() {
            return "no background commands".to_owned();
        }
        let line = |job: &Job| {
            let state = match (job.running, job.exit_code) {
                (true, _) => "running".to_owned(),
                (false, code) => {
                    format!("exit code {}", code.map_or("?".to_owned(), |code| code.to_string()))
                }
            };
            format!("{} {state}: {}", job.job_id, job.command)
        };
        self.jobs.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Writes to a background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobWrite {
    /// Id or name.
    pub workspace_id: String,
    /// Its number.
    pub job_id: u32,
    /// What to write to its standard input.
    #[serde(default)]
    pub data: String,
    /// Closes its standard input afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
}
action!(JobWrite -> JobWritten, "exec_write", "Write to a background command", Changes, Default;
    "Writes to the standard input of a background command that was started with stdin, and closes it if asked.");

/// What was written.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobWritten {
    /// Its number.
    pub job_id: u32,
    /// Bytes.
    pub written: usize,
}

impl Outcome for JobWritten {
    fn text(&self) -> String {
        format!("{} bytes written to job {}", self.written, self.job_id)
    }
}

/// Sets variables for every later command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SetEnv {
    /// Id or name.
    pub workspace_id: String,
    /// Names and values; null removes one.
    pub vars: BTreeMap<String, Option<String>>,
}
action!(SetEnv -> EnvSet, "set_env", "Set variables", Changes, Default, idempotent: true;
    "Sets variables that every later command of the workspace gets, secrets for example. Values stay in memory: they \
     are never logged or shown, and reach the disk only within a snapshot of memory. They survive stop, restore and \
     fork, but not a new owner, nor the server's end while stopped. PATH, IFS, ENV, BASH_ENV and LD_* are refused.");

/// Variables that were set.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct EnvSet {
    /// How many of the call's variables were set or removed.
    pub count: usize,
    /// `set`.
    pub status: String,
    /// The names of all variables there are now.
    pub names: Vec<String>,
}

impl Outcome for EnvSet {
    fn text(&self) -> String {
        format!("{} variables set; there are now: {}", self.count, self.names.join(", "))
    }
}
