//! What machines and their QEMUs print.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use agentiso_core::Failure;
use agentiso_meta::Workspace;

use super::Workspaces;

/// No more than this is read of a log, however long its lines are.
const MOST: u64 = 1 << 20;

/// The ends of a machine's logs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Logs {
    /// The serial console.
    pub console: String,
    /// QEMU's own messages.
    pub qemu: String,
}

impl Workspaces {
    /// The last lines a workspace's machine and its QEMU printed. Nothing if it does not run.
    pub fn logs(&self, workspace: &Workspace, lines: usize) -> Result<Logs, Failure> {
        let Some(state) = self.machine_of(workspace)? else { return Ok(Logs::default()) };
        let dir = state.berth.path(&self.installation.paths.workspaces_dir());
        let read = |name: &str| {
            tail(&dir.join(name), lines).map_err(|error| self.installation.io("read a machine's log", error))
        };
        Ok(Logs { console: read("console.log")?, qemu: read("qemu.log")? })
    }
}

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
}
