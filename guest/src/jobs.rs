//! The table of jobs: commands that belong to the machine instead of a session. It lives in the agent's memory, so
//! every copy of the machine has it, and losing the host does not affect it.
//!
//! One lock protects the whole table. Memory is bounded: all outputs together use at most [`POT`]. Running jobs have
//! equal shares of it, finished jobs share the rest, and the oldest finished jobs are dropped first.

use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use agentiso_proto::{Channel, Control, Exit, JOB_OUTPUT, JobInfo, JobRead, JobStream, JobWait};

use crate::{
    bell::{Bell, Wakeable},
    command_io::{Input, Signals},
    controls::Controls,
    error::{Outcome, invalid, not_found},
    ring::Ring,
    sync::locked,
};

/// Maximum number of jobs in the table.
const MAX_JOBS: usize = 256;
/// Maximum output kept per channel of a job. Less if very many jobs run.
const LARGEST_RING: usize = 1024 * 1024;
/// Limit on the output of all jobs together. An equal share for each of [`MAX_JOBS`] is still useful.
const POT: usize = 64 * 1024 * 1024;
/// Limit on the stored bytes of a job's command line.
const MAX_ARGV: usize = 16 * 1024;

/// The table of jobs.
#[derive(Default)]
pub(crate) struct Jobs {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u32,
    jobs: BTreeMap<u32, Entry>,
}

struct Entry {
    argv: Vec<Vec<u8>>,
    started_unix_nanos: u64,
    exit: Option<Exit>,
    /// Wakes the supervisor. `None` once the job has ended.
    bell: Option<Arc<Bell>>,
    outputs: [Ring; 2],
    /// The next input, not yet taken by the supervisor.
    input: Option<Vec<u8>>,
    /// No input follows after `input`.
    input_over: bool,
    controls: Controls,
    cancelled: bool,
    /// Signalled on new output, consumed input, and exit.
    changed: Arc<Condvar>,
}

/// A job's output at one moment.
pub(crate) struct Written {
    pub(crate) info: JobInfo,
    pub(crate) stdout_from: u64,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr_from: u64,
    pub(crate) stderr: Vec<u8>,
}

/// A new job: a new command, or a running one that was detached from its stream.
pub(crate) struct Begun<'a> {
    pub(crate) argv: &'a [Vec<u8>],
    /// Input is sent with [`Jobs::feed`].
    pub(crate) stdin: bool,
    pub(crate) started_unix_nanos: u64,
    /// Bytes written to standard output and standard error before detaching. They are not kept.
    pub(crate) written: [u64; 2],
}

/// Wakes threads that wait for a job.
struct Waiters {
    jobs: Arc<Jobs>,
    changed: Arc<Condvar>,
}

impl Wakeable for Waiters {
    fn wake(&self) {
        // Take the lock once: a thread that has checked its condition holds it until it waits, so it cannot miss this
        // call.
        drop(locked(&self.jobs.table));
        self.changed.notify_all();
    }
}

impl Jobs {
    /// Adds a job that is about to start. Drops an older one if the table is full.
    pub(crate) fn enter(&self, begun: &Begun<'_>, bell: Arc<Bell>) -> Outcome<u32> {
        let mut table = locked(&self.table);
        if table.jobs.len() >= MAX_JOBS && !table.forget_oldest() {
            return Err(invalid(format!("{MAX_JOBS} jobs are already running; end one of them first")));
        }
        table.last = table.last.checked_add(1).ok_or_else(|| invalid("the job ids are exhausted"))?;
        let id = table.last;
        let entry = Entry {
            argv: shortened(begun.argv),
            started_unix_nanos: begun.started_unix_nanos,
            exit: None,
            bell: Some(bell),
            outputs: begun.written.map(Ring::beginning_at),
            input: None,
            input_over: !begun.stdin,
            controls: Controls::default(),
            cancelled: false,
            changed: Arc::default(),
        };
        table.jobs.insert(id, entry);
        table.share_out();
        Ok(id)
    }

    /// Reverts [`Self::enter`] for a job that failed to start.
    pub(crate) fn withdraw(&self, id: u32) {
        locked(&self.table).jobs.remove(&id);
    }

    /// Records a job's exit; `None` if the exit status is unknown.
    pub(crate) fn ended(&self, id: u32, exit: Option<Exit>) {
        self.change(id, |entry| {
            entry.exit = exit;
            entry.bell = None;
            entry.input = None;
            for ring in &mut entry.outputs {
                ring.shrink(usize::try_from(ring.end() - ring.first()).unwrap_or(usize::MAX));
            }
        });
    }

