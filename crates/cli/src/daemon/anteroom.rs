//! Connections that have not authenticated yet.
//!
//! Their number is limited. A new connection beyond the limit closes the oldest one: a client with a token sends it
//! at once, and clients without one cannot keep others out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agentiso_api::http::Admission;
use tokio::sync::Notify;

/// The unauthenticated connections of a listener.
pub(super) struct Anteroom {
    most: usize,
    waiting: Mutex<VecDeque<Weak<Newcomer>>>,
}

/// A connection that may have to go.
#[derive(Default)]
pub(super) struct Newcomer {
    pub admission: Admission,
    sent_away: Notify,
}

impl Anteroom {
    pub fn new(most: usize) -> Self {
        Self { most, waiting: Mutex::default() }
    }

    /// Lets one more in, if need be at the cost of the one that has been there longest.
    pub fn enter(&self) -> Arc<Newcomer> {
        let newcomer = Arc::new(Newcomer::default());
        let mut waiting = self.waiting();
        while waiting.len() >= self.most {
            send_away_first(&mut waiting);
        }
        waiting.push_back(Arc::downgrade(&newcomer));
        newcomer
    }

    /// Sends away the one that has been there longest.
    pub fn make_room(&self) {
        send_away_first(&mut self.waiting());
    }

    /// Those who are there and have shown no token.
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Weak<Newcomer>>> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.upgrade().is_some_and(|one| !one.admission.is_granted()));
        waiting
    }
}

fn send_away_first(waiting: &mut VecDeque<Weak<Newcomer>>) {
    if let Some(first) = waiting.pop_front().and_then(|first| first.upgrade()) {
        first.sent_away.notify_one();
    }
}

impl Newcomer {
    /// Waits until it has to go, which it never has once it was admitted.
    pub async fn sent_away(&self) {
        self.sent_away.notified().await;
        if self.admission.is_granted() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn the_one_that_waits_longest_without_a_token_has_to_go() {
        let room = Anteroom::new(2);
        let away = |one: &Newcomer| one.sent_away().now_or_never().is_some();
        let [first, second] = [room.enter(), room.enter()];
        assert!(!away(&first) && !away(&second));
        let third = room.enter();
        assert!(away(&first) && !away(&second));
        second.admission.grant();
        let fourth = room.enter();
        assert!(!away(&second) && !away(&third), "there is room for those who have no token");
        room.make_room();
        assert!(away(&third) && !away(&fourth));
        drop(fourth);
        let others = [room.enter(), room.enter()];
        assert!(others.iter().all(|other| !away(other)));
    }
}
