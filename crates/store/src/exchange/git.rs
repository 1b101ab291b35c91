//! Runs the program `git`, without hooks, prompts, network and file system monitors.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::StoreError;

/// What is kept of an error message.
const MAX_MESSAGE: usize = 4096;

pub(super) fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
        command.env_remove(variable);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1");
    command.env("GIT_NO_REPLACE_OBJECTS", "1").env("LC_ALL", "C");
    for setting in ["core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "gc.auto=0"] {
        command.arg("-c").arg(setting);
    }
    command.arg("-C").arg(repository);
    command
}

/// Runs a command to its end and returns what it printed.
pub(super) fn output(name: &'static str, command: &mut Command) -> Result<Vec<u8>, StoreError> {
    let output = command.stdin(Stdio::null()).output().map_err(StoreError::GitMissing)?;
    if output.status.success() { Ok(output.stdout) } else { Err(failed(name, &output.stderr)) }
}

pub(super) fn failed(command: &'static str, stderr: &[u8]) -> StoreError {
    let end = stderr.len().min(MAX_MESSAGE);
    let message = String::from_utf8_lossy(stderr.get(..end).unwrap_or_default()).trim().to_owned();
    let message = if message.is_empty() { "it ended early".to_owned() } else { message };
    StoreError::Git { command, message }
}

/// Waits for a command whose input was closed.
pub(super) fn finish(name: &'static str, mut child: Child) -> Result<(), StoreError> {
    let mut stderr = Vec::new();
    if let Some(stream) = child.stderr.take() {
        let _ = stream.take(MAX_MESSAGE as u64).read_to_end(&mut stderr);
    }
    let status = child.wait().map_err(StoreError::io("wait for", "git"))?;
    if status.success() { Ok(()) } else { Err(failed(name, &stderr)) }
}
