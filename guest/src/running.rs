//! The commands that run now, of this session and of earlier ones.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::{command_io::CommandIo, sync::locked};

/// How long a new session waits for the old one's commands to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// The variable that marks a command and whatever descends from it.
pub(crate) const MARKER: &str = "AGENTISO_EXEC";

/// The commands that run now.
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

/// A command's place in the table, given up when dropped.
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

    /// Registers a command.
    pub(crate) fn enter(&self, command_io: Arc<dyn CommandIo>) -> Place<'_> {
        let mut table = locked(&self.table);
        table.last += 1;
        let number = table.last;
        table.commands.insert(number, command_io);
        Place { running: self, number }
    }

    /// The value of [`MARKER`] for something that has no place in the table.
    pub(crate) fn marker(&self) -> String {
        let mut table = locked(&self.table);
        table.last += 1;
        self.marker_of(table.last)
    }

    fn marker_of(&self, number: u64) -> String {
        format!("{}-{number:x}", self.origin)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        locked(&self.table).commands.len()
    }

    /// Ends all that run now and waits, within reason, until they are gone.
    pub(crate) fn end_all(&self) {
        let table = locked(&self.table);
        let newest = table.last;
        for command_io in table.commands.values() {
            command_io.cancel();
        }
        let some_left = |table: &mut Table| table.commands.keys().any(|&number| number <= newest);
        drop(self.left.wait_timeout_while(table, PATIENCE, some_left));
    }
}

impl Place<'_> {
    /// The value of [`MARKER`] for this command, unlike that of any other.
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
