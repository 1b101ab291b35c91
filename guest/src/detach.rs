//! Input and output of a command that the host may turn into a job: first its stream, then the job.
//!
//! ```text
//!  stream ── Control::Detach ──► the job is created, its byte counts continue those of the stream;
//!                                the stream ends with Response::Detached; the command is not affected
//! ```

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use agentiso_proto::{Channel, Exec, Exit, Response};

use crate::{
    agent::Agent,
    bell::Bell,
    command_io::{CommandIo, Input, Signals},
    frames::Scratch,
    job,
    jobs::Begun,
    link::Ended,
    session::Streams,
    stream::Stream,
    sync::locked,
};

/// A stream and, once detached, the job that replaced it.
pub(crate) struct Detachable {
    agent: Arc<Agent>,
    streams: Arc<Streams>,
    stream: Arc<Stream>,
    argv: Vec<Vec<u8>>,
    has_terminal: bool,
    bell: Arc<Bell>,
    started_unix_nanos: u64,
    /// Bytes of standard output and standard error that were sent to the stream.
    sent: [AtomicU64; 2],
    job: OnceLock<job::Client>,
}

impl Detachable {
    pub(crate) fn new(
        agent: &Arc<Agent>,
        streams: &Arc<Streams>,
        stream: &Arc<Stream>,
        exec: &Exec,
        bell: &Arc<Bell>,
    ) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            agent: Arc::clone(agent),
            streams: Arc::clone(streams),
            stream: Arc::clone(stream),
            argv: exec.argv.clone(),
            has_terminal: exec.tty.is_some(),
            bell: Arc::clone(bell),
            started_unix_nanos: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            sent: Default::default(),
            job: OnceLock::new(),
        }
    }

    /// Records the exit of a detached command. Returns whether the command was detached.
    pub(crate) fn ended(&self, exit: Option<Exit>) -> bool {
        let Some(job) = self.job.get() else { return false };
        self.agent.jobs.ended(job.id(), exit);
        true
    }
}

impl CommandIo for Detachable {
    fn signals(&self) -> Signals {
        match self.job.get() {
            Some(job) => job.signals(),
            None => self.stream.signals(),
        }
    }

    fn try_receive(&self) -> Input {
        match self.stream.try_receive() {
            // Input that the host sent before detaching is still read; then the input ends.
            Input::Pending if self.job.get().is_some() => Input::Eof,
            input => input,
        }
    }

    fn room(&self, channel: Channel) -> usize {
        match self.job.get() {
            Some(job) => job.room(channel),
            None => self.stream.room(channel),
        }
    }

    fn take_output(&self, channel: Channel, scratch: &mut Scratch, at_last: bool) -> Result<(), Ended> {
        if let Some(job) = self.job.get() {
            return job.take_output(channel, scratch, at_last);
        }
        let index = usize::from(channel == Channel::Stderr);
        self.sent[index].fetch_add(scratch.data.filled() as u64, Ordering::Relaxed);
        self.stream.take_output(channel, scratch, at_last)
    }

    fn input_refused(&self) {}

    fn input_read(&self, bytes: u64) {
        if self.job.get().is_none() {
            self.stream.input_read(bytes);
        }
    }

    fn cancel(&self) {
        match self.job.get() {
            Some(job) => job.cancel(),
            None => self.stream.cancel(),
        }
    }

    fn detach(&self) -> bool {
        if self.has_terminal || self.job.get().is_some() {
            return false;
        }
        let begun = Begun {
            argv: &self.argv,
            stdin: false,
            started_unix_nanos: self.started_unix_nanos,
            written: self.sent.each_ref().map(|sent| sent.load(Ordering::Relaxed)),
        };
        // If there is no room for another job, the stream stays open and the host keeps waiting.
        let Ok(id) = self.agent.jobs.enter(&begun, Arc::clone(&self.bell)) else { return false };
        if self.job.set(job::Client::new(&self.agent.jobs, id)).is_err() {
            return false;
        }
        self.stream.wake_through(None);
        // A stream that has ended returns no credit.
        self.stream.finish_input();
        locked(&self.streams).remove(&self.stream.id());
        self.stream.conclude(Ok(Response::Detached { id }), &mut Vec::new());
        true
    }
}
