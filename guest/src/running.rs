//! The table of running commands, of this session and earlier ones.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{command_io::CommandIo, sync::locked};

/// How long a new session waits for the commands of the old one to exit.
const PATIENCE: Duration = Duration::from_secs(10);

/// The environment variable that marks a command and its descendants.
pub(crate) const MARKER: &str = "AGENTISO_EXEC";

pub(crate) struct Running {
    table: Mutex<Table>,
    left: Condvar,
    origin: String,
}

#[derive(Default)]
struct Table {
    last: u64,
    commands: HashMap<u64, Arc<dyn CommandIo>>,
}

/// A command's entry in the table, removed on drop.
pub(crate) struct Place<'a> {
    running: &'a Running,
    number: u64,
}

impl Running {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = format!("{:x}-{:x}", std::process::id(), now.as_nanos());
        Self { table: Mutex::default(), left: Condvar::new(), origin }
    }

    /// Adds a command.
    pub(crate) fn enter(&self, io: Arc<dyn CommandIo>) -> Place<'_> {
        let mut table = locked(&self.table);
        table.last += 1;
        let number = table.last;
        table.commands.insert(number, io);
        Place { running: self, number }
    }

    /// A value of [`MARKER`] for a process that has no entry in the table.
    pub(crate) fn marker(&self) -> String {
        let mut table = locked(&self.table);
        table.last += 1;
        self.marker_of(table.last)
    }

    fn marker_of(&self, number: u64) -> String {
        format!("{}-{number:x}", self.origin)
    }

    pub(crate) fn count(&self) -> usize {
        locked(&self.table).commands.len()
    }

    /// Cancels all commands and waits, up to a limit, until they have exited.
    pub(crate) fn end_all(&self) {
        let table = locked(&self.table);
        let newest = table.last;
        for io in table.commands.values() {
            io.cancel();
        }
        let some_left = |table: &mut Table| table.commands.keys().any(|&number| number <= newest);
        drop(self.left.wait_timeout_while(table, PATIENCE, some_left));
    }
}

impl Place<'_> {
    /// The unique value of [`MARKER`] for this command.
    pub(crate) fn marker(&self) -> String {
        self.running.marker_of(self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        locked(&self.running.table).commands.remove(&self.number);
        self.running.left.notify_all();
    }
}