    /// Describes all jobs, in the order in which they started.
    pub(crate) fn list(&self) -> Vec<JobInfo> {
        locked(&self.table).jobs.iter().map(|(&id, entry)| entry.info(id)).collect()
    }

    /// Sends a control to a job. Does nothing if it has ended.
    pub(crate) fn control(&self, id: u32, control: Control) -> Outcome<()> {
        self.alert(id, |entry| {
            let pieces = usize::from(entry.input.is_some());
            entry.controls.push(control, pieces);
        })
    }

    /// Kills a job and all its descendants. Does nothing if it has ended.
    pub(crate) fn cancel(&self, id: u32) -> Outcome<()> {
        self.alert(id, |entry| entry.cancelled = true)
    }

    /// Removes an ended job from the table.
    pub(crate) fn forget(&self, id: u32) -> Outcome<()> {
        let mut table = locked(&self.table);
        if table.entry(id)?.is_running() {
            return Err(invalid(format!("job {id} is still running; end it first")));
        }
        // Nobody waits for a job that has ended.
        table.jobs.remove(&id);
        Ok(())
    }

    /// Wakes threads that wait for this job in [`Self::read`] or [`Self::feed`].
    pub(crate) fn waiters(self: &Arc<Self>, id: u32) -> Outcome<Arc<dyn Wakeable>> {
        let changed = Arc::clone(&locked(&self.table).entry(id)?.changed);
        Ok(Arc::new(Waiters { jobs: Arc::clone(self), changed }))
    }

    /// Reads output once the condition of the request is met or `until` has passed. `check` fails once the request has
    /// been cancelled.
    pub(crate) fn read(
        &self,
        request: &JobRead,
        until: Option<Instant>,
        check: impl Fn() -> Outcome<()>,
    ) -> Outcome<Written> {
        let mut table = locked(&self.table);
        loop {
            check()?;
            let entry = table.entry(request.id)?;
            let is_late = until.is_some_and(|until| until <= Instant::now());
            if is_late || entry.satisfies(request) {
                return Ok(entry.written(request));
            }
            let changed = Arc::clone(&entry.changed);
            table = wait(table, &changed, until);
        }
    }

    /// Passes input to a job once it has taken the previous input. `check` as in [`Self::read`].
    pub(crate) fn feed(
        &self,
        id: u32,
        bytes: &[u8],
        close: bool,
        check: impl Fn() -> Outcome<()>,
    ) -> Outcome<()> {
        let mut table = locked(&self.table);
        loop {
            check()?;
            let entry = table.jobs.get_mut(&id).ok_or_else(|| unknown(id))?;
            let Some(bell) = entry.bell.clone() else {
                return Err(invalid(format!("job {id} has ended and accepts no input")));
            };
            if entry.input_over {
                return Err(invalid(format!("the input of job {id} is closed")));
            }
            if entry.input.is_none() {
                entry.input = Some(bytes.to_vec()).filter(|bytes| !bytes.is_empty());
                entry.input_over = close;
                drop(table);
                bell.wake();
                return Ok(());
            }
            let changed = Arc::clone(&entry.changed);
            table = wait(table, &changed, None);
        }
    }

    // Called by a job's supervisor.

    /// What the supervisor must act on now.
    pub(crate) fn signals(&self, id: u32) -> Signals {
        let mut table = locked(&self.table);
        let entry = table.jobs.get_mut(&id);
        Signals {
            cancelled: entry.as_ref().is_none_or(|entry| entry.cancelled),
            ended: false,
            controls: entry.map(|entry| entry.controls.take()).unwrap_or_default(),
        }
    }

    /// Takes the next input, unless a control precedes it.
    pub(crate) fn take_input(&self, id: u32) -> Input {
        let mut table = locked(&self.table);
        let Some(entry) = table.jobs.get_mut(&id) else { return Input::Eof };
        if entry.controls.are_next() {
            return Input::Pending;
        }
        match entry.input.take() {
            Some(bytes) => {
                entry.controls.input_taken();
                entry.changed.notify_all();
                Input::Data(bytes)
            }
            None if entry.input_over => Input::Eof,
            None => Input::Pending,
        }
    }

    /// Records that the job has closed its input.
    pub(crate) fn refuse_input(&self, id: u32) {
        self.change(id, |entry| {
            entry.input = None;
            entry.input_over = true;
        });
    }

