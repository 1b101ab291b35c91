//! Worker threads, kept for the next request: starting a thread is dear right after a restore.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use crate::{frames::Scratch, log::log, sync::locked};

/// Started at once, so that neither the first requests nor one that overlaps its predecessor starts a thread.
const PREPARED: usize = 2;
/// Idle workers beyond this end.
const KEPT: usize = 4;

/// One request.
pub(crate) trait Job: Send {
    /// Does the work.
    fn run(&mut self, scratch: &mut Scratch);
    /// Tells the host. The worker already counts as idle: the host's next request may come before this returns.
    fn conclude(self: Box<Self>, scratch: &mut Scratch);
}

/// The workers.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<dyn Job>>,
    idle: usize,
}

impl Workers {
    pub(crate) fn new() -> Self {
        let workers = Self { shared: Arc::default() };
        for _ in 0..PREPARED {
            workers.start_worker();
        }
        workers
    }

    /// Hands a job to an idle worker, or to a new one.
    pub(crate) fn submit(&self, job: Box<dyn Job>) {
        let mut state = locked(&self.shared.state);
        state.queue.push_back(job);
        let short = state.queue.len() > state.idle;
        drop(state);
        if short {
            self.start_worker();
        }
        self.shared.arrived.notify_one();
    }

    /// If no thread is to be had, the job waits for the next worker that becomes idle.
    fn start_worker(&self) {
        locked(&self.shared.state).idle += 1;
        let shared = Arc::clone(&self.shared);
        if let Err(error) = thread::Builder::new().name("worker".to_owned()).spawn(move || work(&shared)) {
            locked(&self.shared.state).idle -= 1;
            log(&format!("cannot start a worker: {error}"));
        }
    }
}

fn work(shared: &Shared) {
    let mut scratch = Scratch::default();
    loop {
        let mut state = locked(&shared.state);
        let mut job = loop {
            match state.queue.pop_front() {
                Some(job) => break job,
                None if state.idle > KEPT => {
                    state.idle -= 1;
                    return;
                }
                None => state = shared.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        };
        state.idle -= 1;
        drop(state);
        job.run(&mut scratch);
        locked(&shared.state).idle += 1;
        job.conclude(&mut scratch);
        scratch.group = None;
    }
}
