//! A machine that runs, as the host and the links into it share it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agentiso_core::ports::link::{Exec, LinkError};
use tokio::sync::watch;

use super::answers::Answers;
use super::faults::Faults;
use super::memory::Memory;
use super::tree::Tree;

/// A disk: its files, shared by the machine that writes them and by the host.
pub(super) type Disk = Arc<Mutex<Tree>>;

/// Calls of a link that can be told to fail or to hang.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "each is the method of the port that has its name")]
pub enum LinkCall {
    Status,
    Exec,
    StartJob,
    Jobs,
    ReadJob,
    WriteJob,
    SignalJob,
    Stat,
    List,
    ReadFile,
    WriteFile,
    Remove,
    Rename,
    Mkdir,
    SendTree,
    ReceiveTree,
    Find,
    Grep,
    Env,
    SetEnv,
    Connect,
}

/// What all machines of a host have in common.
#[derive(Default)]
pub(super) struct Shared {
    pub faults: Faults<LinkCall, LinkError>,
    pub answers: Mutex<Answers>,
    /// Every command and job that was requested, in order.
    pub requested: Mutex<Vec<Exec>>,
    /// The machines that others reach over the network.
    pub neighbours: Mutex<HashMap<Ipv4Addr, Weak<Machine>>>,
}

/// A machine.
pub(super) struct Machine {
    /// Like a process id, but of no process.
    pub pid: u32,
    pub disk: Disk,
    pub shared: Arc<Shared>,
    memory: Mutex<Memory>,
    /// Changes whenever a process may have printed, read or ended.
    changed: watch::Sender<()>,
    /// Why it ended, once it has.
    ended: watch::Sender<Option<String>>,
    /// Whether it stands still because the disk of the host is full.
    still: watch::Sender<bool>,
    console: Mutex<String>,
}

impl Machine {
    pub fn new(pid: u32, disk: Disk, memory: Memory, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            pid,
            disk,
            shared,
            memory: Mutex::new(memory),
            changed: watch::Sender::new(()),
            ended: watch::Sender::new(None),
            still: watch::Sender::new(false),
            console: Mutex::default(),
        })
    }

    /// Ends it. The first reason stays.
    pub fn end(&self, reason: &str) {
        self.ended.send_if_modified(|ended| {
            let is_news = ended.is_none();
            ended.get_or_insert_with(|| reason.to_owned());
            is_news
        });
        self.changed.send_replace(());
    }

    /// Why it ended, if it has.
    pub fn end_reason(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits until it has ended.
    pub async fn wait_for_end(&self) {
        // The sender is in `self`, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(Option::is_some).await;
    }

    /// Sets whether it stands still.
    pub fn set_still(&self, still: bool) {
        self.still.send_replace(still);
    }

    /// Waits until it stands still.
    pub async fn wait_for_standstill(&self) {
        let _ = self.still.subscribe().wait_for(|still| *still).await;
    }

    /// A copy of its memory for another machine.
    pub fn copy_memory(&self) -> Memory {
        locked(&self.memory).copied()
    }

    /// Uses its memory and its disk, and wakes those who wait for a change.
    pub fn work<T>(&self, work: impl FnOnce(&mut Memory, &mut Tree) -> T) -> T {
        let done = work(&mut locked(&self.memory), &mut locked(&self.disk));
        self.changed.send_replace(());
        done
    }

    /// Looks at its memory.
    pub fn look<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut locked(&self.memory))
    }

    /// Watches for changes of its processes.
    pub fn watch(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Waits for a change, or until a process may have run out of time.
    pub async fn change(&self, watch: &mut watch::Receiver<()>) {
        match self.look(|memory| memory.next_deadline()) {
            Some(deadline) => {
                tokio::select! {
                    _ = watch.changed() => {}
                    () = tokio::time::sleep_until(deadline) => {}
                }
            }
            // The sender is in `self`, so this cannot fail.
            None => drop(watch.changed().await),
        }
    }

    /// Prints to its console.
    pub fn print(&self, text: &str) {
        locked(&self.console).push_str(text);
    }

    pub fn console(&self) -> String {
        locked(&self.console).clone()
    }

    /// Fails if it has ended.
    pub fn require_alive(&self) -> Result<(), LinkError> {
        match self.end_reason() {
            None => Ok(()),
            Some(_) => Err(LinkError::closed(std::io::ErrorKind::UnexpectedEof, "the machine has ended")),
        }
    }

    /// Called at the beginning of each call of a link.
    pub async fn pass(&self, call: LinkCall) -> Result<(), LinkError> {
        self.require_alive()?;
        tokio::select! {
            passed = self.shared.faults.pass(call) => passed?,
            () = self.wait_for_end() => {}
        }
        self.require_alive()
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
