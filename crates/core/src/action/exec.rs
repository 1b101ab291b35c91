//! Commands: run and wait, or run in the background; environment variables.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{
    AbsolutePath, CommandLine, MAX_EXEC_OUTPUT, MAX_EXEC_SECS, MAX_JOB_OUTPUT, MAX_JOB_SECS, MAX_SIGNAL,
    MAX_WAIT_SECS, UserReference, VariableChanges, Variables, WorkspaceReference,
};
use super::values::{JobStatus, WaitFor};
use super::workspace::of_one;
use crate::Secret;

/// The remark on commands that ran in `/bin/sh`, where syntax of bash does not work.
const SH: &str = "run by /bin/sh: this image has no bash";

/// Whether no variables are given.
fn is_empty(variables: &Secret<BTreeMap<String, String>>) -> bool {
    variables.expose().is_empty()
}

/// Runs a command and waits for it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = [{"required": ["command"]}, {"required": ["job_id"]}]))]
pub struct Exec {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Command line, at most 2 MiB, for bash (`/bin/sh` in an image without it). Omit it with job_id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(with = "CommandLine")]
    pub command: String,
    /// Kill it and its children after this many seconds, up to 86400. Default: 120.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_EXEC_SECS))]
    pub timeout_secs: Option<u64>,
    /// Working directory. Default: the image's, else the user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub workdir: Option<String>,
    /// Environment variables, added to those of set_env.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(with = "Variables")]
    pub env: Secret<BTreeMap<String, String>>,
    /// User name or `UID[:GID]`. Default: the image's, else root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UserReference>")]
    pub user: Option<String>,
    /// Standard input. Default: empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Secret<String>>,
    /// Maximum bytes of stdout and stderr together, up to 8388608. Default: 30000 for MCP tools, else 1048576.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_EXEC_OUTPUT))]
    pub max_output_bytes: Option<u64>,
    /// Seconds after which it continues as a background job; 0 for never. If absent, 240 for MCP clients, 45 for those
    /// without progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_EXEC_SECS))]
    pub background_after_secs: Option<u64>,
    /// A job that exec returned: waits for it again, and does not run the command a second time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<u32>,
}
action! { Exec -> Executed {
    name: "exec",
    title: "Run a command",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/exec"],
    tools: [Core, Standard, Full],
    effect: Destroys,
    rate: Exec,
    body: Command,
    flags: [long_running],
    description: "Runs a shell command and waits for it. A non-zero exit code is a normal result. After timeout_secs \
                  (120) it is killed with its children. Long output is cut in the middle; the result names a file in \
                  the workspace with all of it (16 MiB per stream). For servers and long work use exec_background.",
}}

/// The result of a command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Executed {
    /// Exit code; 128 + signal number after a signal; null after a timeout.
    pub exit_code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether it timed out.
    pub timed_out: bool,
    /// The number of the signal that killed it.
    pub signal: Option<i32>,
    /// Run time in milliseconds.
    pub duration_ms: u64,
    /// Bytes written to standard output in total.
    pub stdout_bytes: u64,
    /// Bytes written to standard error in total.
    pub stderr_bytes: u64,
    /// Whether output was truncated.
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
    /// The same for standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_file: Option<String>,
    /// What to do next if the command still runs, timed out, or failed for a known reason.
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
            _ if self.job_id.is_some() => format!("still running after {} s", self.duration_ms / 1000),
            (true, _) => format!("timed out after {} ms", self.duration_ms),
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
    /// What to do about a command that did not exit. Some clients show their model only the structured fields.
    pub fn what_next(&self) -> Option<String> {
        if let Some(id) = self.job_id {
            return Some(format!(
                "the command continues as background job {id}; call exec again with job_id {id} to wait for it"
            ));
        }
        self.timed_out.then(|| "raise timeout_secs, or run it with exec_background".to_owned())
    }
}

/// Starts a background command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobStart {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// The command line, at most 2 MiB. Run by `/bin/bash -c`, or by `/bin/sh -c` in an image without bash.
    #[schemars(with = "CommandLine")]
    pub command: String,
    /// Working directory. Default: the image's, else the user's home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AbsolutePath>")]
    pub workdir: Option<String>,
    /// Environment variables, added to those of set_env.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(with = "Variables")]
    pub env: Secret<BTreeMap<String, String>>,
    /// User name or `UID[:GID]`. Default: the image's, else root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UserReference>")]
    pub user: Option<String>,
    /// Keep standard input open for exec_write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin: bool,
    /// Kill it and its children after this many seconds. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_JOB_SECS))]
    pub timeout_secs: Option<u64>,
}
action! { JobStart -> JobStarted {
    name: "exec_start",
    title: "Start a background command",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/jobs"],
    tools: [Full],
    effect: Destroys,
    rate: Exec,
    body: Command,
    description: "Starts a shell command and returns its job_id at once. The job survives the client, a server \
                  restart and snapshots, and ends with the machine. The last 1 MiB of stdout and of stderr are kept \
                  and can be read while it runs.",
}}

/// A background command that was started.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobStarted {
    /// Number of the background command.
    pub job_id: u32,
    /// Always `started`.
    pub status: JobStatus,
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

