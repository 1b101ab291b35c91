//! Starts jobs and handles the host's requests about them.

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use agentiso_proto::{
    Channel, Control, DATA_PAYLOAD, Exec, JOB_INPUT, JobInfo, JobRead, JobWait, Kind, Response,
};
use rustix::process::Signal;

use crate::{
    agent::Agent,
    bell::Bell,
    command_io::{CommandIo, Input, Signals},
    error::{Outcome, invalid},
    exec,
    frames::Scratch,
    hold,
    jobs::{Begun, Jobs},
    link::Ended,
    stream::Stream,
    workers,
};

/// Output up to this size is sent together with the response.
const SMALL: usize = 16 * 1024;
/// A batch of jobs is sent when their arguments have this many bytes. It must fit in a frame.
const BATCH: usize = 64 * 1024;

/// Starts a job. Another worker supervises it while it runs.
pub(crate) fn start(agent: &Arc<Agent>, exec: &Exec) -> Outcome<Response> {
    hold::refuse_if_held(agent)?;
    if exec.tty.is_some() {
        return Err(invalid("a job has no terminal"));
    }
    let bell = Arc::new(Bell::new()?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let job = Begun {
        argv: &exec.argv,
        stdin: exec.stdin,
        started_unix_nanos: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        written: [0; 2],
    };
    let id = agent.jobs.enter(&job, Arc::clone(&bell))?;
    let (begun, beginning) = mpsc::channel();
    let attendance = Attendance { agent: Arc::clone(agent), exec: exec.clone(), id, bell, begun };
    agent.workers.submit(Box::new(attendance));
    beginning.recv().unwrap_or_else(|_| Err(invalid("the job was cancelled before it started")))?;
    Ok(Response::JobStarted { id })
}

/// Lists all jobs.
pub(crate) fn list(agent: &Agent, stream: &Stream) -> Outcome<Response> {
    let mut batch: Vec<JobInfo> = Vec::new();
    let mut bytes = 0;
    for info in agent.jobs.list() {
        bytes += info.argv.iter().map(|word| word.len() + 4).sum::<usize>() + size_of::<JobInfo>();
        batch.push(info);
        if bytes >= BATCH {
            stream.respond(&Response::Jobs(std::mem::take(&mut batch)))?;
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        stream.respond(&Response::Jobs(batch))?;
    }
    Ok(Response::Done)
}

/// Sends part of a job's output.
pub(crate) fn read(
    agent: &Agent,
    stream: &Stream,
    request: &JobRead,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    let until = match request.wait {
        JobWait::No => None,
        // A deadline that overflows is never reached.
        _ => Instant::now().checked_add(Duration::from_millis(request.wait_ms.into())),
    };
    stream.wake_through(Some(agent.jobs.waiters(request.id)?));
    let written = agent.jobs.read(request, until, || stream.check());
    stream.wake_through(None);
    let written = written?;
    for (channel, bytes) in [(Channel::Stdout, &written.stdout), (Channel::Stderr, &written.stderr)] {
        send(stream, channel, bytes, scratch)?;
    }
    let (stdout_from, stderr_from) = (written.stdout_from, written.stderr_from);
    Ok(Response::JobOutput { info: written.info, stdout_from, stderr_from })
}

/// Sends output without waiting for credit: a read returns less than the window of a new stream.
fn send(stream: &Stream, channel: Channel, bytes: &[u8], scratch: &mut Scratch) -> Outcome<()> {
    if bytes.len() <= SMALL {
        if !bytes.is_empty() {
            stream.append(Kind::Data, channel, bytes, &mut scratch.tail);
        }
        return Ok(());
    }
    for piece in bytes.chunks(DATA_PAYLOAD) {
        scratch.data.space()[..piece.len()].copy_from_slice(piece);
        scratch.data.advance(piece.len());
        stream.send_data(channel, &mut scratch.data)?;
    }
    Ok(())
}

/// Writes to a job's input.
pub(crate) fn write(agent: &Agent, stream: &Stream, id: u32, bytes: &[u8], close: bool) -> Outcome<Response> {
    if bytes.len() > JOB_INPUT {
        return Err(invalid(format!("a job accepts at most {JOB_INPUT} bytes of input per request")));
    }
    stream.wake_through(Some(agent.jobs.waiters(id)?));
    let fed = agent.jobs.feed(id, bytes, close, || stream.check());
    stream.wake_through(None);
    fed.map(|()| Response::Written { bytes: bytes.len() as u64 })
}

/// Sends a signal to a job. SIGKILL kills all its processes.
pub(crate) fn signal(agent: &Agent, id: u32, number: i32) -> Outcome<Response> {
    match Signal::from_named_raw(number) {
        None => return Err(invalid(format!("{number} is not a valid signal number"))),
        Some(Signal::KILL) => agent.jobs.cancel(id)?,
        Some(_) => agent.jobs.control(id, Control::Signal(number))?,
    }
    Ok(Response::Done)
}

/// A worker's task of supervising one job.
struct Attendance {
    agent: Arc<Agent>,
    exec: Exec,
    id: u32,
    bell: Arc<Bell>,
    begun: mpsc::Sender<Outcome<()>>,
}

impl workers::Job for Attendance {
    fn run(&mut self, scratch: &mut Scratch) {
        scratch.data.clear();
        scratch.tail.clear();
        let (jobs, id, begun) = (&self.agent.jobs, self.id, self.begun.clone());
        let io: Arc<dyn CommandIo> = Arc::new(Client::new(jobs, id));
        let place = self.agent.running.enter(Arc::clone(&io));
        let mut has_started = false;
        let started = |_| {
            has_started = true;
            // The requester may have disconnected; the job is in the list anyway.
            let _ = begun.send(Ok(()));
        };
        let result = exec::carry_out(&self.agent, &self.exec, &place, &*io, &self.bell, scratch, started);
        match result {
            Err(error) if !has_started => {
                jobs.withdraw(id);
                drop(place);
                let _ = self.begun.send(Err(error));
            }
            result => jobs.ended(id, result.ok()),
        }
    }

    fn conclude(self: Box<Self>, _scratch: &mut Scratch) {}
}

/// A job as its supervisor sees it.
pub(crate) struct Client {
    jobs: Arc<Jobs>,
    id: u32,
}

impl Client {
    pub(crate) fn new(jobs: &Arc<Jobs>, id: u32) -> Self {
        Self { jobs: Arc::clone(jobs), id }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl CommandIo for Client {
    fn signals(&self) -> Signals {
        self.jobs.signals(self.id)
    }

    fn try_receive(&self) -> Input {
        self.jobs.take_input(self.id)
    }

    fn room(&self, _channel: Channel) -> usize {
        DATA_PAYLOAD
    }

    fn take_output(&self, channel: Channel, scratch: &mut Scratch, _at_last: bool) -> Result<(), Ended> {
        self.jobs.keep(self.id, channel, scratch.data.payload());
        Ok(())
    }

    fn input_refused(&self) {
        self.jobs.refuse_input(self.id);
    }

    fn cancel(&self) {
        // This fails only if the job has just ended.
        let _ = self.jobs.cancel(self.id);
    }
}
