//! Renames of directories, which an overlay without root does not make itself.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::thread::{self, JoinHandle};

use agentiso_core::{Code, Failure};
use agentiso_jail::Running;
use agentiso_mounts::{RenameStats, RenameSupervisor};

use crate::envelope::ResultReport;

/// The supervisor of one command. It works for as long as the command has processes.
pub struct Renames(Option<JoinHandle<io::Result<RenameStats>>>);

impl Renames {
    /// Serves a command, if its sandbox asks about renames. After a failure the command must be ended: it may wait for an
    /// answer.
    pub fn serve(running: &mut Running, result: &mut ResultReport) -> Result<Self, Failure> {
        let notifier = match running.take_rename_notifier() {
            None => return Ok(Self(None)),
            Some(Ok(notifier)) => notifier,
            Some(Err(error)) => {
                result.warnings.push(format!(
                    "directories that were there before the command cannot be renamed, only copied and removed: {error}"
                ));
                return Ok(Self(None));
            }
        };
        let failed = |error: io::Error| {
            Failure::new(Code::of_io(&error), format!("could not supervise renames: {error}"))
        };
        let at = Path::new(&result.mountpoint);
        // The command's root directory is closed here: an open one would keep its mounts.
        let supervisor =
            RenameSupervisor::beneath(notifier.listener, notifier.root.as_fd(), at).map_err(failed)?;
        let serve = move || supervisor.run();
        let thread = thread::Builder::new().name("renames".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self(Some(thread)))
    }

    /// Waits until a rename that was begun is finished or undone. The command's processes have ended.
    pub fn finish(self, result: &mut ResultReport) {
        let Some(thread) = self.0 else { return };
        let why = match thread.join() {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "this is a bug in agentiso".to_owned(),
        };
        result.warnings.push(format!("some renames of the command failed: {why}"));
    }
}
