//! What happened on a card, in numbers.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::frame::Dropped;

/// Counters of one machine since it was attached.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counters {
    /// Frames the guest sent.
    pub frames_from_guest: u64,
    /// Frames the guest was sent.
    pub frames_to_guest: u64,
    /// Payload that left the guest.
    pub bytes_sent: u64,
    /// Payload that arrived for the guest.
    pub bytes_received: u64,
    /// Flows that were opened.
    pub flows_opened: u64,
    /// Flows and names that were refused.
    pub refused: u64,
    /// Flows that are open now.
    pub flows_open: u64,
    /// DNS queries that were answered.
    pub queries: u64,
    /// Log entries that were left out because there were too many.
    pub log_suppressed: u64,
    /// Frames that were dropped, by reason.
    pub dropped: BTreeMap<Dropped, u64>,
}

/// Counters as they are counted.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    pub(crate) frames_from_guest: AtomicU64,
    pub(crate) frames_to_guest: AtomicU64,
    pub(crate) bytes_sent: AtomicU64,
    pub(crate) bytes_received: AtomicU64,
    pub(crate) flows_opened: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) queries: AtomicU64,
    pub(crate) log_suppressed: AtomicU64,
    dropped: Mutex<BTreeMap<Dropped, u64>>,
}

impl Counting {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Relaxed);
    }

    pub(crate) fn dropped(&self, reason: Dropped) {
        let mut dropped = self.dropped.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *dropped.entry(reason).or_default() += 1;
    }

    pub(crate) fn read(&self, flows_open: u64) -> Counters {
        Counters {
            frames_from_guest: self.frames_from_guest.load(Relaxed),
            frames_to_guest: self.frames_to_guest.load(Relaxed),
            bytes_sent: self.bytes_sent.load(Relaxed),
            bytes_received: self.bytes_received.load(Relaxed),
            flows_opened: self.flows_opened.load(Relaxed),
            refused: self.refused.load(Relaxed),
            flows_open,
            queries: self.queries.load(Relaxed),
            log_suppressed: self.log_suppressed.load(Relaxed),
            dropped: self.dropped.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone(),
        }
    }
}