    /// Stores a chunk of output.
    pub(crate) fn keep(&self, id: u32, channel: Channel, bytes: &[u8]) {
        let index = usize::from(channel == Channel::Stderr);
        let mut table = locked(&self.table);
        let limit = table.share();
        let growth = table.jobs.get(&id).map_or(0, |entry| entry.outputs[index].growth(bytes.len(), limit));
        while growth > 0 && table.memory() + growth > POT && table.forget_oldest() {}
        if let Some(entry) = table.jobs.get_mut(&id) {
            entry.outputs[index].push(bytes, limit);
            entry.changed.notify_all();
        }
    }

    /// Changes a running job and wakes its supervisor.
    fn alert(&self, id: u32, change: impl FnOnce(&mut Entry)) -> Outcome<()> {
        let mut table = locked(&self.table);
        let entry = table.jobs.get_mut(&id).ok_or_else(|| unknown(id))?;
        let Some(bell) = entry.bell.clone() else { return Ok(()) };
        change(entry);
        drop(table);
        bell.wake();
        Ok(())
    }

    /// Changes a job and wakes the threads that wait for it.
    fn change(&self, id: u32, change: impl FnOnce(&mut Entry)) {
        let mut table = locked(&self.table);
        let Some(entry) = table.jobs.get_mut(&id) else { return };
        change(entry);
        entry.changed.notify_all();
    }
}

impl Table {
    fn entry(&self, id: u32) -> Outcome<&Entry> {
        self.jobs.get(&id).ok_or_else(|| unknown(id))
    }

    /// Drops the oldest ended job. Returns false if there is none.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.jobs.iter().find(|(_, entry)| !entry.is_running()).map(|(&id, _)| id);
        oldest.and_then(|id| self.jobs.remove(&id)).is_some()
    }

    /// The maximum ring size per channel with which all running jobs together stay within [`POT`].
    fn share(&self) -> usize {
        let running = self.jobs.values().filter(|entry| entry.is_running()).count();
        let even = POT / (2 * running.max(1));
        LARGEST_RING.min((even / 2 + 1).next_power_of_two())
    }

    /// Shrinks the output of running jobs to their share.
    fn share_out(&mut self) {
        let limit = self.share();
        let running = self.jobs.values_mut().filter(|entry| entry.is_running());
        for ring in running.flat_map(|entry| &mut entry.outputs) {
            ring.shrink(limit);
        }
    }

    fn memory(&self) -> usize {
        self.jobs.values().flat_map(|entry| &entry.outputs).map(Ring::memory).sum()
    }
}

impl Entry {
    fn is_running(&self) -> bool {
        self.bell.is_some()
    }

    fn info(&self, id: u32) -> JobInfo {
        let [stdout, stderr] =
            self.outputs.each_ref().map(|ring| JobStream { first: ring.first(), end: ring.end() });
        JobInfo {
            id,
            argv: self.argv.clone(),
            started_unix_nanos: self.started_unix_nanos,
            running: self.is_running(),
            exit: self.exit,
            stdout,
            stderr,
            stdin_open: self.is_running() && !self.input_over,
        }
    }

    fn satisfies(&self, request: &JobRead) -> bool {
        let [stdout, stderr] = &self.outputs;
        match request.wait {
            JobWait::No => true,
            _ if !self.is_running() => true,
            JobWait::Output => stdout.end() > request.stdout_from || stderr.end() > request.stderr_from,
            JobWait::Exit => false,
        }
    }

    fn written(&self, request: &JobRead) -> Written {
        let max = (request.max as usize).min(JOB_OUTPUT);
        let (stdout_from, stdout) = self.outputs[0].read(request.stdout_from, max);
        let (stderr_from, stderr) = self.outputs[1].read(request.stderr_from, max);
        Written { info: self.info(request.id), stdout_from, stdout, stderr_from, stderr }
    }
}

fn wait<'a>(
    table: MutexGuard<'a, Table>,
    changed: &Condvar,
    until: Option<Instant>,
) -> MutexGuard<'a, Table> {
    match until {
        None => changed.wait(table).unwrap_or_else(PoisonError::into_inner),
        Some(until) => {
            let left = until.saturating_duration_since(Instant::now());
            changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0
        }
    }
}

fn unknown(id: u32) -> agentiso_proto::GuestError {
    not_found(format!("there is no job {id}"))
}

/// Cuts a command line to [`MAX_ARGV`] bytes.
fn shortened(argv: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut left = MAX_ARGV;
    let mut kept = Vec::new();
    for word in argv {
        // Even an empty argument uses some memory.
        let Some(rest) = left.checked_sub(size_of::<Vec<u8>>()) else { break };
        let word = &word[..word.len().min(rest)];
        left = rest - word.len();
        kept.push(word.to_vec());
    }
    kept
}
