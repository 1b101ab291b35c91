//! Console and QEMU logs of machines, and the reason why a machine ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure};
use agentiso_meta::{Workspace, WorkspaceState};
use agentiso_vmm::qemu::is_remark;

use super::{Logs, Workspaces};

/// The most that is read of a log.
const MOST: u64 = 1 << 20;

/// How many of the last lines are searched for the reason why a machine ended.
const TELLING_LINES: usize = 100;

/// How many lines, of how many characters each, are reported if there is no kernel panic.
const LAST_LINES: usize = 3;
const LAST_LINE: usize = 160;

/// The reason of a machine that the kernel killed.
const OUT_OF_MEMORY: &str = "it was killed because it needed more memory than its limit";

impl Workspaces {
    /// The last lines of a workspace's console and QEMU logs. Empty if it is stopped.
    pub fn logs(&self, workspace: &Workspace, lines: usize) -> Result<Logs, Failure> {
        let Some(state) = self.machine_of(workspace)? else { return Ok(Logs::default()) };
        let dir = state.dir.path(&self.installation.paths.workspaces_dir());
        let read = |name: &str| {
            in_place(|| tail(&dir.join(name), lines))
                .map_err(|error| self.installation.io("read a machine's log", error))
        };
        Ok(Logs { console: read("console.log")?, qemu: read("qemu.log")? })
    }

    /// Why a workspace's machine may have ended: the recorded reason, else the last lines of its logs.
    pub fn last_words(&self, workspace: &Workspace) -> Option<String> {
        let workspace = self.meta.read(|read| read.workspace(workspace.id)).ok()?;
        if let WorkspaceState::Stopped { reason } = workspace.state {
            return reason;
        }
        if let Ok(Some(state)) = self.machine_of(&workspace)
            && state.record.ran_out_of_memory()
        {
            let limit = state.record.limits().and_then(|limits| limits.memory_bytes).unwrap_or_default();
            return Some(format!("{OUT_OF_MEMORY} of {} MiB", limit >> 20));
        }
        let logs = self.logs(&workspace, TELLING_LINES).ok()?;
        let said = [("QEMU said", logs.qemu), ("its console ended with", logs.console)]
            .into_iter()
            .filter_map(|(who, log)| Some(format!("{who}: {}", in_one_line(&log)?)))
            .collect::<Vec<_>>();
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Adds that reason to a failure that the end of the machine caused.
    pub fn explain_end(&self, workspace: &Workspace, failure: Failure) -> Failure {
        match self.last_words(workspace) {
            Some(words) if words.contains(OUT_OF_MEMORY) => Failure::new(Code::OutOfMemory, words)
                .with_remedy(format!(
                    "start it again: agentiso start {}, or workspace_start",
                    workspace.name
                )),
            Some(words) => failure.because(&words),
            None => failure,
        }
    }

    /// The reason to record for a machine that ended by itself.
    pub(super) fn reason_of_end(&self, workspace: &Workspace) -> String {
        let words = self.last_words(workspace).map(|words| format!("; {words}"));
        format!("its machine ended unexpectedly{}", words.unwrap_or_default())
    }
}

/// The relevant lines at the end of a log as one line. The guest may have printed anything, so control characters are
/// removed.
fn in_one_line(log: &str) -> Option<String> {
    let readable = |line: &str| line.chars().filter(|c| !c.is_control()).take(LAST_LINE).collect::<String>();
    let lines: Vec<String> = log
        .lines()
        .map(|line| readable(line.trim()))
        .filter(|line| !line.is_empty() && !is_remark(line))
        .collect();
    let panic = lines.iter().rposition(|line| line.contains("Kernel panic"));
    let telling = match panic {
        Some(at) => &lines[at..=at],
        None => &lines[lines.len().saturating_sub(LAST_LINES)..],
    };
    (!telling.is_empty()).then(|| telling.join(" / "))
}

#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn tail(path: &Path, lines: usize) -> io::Result<String> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => opened?,
    };
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.split_inclusive('\n').collect();
    Ok(all[all.len().saturating_sub(lines)..].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_and_a_log_that_is_not_there_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        assert_eq!(tail(&path, 5).unwrap(), "");
        std::fs::write(&path, "a\nb\nc").unwrap();
        assert_eq!(tail(&path, 2).unwrap(), "b\nc");
        assert_eq!(tail(&path, 0).unwrap(), "");
        assert_eq!(tail(&path, 9).unwrap(), "a\nb\nc");
    }

    #[test]
    fn what_a_guest_printed_last_is_one_readable_line() {
        assert_eq!(in_one_line("\n \r\n"), None);
        assert_eq!(in_one_line("a\r\n\n \x1b[2Jb\n").unwrap(), "a / [2Jb");
        assert_eq!(in_one_line("1\n2\n3\n4\nqemu: warning: 5\nqemu: info: 6\n").unwrap(), "2 / 3 / 4");
        assert_eq!(in_one_line("1\nKernel panic: no init\nstack\n").unwrap(), "Kernel panic: no init");
        assert_eq!(in_one_line(&"x".repeat(9_999)).unwrap().len(), LAST_LINE);
    }
}
