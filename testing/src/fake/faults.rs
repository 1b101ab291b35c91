//! Calls that are told to fail or to hang.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::FailAt;

/// What becomes of the calls of a fake. `C` names the calls, `E` is how they fail.
pub struct Faults<C, E> {
    state: Mutex<State<C, E>>,
}

struct State<C, E> {
    rules: HashMap<C, Rule<E>>,
    counts: HashMap<C, usize>,
}

#[derive(Clone)]
enum Rule<E> {
    Fail(FailAt, E),
    Hang(Arc<Hanging>),
}

struct Hanging {
    waiting: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

/// Calls that hang until this is released or dropped.
pub struct Hang {
    hanging: Arc<Hanging>,
}

impl Hang {
    /// Waits until a call hangs.
    pub async fn reached(&self) {
        self.reached_by(1).await;
    }

    /// Waits until so many calls hang.
    pub async fn reached_by(&self, calls: usize) {
        let mut waiting = self.hanging.waiting.subscribe();
        // The sender is in `self`, so this cannot fail.
        let _ = waiting.wait_for(|waiting| *waiting >= calls).await;
    }

    /// Lets the calls continue.
    pub fn release(self) {}
}

impl Drop for Hang {
    fn drop(&mut self) {
        self.hanging.released.send_replace(true);
    }
}

/// Counts a call as hanging for as long as it does.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl<C, E> Default for Faults<C, E> {
    fn default() -> Self {
        Self { state: Mutex::new(State { rules: HashMap::new(), counts: HashMap::new() }) }
    }
}

impl<C: Copy + Eq + Hash, E: Clone> Faults<C, E> {
    /// Fails every use of a call until [`Self::clear`].
    pub fn fail(&self, call: C, error: E) {
        self.set(call, Rule::Fail(FailAt::new(1, true), error));
    }

    /// Fails the next use of a call and no other.
    pub fn fail_once(&self, call: C, error: E) {
        self.fail_nth(call, 1, error);
    }

    /// Fails the nth use of a call from now on, counted from 1, and no other.
    pub fn fail_nth(&self, call: C, nth: u64, error: E) {
        self.set(call, Rule::Fail(FailAt::new(nth, false), error));
    }

    /// Lets every use of a call hang until the result is released.
    #[must_use = "the calls continue when it is dropped"]
    pub fn hang(&self, call: C) -> Hang {
        let hanging = Hanging { waiting: watch::Sender::new(0), released: watch::Sender::new(false) };
        let hanging = Arc::new(hanging);
        self.set(call, Rule::Hang(Arc::clone(&hanging)));
        Hang { hanging }
    }

    /// Lets a call succeed again.
    pub fn clear(&self, call: C) {
        self.lock().rules.remove(&call);
    }

    /// How often a call was made.
    pub fn count(&self, call: C) -> usize {
        self.lock().counts.get(&call).copied().unwrap_or_default()
    }

    /// Called by a fake at the beginning of each of its calls.
    pub(super) async fn pass(&self, call: C) -> Result<(), E> {
        let rule = {
            let mut state = self.lock();
            *state.counts.entry(call).or_default() += 1;
            state.rules.get(&call).cloned()
        };
        match rule {
            None => Ok(()),
            Some(Rule::Fail(at, error)) => {
                if at.admits() {
                    Ok(())
                } else {
                    Err(error)
                }
            }
            Some(Rule::Hang(hanging)) => {
                let _waiting = Waiting::new(&hanging.waiting);
                let mut released = hanging.released.subscribe();
                // The sender is in `hanging`, so this cannot fail.
                let _ = released.wait_for(|released| *released).await;
                Ok(())
            }
        }
    }

    fn set(&self, call: C, rule: Rule<E>) {
        self.lock().rules.insert(call, rule);
    }

    fn lock(&self) -> MutexGuard<'_, State<C, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_fails_as_often_as_it_is_told_to() {
        let faults: Faults<u8, &str> = Faults::default();
        faults.fail_nth(1, 2, "broken");
        assert_eq!(faults.pass(1).await, Ok(()));
        assert_eq!(faults.pass(1).await, Err("broken"));
        assert_eq!(faults.pass(1).await, Ok(()));
        faults.fail(1, "gone");
        assert_eq!(faults.pass(1).await, Err("gone"));
        assert_eq!(faults.pass(1).await, Err("gone"));
        assert_eq!(faults.pass(2).await, Ok(()), "another call is not affected");
        faults.clear(1);
        assert_eq!(faults.pass(1).await, Ok(()));
        assert_eq!((faults.count(1), faults.count(2)), (6, 1));
    }

    #[tokio::test]
    async fn a_call_hangs_until_it_is_released() {
        let faults: Arc<Faults<u8, &str>> = Arc::default();
        let hang = faults.hang(1);
        let call = tokio::spawn({
            let faults = Arc::clone(&faults);
            async move { faults.pass(1).await }
        });
        hang.reached().await;
        assert!(!call.is_finished());
        hang.release();
        assert_eq!(call.await.unwrap(), Ok(()));
    }
}
