//! Failing at a chosen moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Says no to the nth use of something, or to all from then on.
#[derive(Clone, Debug)]
pub struct FailAt(Arc<State>);

#[derive(Debug)]
struct State {
    uses: AtomicU64,
    nth: u64,
    and_later: bool,
    armed: AtomicBool,
}

impl FailAt {
    /// Fails the nth use, counted from 1, and the later ones too if `and_later` says so.
    pub fn new(nth: u64, and_later: bool) -> Self {
        Self(Arc::new(State { uses: AtomicU64::new(0), nth, and_later, armed: AtomicBool::new(true) }))
    }

    /// Whether this use succeeds.
    pub fn admits(&self) -> bool {
        if !self.0.armed.load(Ordering::SeqCst) {
            return true;
        }
        let this = self.0.uses.fetch_add(1, Ordering::SeqCst) + 1;
        this < self.0.nth || (this > self.0.nth && !self.0.and_later)
    }

    /// Lets everything succeed from now on. Returns whether any use has failed.
    pub fn disarm(&self) -> bool {
        self.0.armed.store(false, Ordering::SeqCst);
        self.0.uses.load(Ordering::SeqCst) >= self.0.nth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_use_fails_alone_or_with_all_later_ones() {
        let uses = |and_later| {
            let fail = FailAt::new(2, and_later);
            let uses: Vec<bool> = (0..4).map(|_| fail.admits()).collect();
            assert!(fail.disarm() && fail.admits());
            uses
        };
        assert_eq!(uses(false), [true, false, true, true]);
        assert_eq!(uses(true), [true, false, false, false]);
    }
}
