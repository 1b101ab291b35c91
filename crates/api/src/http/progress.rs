//! An action as a stream of events: its progress, then its result.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentiso_core::progress::Progress;
use agentiso_core::wire::{ErrorBody, ProgressWord};
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::Stream;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::bodies::Part;
use crate::{Backend, Call, ForCaller};

/// How often a comment is sent while nothing else is, so that the connection is not taken for dead.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The shortest time between two progress events of a step: nobody sees more, and each costs both sides a few system calls.
const EVERY: Duration = Duration::from_millis(100);

/// Reports progress to a stream.
pub(super) struct Told {
    stream: mpsc::UnboundedSender<ProgressWord>,
    advanced: Mutex<Advanced>,
}

/// Progress that was not reported yet.
#[derive(Default)]
struct Advanced {
    amount: u64,
    told: Option<Instant>,
}

impl Told {
    pub fn new(stream: mpsc::UnboundedSender<ProgressWord>) -> Self {
        Self { stream, advanced: Mutex::default() }
    }

    fn advanced(&self) -> MutexGuard<'_, Advanced> {
        self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what was not reported yet. Called before a step ends, so that its sum is right.
    fn catch_up(&self) {
        let amount = std::mem::take(&mut self.advanced().amount);
        if amount > 0 {
            self.tell(ProgressWord::Advance { advance: amount });
        }
    }

    fn tell(&self, word: ProgressWord) {
        // The caller may be gone.
        let _ = self.stream.send(word);
    }
}

impl Progress for Told {
    fn step(&self, what: &str, total: Option<u64>) {
        self.catch_up();
        self.tell(ProgressWord::Step { step: what.to_owned(), total });
    }

    fn advance(&self, amount: u64) {
        let mut advanced = self.advanced();
        advanced.amount = advanced.amount.saturating_add(amount);
        if advanced.told.is_some_and(|told| told.elapsed() < EVERY) {
            return;
        }
        advanced.told = Some(Instant::now());
        drop(advanced);
        self.catch_up();
    }

    fn done(&self, remark: &str) {
        self.catch_up();
        self.tell(ProgressWord::Done { done: remark.to_owned() });
    }
}

/// Performs an action while its caller listens. If the caller is gone, the action's future is dropped.
pub(super) fn events(
    backend: ForCaller,
    action: &'static str,
    arguments: Map<String, Value>,
    part: Part,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let (sender, mut told) = mpsc::unbounded_channel();
    let progress: Arc<dyn Progress> = Arc::new(Told::new(sender));
    let stream = async_stream::stream! {
        let call = backend.call(Call { action, arguments, progress });
        tokio::pin!(call);
        let _part = part;
        let result = loop {
            tokio::select! {
                biased;
                Some(word) = told.recv() => yield Ok(event("progress", &json!(word))),
                result = &mut call => break result,
            }
        };
        while let Ok(word) = told.try_recv() {
            yield Ok(event("progress", &json!(word)));
        }
        yield Ok(match result {
            Ok(answer) => event("result", &answer.structured),
            Err(failure) => event("error", &json!(ErrorBody::from(&failure))),
        });
    };
    Sse::new(stream).keep_alive(KeepAlive::default().interval(HEARTBEAT))
}

pub(super) fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_small_advances_become_few_events_with_the_same_sum() {
        let (sender, mut told) = mpsc::unbounded_channel();
        let progress = Told::new(sender);
        progress.step("copying", Some(5000));
        (0..5000).for_each(|_| progress.advance(1));
        progress.done("");
        let (mut events, mut sum) = (0, 0);
        while let Ok(word) = told.try_recv() {
            events += 1;
            if let ProgressWord::Advance { advance } = word {
                sum += advance;
            }
        }
        assert_eq!(sum, 5000);
        // A slow machine sends one more for every 100 ms it takes.
        assert!(events < 2500, "{events} events");
    }
}
