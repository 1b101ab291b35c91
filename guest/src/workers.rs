//! Worker threads for requests. They are reused, because starting a thread is slow right after a restore.
//!
//! There is no limit on workers: a request never waits for another one to finish, except if a thread cannot be started.
//! The number of streams, and thus of requests, is limited by the session.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use crate::{frames::Scratch, log::log, sync::locked};

/// Workers started in advance, so that neither the first request nor one that overlaps it has to start a thread.
const PREPARED: usize = 2;
/// Maximum number of idle workers.
const KEPT: usize = 4;

/// One unit of work, usually a request.
pub(crate) trait Job: Send {
    /// Does the work.
    fn run(&mut self, scratch: &mut Scratch);
    /// Sends the response. The worker already counts as idle: the host's next request may arrive before this returns.
    fn conclude(self: Box<Self>, scratch: &mut Scratch);
}

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

    /// Hands a job to an idle worker, or starts one.
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

    /// Starts a worker. If that fails, the job waits for the next idle worker.
    fn start_worker(&self) {
        locked(&self.shared.state).idle += 1;
        let shared = Arc::clone(&self.shared);
        if let Err(error) = thread::Builder::new().name("worker".to_owned()).spawn(move || work(&shared)) {
            locked(&self.shared.state).idle -= 1;
            log(&format!("cannot start a worker thread: {error}"));
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
