//! The connection log: who connected where, and what was refused.
//!
//! The router keeps the last entries in memory, numbered, so that the daemon can read on where it stopped, also after a
//! restart. Storing them is the daemon's task.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard};

pub use agentiso_core::NetworkEvent as LogEvent;
use agentiso_core::WorkspaceId;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use agentiso_policy::egress::Protocol;

/// Entries kept for a daemon that is away.
const KEPT: usize = 16_384;
/// Entries a subscriber may lag behind before it has to read again.
const LAG: usize = 1_024;

/// One entry.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct LogEntry {
    /// The number of the entry. Numbers have no gaps.
    pub sequence: u64,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: u64,
    /// Whose flow it was.
    pub workspace: WorkspaceId,
    /// What happened.
    pub event: LogEvent,
    /// The transport.
    pub protocol: Protocol,
    /// The name the address was resolved by, or the name that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The destination; absent for a refused name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// The destination port; 0 for pings.
    pub port: u16,
    /// The rule that decided.
    pub rule: String,
    /// Payload from the guest.
    pub bytes_sent: u64,
    /// Payload to the guest.
    pub bytes_received: u64,
    /// How long the flow was open.
    pub duration_ms: u64,
}

/// The bounded log of a router.
#[derive(Debug)]
pub(crate) struct Log {
    state: Mutex<State>,
    live: broadcast::Sender<LogEntry>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    entries: VecDeque<LogEntry>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), live: broadcast::channel(LAG).0 }
    }

    /// Appends an entry, whose number is set here.
    pub(crate) fn append(&self, mut entry: LogEntry) {
        let mut state = self.state();
        entry.sequence = state.next;
        state.next += 1;
        if state.entries.len() == KEPT {
            state.entries.pop_front();
        }
        state.entries.push_back(entry.clone());
        // Sent while the lock is held, so that a subscriber misses none between what it reads and what it receives.
        // No subscriber is no error.
        let _ = self.live.send(entry);
    }

    /// The kept entries from a number on, at most `limit`.
    pub(crate) fn read(&self, from: u64, limit: usize) -> Vec<LogEntry> {
        read(&self.state(), from, limit)
    }

    /// The kept entries from a number on, and those that follow.
    pub(crate) fn subscribe(&self, from: u64) -> (Vec<LogEntry>, broadcast::Receiver<LogEntry>) {
        let state = self.state();
        (read(&state, from, KEPT), self.live.subscribe())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn read(state: &State, from: u64, limit: usize) -> Vec<LogEntry> {
    let first = state.entries.front().map_or(0, |entry| entry.sequence);
    let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
    state.entries.iter().skip(skipped).take(limit).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(port: u16) -> LogEntry {
        LogEntry {
            sequence: 0,
            at_ms: 0,
            workspace: WorkspaceId::from_uuid(uuid::Uuid::nil()),
            event: LogEvent::Opened,
            protocol: Protocol::Tcp,
            name: None,
            address: Some(Ipv4Addr::LOCALHOST),
            port,
            rule: String::new(),
            bytes_sent: 0,
            bytes_received: 0,
            duration_ms: 0,
        }
    }

    fn numbers(entries: &[LogEntry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.sequence).collect()
    }

    #[test]
    fn the_log_keeps_the_newest_entries_and_reads_on_from_any_number() {
        let log = Log::new();
        for port in 0..KEPT + 10 {
            log.append(entry(port as u16));
        }
        let kept = log.read(0, usize::MAX);
        assert_eq!(kept.len(), KEPT);
        assert_eq!(kept[0].sequence, 10, "the oldest entries are gone");
        let last = KEPT as u64 + 9;
        assert_eq!(numbers(&log.read(last - 1, 10)), [last - 1, last]);
        assert_eq!(numbers(&log.read(12, 2)), [12, 13]);
        assert!(log.read(last + 1, 10).is_empty());
    }

    #[tokio::test]
    async fn a_subscriber_gets_every_entry_once() {
        let log = Log::new();
        log.append(entry(1));
        log.append(entry(2));
        let (past, mut live) = log.subscribe(1);
        log.append(entry(3));
        assert_eq!(numbers(&past), [1]);
        assert_eq!(live.recv().await.unwrap().sequence, 2);
    }
}
