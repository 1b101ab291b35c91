//! Making a memory image of a machine on shared memory.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::sync::broadcast;

use super::Machine;
use super::standby::capabilities;
use crate::VmError;
use crate::qmp::Event;

/// How long writing the state of processor and devices may take: memory is not part of it.
const LIMIT: Duration = Duration::from_secs(20);

impl Machine {
    /// Writes the device state to `file` while memory stays where it is, then ends the process. The machine must
    /// have been started on shared memory and be idle.
    pub async fn freeze_into(self, file: &Path) -> Result<(), VmError> {
        let mut state = File::create(file).map_err(VmError::io(format!("create {}", file.display())))?;
        let mut events = self.qmp().events();
        let (ours, theirs) = StdStream::pair().map_err(VmError::io("make a socket pair"))?;
        let receive =
            tokio::task::spawn_blocking(move || std::io::copy(&mut &ours, &mut state).map(|_| state));
        self.qmp().send("migrate-set-capabilities", capabilities()).answer().await?;
        self.qmp().send_descriptor("state", OwnedFd::from(theirs)).answer().await?;
        self.qmp().execute("migrate", json!({ "uri": "fd:state" })).await?;
        let saved = tokio::select! {
            saved = tokio::time::timeout(LIMIT, wait_for_migration(&mut events)) => saved.unwrap_or_else(|_| {
                Err(VmError::NoAnswer { doing: "saving its state", limit: LIMIT, console: String::new() })
            }),
            crash = self.crashed() => Err(crash),
        };
        self.kill().await;
        let state = receive.await.map_err(std::io::Error::other).and_then(|done| done);
        // A state that could not be written is why it could not be saved, so that is said first.
        state.and_then(|file| file.sync_all()).map_err(VmError::io(format!("write {}", file.display())))?;
        saved
    }
}

async fn wait_for_migration(events: &mut broadcast::Receiver<Event>) -> Result<(), VmError> {
    loop {
        // An error means the monitor closed: the process is ending, and whoever watches it will say so.
        let Ok(event) = events.recv().await else { std::future::pending().await };
        match (event.name.as_str(), event.data["status"].as_str()) {
            ("MIGRATION", Some("completed")) => return Ok(()),
            ("MIGRATION", Some("failed")) => {
                let message = "saving the state failed".to_owned();
                return Err(crate::QmpError::Refused { command: "migrate".to_owned(), message }.into());
            }
            _ => {}
        }
    }
}