/// Reads the state and output of a background command.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobPoll {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Number of the background command.
    pub job_id: u32,
    /// Return stdout from this byte. Default: all that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_offset: Option<u64>,
    /// Return stderr from this byte. Default: all that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_offset: Option<u64>,
    /// Maximum bytes of each, up to 1048576. Default: 15000 for MCP tools, else 262144.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_JOB_OUTPUT))]
    pub max_output_bytes: Option<u64>,
    /// `output`: wait for output after the offsets; `exit`: wait for the end; `none` (default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitFor>,
    /// Maximum wait in seconds, up to 3600. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = MAX_WAIT_SECS))]
    pub wait_secs: Option<u64>,
}
action! { JobPoll -> JobPolled {
    name: "exec_poll",
    title: "Look at a background command",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/jobs/{job_id}"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Returns a background command's state, exit code and output so far. Pass offsets to get only new \
                  output, and wait to block until there is some or the command ends.",
}}

/// The state and output of a background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobPolled {
    /// Number of the background command.
    pub job_id: u32,
    /// Whether it is still running.
    pub running: bool,
    /// Exit code; 128 + signal number after a signal; null while it runs.
    pub exit_code: Option<i32>,
    /// Whether it timed out.
    pub timed_out: bool,
    /// Standard output from `stdout_offset`.
    pub stdout: String,
    /// Standard error from `stderr_offset`.
    pub stderr: String,
    /// Offset of the returned stdout.
    pub stdout_offset: u64,
    /// Offset of the returned stderr.
    pub stderr_offset: u64,
    /// Offset to pass in the next call.
    pub next_stdout_offset: u64,
    /// Offset to pass in the next call.
    pub next_stderr_offset: u64,
    /// Whether there is more output.
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
                "\n[there is more output: continue with stdout_offset {} and stderr_offset {}]",
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
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Number of the background command.
    pub job_id: u32,
    /// Signal, 1 to 64. Default: 9, which kills it and its children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_SIGNAL))]
    pub signal: Option<i32>,
}
action! { JobKill -> JobKilled {
    name: "exec_kill",
    title: "End a background command",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/jobs/{job_id}/kill"],
    tools: [Full],
    effect: Destroys,
    flags: [idempotent],
    description: "Sends a signal to a background command and its children; 9, the default, kills them. Does nothing \
                  if the command has ended.",
}}

/// A background command that received a signal.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobKilled {
    /// Number of the background command.
    pub job_id: u32,
    /// The number of the signal that was sent.
    pub signal: i32,
    /// `killed` for signal 9, `signalled` for others, `ended` if it had ended already.
    pub status: JobStatus,
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
action! { JobList -> JobListed {
    name: "exec_list",
    title: "List background commands",
    subjects: [Workspace(workspace_id)],
    routes: [Get "/v1/workspaces/{workspace_id}/jobs"],
    tools: [Full],
    effect: Reads,
    flags: [idempotent],
    description: "Lists a workspace's background commands, running and ended, oldest first.",
}}

/// The background commands of a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobListed {
    /// The commands, oldest first.
    pub jobs: Vec<Job>,
}

/// A background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Job {
    /// Number of the background command.
    pub job_id: u32,
    /// The command line, without credentials.
    pub command: String,
    /// Whether it is still running.
    pub running: bool,
    /// Exit code; null while it runs.
    pub exit_code: Option<i32>,
    /// When it was started, by the machine's clock.
    pub started_at: String,
    /// Bytes written to standard output so far.
    pub stdout_bytes: u64,
    /// Bytes written to standard error so far.
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

/// Writes to the standard input of a background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobWrite {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Number of the background command.
    pub job_id: u32,
    /// Text for its standard input.
    #[serde(default)]
    pub data: Secret<String>,
    /// Closes its standard input afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
}
action! { JobWrite -> JobWritten {
    name: "exec_write",
    title: "Write to a background command",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/workspaces/{workspace_id}/jobs/{job_id}/stdin"],
    tools: [Full],
    effect: Changes,
    body: Command,
    description: "Writes to the standard input of a background command that was started with stdin; close closes it \
                  afterwards.",
}}

/// The result of a write to a background command.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobWritten {
    /// Number of the background command.
    pub job_id: u32,
    /// Number of bytes written.
    pub written: usize,
}

impl Outcome for JobWritten {
    fn text(&self) -> String {
        format!("{} bytes written to job {}", self.written, self.job_id)
    }
}

/// Sets environment variables for all later commands.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SetEnv {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Names and values; null removes a variable.
    #[schemars(with = "VariableChanges")]
    pub vars: Secret<BTreeMap<String, Option<String>>>,
}
action! { SetEnv -> EnvSet {
    name: "set_env",
    title: "Set variables",
    subjects: [Workspace(workspace_id)],
    routes: [Put "/v1/workspaces/{workspace_id}/env"],
    tools: [Standard, Full],
    effect: Changes,
    body: Command,
    flags: [idempotent],
    description: "Sets environment variables for every later command in the workspace, for example secrets. Values \
                  are never logged or shown, and reach the disk only in snapshots with memory. They survive stop, \
                  restore and fork, but not a change of owner, nor a server restart while the workspace is stopped. \
                  PATH, IFS, ENV, BASH_ENV and LD_* are refused.",
}}

/// The variables of a workspace after a change.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct EnvSet {
    /// How many of the call's variables were set or removed.
    pub count: usize,
    /// Always `set`.
    pub status: String,
    /// The names of all variables of the workspace.
    pub names: Vec<String>,
}

impl Outcome for EnvSet {
    fn text(&self) -> String {
        format!("{} variables set; there are now: {}", self.count, self.names.join(", "))
    }
}
