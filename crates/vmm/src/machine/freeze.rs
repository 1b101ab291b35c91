//! Making a template from a machine on shared memory.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use agentiso_blocking::off_thread;
use serde_json::json;

use super::Machine;
use crate::VmError;

/// How long saving the device state may take.
const LIMIT: Duration = Duration::from_secs(60);

impl Machine {
    /// Writes the device state to `file` and kills the process. The memory is in its file already: the machine must have
    /// been started on shared memory, and be idle.
    pub async fn freeze_into(self, file: &Path) -> Result<(), VmError> {
        let state = tokio::select! {
            taken = tokio::time::timeout(LIMIT, self.take_devices()) => taken.unwrap_or_else(|_| {
                Err(VmError::NoAnswer { doing: "saving its state", limit: LIMIT, reason: None, console: String::new() })
            }),
            crash = self.crashed() => Err(crash),
        };
        self.kill().await;
        let state = state?;
        let path = file.to_owned();
        let written = off_thread(move || write(&path, &state)).await;
        written.map_err(VmError::io(format!("write {}", file.display())))
    }

    async fn take_devices(&self) -> Result<Vec<u8>, VmError> {
        let place = self.prepare_devices().await?;
        let (stop, saved) = (self.qmp.send("stop", json!({})), self.save_devices());
        stop.answer().await?;
        saved.answer().await?;
        place.read()
    }
}

#[expect(clippy::disallowed_methods, reason = "called off the async threads")]
fn write(path: &Path, state: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(state)?;
    file.sync_all()
}
