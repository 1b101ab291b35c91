//! The jobs the agent remembers: commands that belong to the machine, not to a session. Since they live here, they are
//! in every copy of the machine's memory, and no loss of a host touches them.
//!
//! All that jobs keep is behind one lock. Its memory is bounded: the outputs together take [`POT`] at most, of which
//! the running jobs have even shares and finished ones what is left, the oldest being forgotten first.

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

/// Jobs remembered at most.
const MAX_JOBS: usize = 256;
/// What is kept of each output of a job, unless very many run.
const LARGEST_RING: usize = 1024 * 1024;
/// What the outputs of all jobs take together. Even shares of it for [`MAX_JOBS`] are still of some use.
const POT: usize = 64 * 1024 * 1024;
/// What is remembered of the words of a job's command line.
const MAX_ARGV: usize = 16 * 1024;

/// The jobs.
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
    /// There while it runs; wakes its supervisor.
    bell: Option<Arc<Bell>>,
    outputs: [Ring; 2],
    /// The next input, which the supervisor has not taken yet.
    input: Option<Vec<u8>>,
    /// No more input comes after that.
    input_over: bool,
    controls: Controls,
    cancelled: bool,
    /// Output came, input went, or it ended.
    changed: Arc<Condvar>,
}

/// What a job had written, at one moment.
pub(crate) struct Written {
    pub(crate) info: JobInfo,
    pub(crate) stdout_from: u64,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr_from: u64,
    pub(crate) stderr: Vec<u8>,
}

/// A job as it begins: with its command, or with one that ran for a stream until now.
pub(crate) struct Begun<'a> {
    pub(crate) argv: &'a [Vec<u8>],
    /// Input comes by [`Jobs::feed`].
    pub(crate) stdin: bool,
    pub(crate) started_unix_nanos: u64,
    /// Bytes it wrote to standard output and standard error before, which are not kept.
    pub(crate) written: [u64; 2],
}

/// Wakes whoever waits for a job.
struct Waiters {
    jobs: Arc<Jobs>,
    changed: Arc<Condvar>,
}

impl Wakeable for Waiters {
    fn wake(&self) {
        // Whoever has looked already holds the lock until it waits, so the call cannot fall in between.
        drop(locked(&self.jobs.table));
        self.changed.notify_all();
    }
}

impl Jobs {
    /// Makes a place for a job that is about to start, forgetting an older one if need be.
    pub(crate) fn enter(&self, begun: &Begun<'_>, bell: Arc<Bell>) -> Outcome<u32> {
        let mut table = locked(&self.table);
        if table.jobs.len() >= MAX_JOBS && !table.forget_oldest() {
            return Err(invalid(format!("{MAX_JOBS} jobs run already; end one of them first")));
        }
        table.last =
            table.last.checked_add(1).ok_or_else(|| invalid("there are no more numbers for jobs"))?;
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

    /// Undoes [`Self::enter`] for a job that could not be started.
    pub(crate) fn withdraw(&self, id: u32) {
        locked(&self.table).jobs.remove(&id);
    }

    /// Notes a job's end; `None` if it is not known how it ended.
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

    /// About all of them, in the order in which they were started.
    pub(crate) fn list(&self) -> Vec<JobInfo> {
        locked(&self.table).jobs.iter().map(|(&id, entry)| entry.info(id)).collect()
    }

    /// Sends a control to a job; one that has ended is left alone.
    pub(crate) fn control(&self, id: u32, control: Control) -> Outcome<()> {
        self.alert(id, |entry| {
            let pieces = usize::from(entry.input.is_some());
            entry.controls.push(control, pieces);
        })
    }

    /// Has a job and all that descends from it ended; one that has ended is left alone.
    pub(crate) fn cancel(&self, id: u32) -> Outcome<()> {
        self.alert(id, |entry| entry.cancelled = true)
    }

    /// Forgets a job that has ended.
    pub(crate) fn forget(&self, id: u32) -> Outcome<()> {
        let mut table = locked(&self.table);
        if table.entry(id)?.is_running() {
            return Err(invalid(format!("job {id} still runs; end it first")));
        }
        // Nobody waits for what has ended.
        table.jobs.remove(&id);
        Ok(())
    }

    /// What wakes those that wait for a job in [`Self::read`] or [`Self::feed`].
    pub(crate) fn waiters(self: &Arc<Self>, id: u32) -> Outcome<Arc<dyn Wakeable>> {
        let changed = Arc::clone(&locked(&self.table).entry(id)?.changed);
        Ok(Arc::new(Waiters { jobs: Arc::clone(self), changed }))
    }

    /// Reads output, as soon as there is what the request waits for or `until` has come. `check` says whether somebody
    /// still wants it.
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
            if is_late || entry.has_what_is_wanted(request) {
                return Ok(entry.written(request));
            }
            let changed = Arc::clone(&entry.changed);
            table = wait(table, &changed, until);
        }
    }

    /// Hands input over as soon as the job has taken what came before. `check` as above.
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
                return Err(invalid(format!("job {id} has ended, so it takes no input")));
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

    // What a job's supervisor does.

    /// What must be acted on now.
    pub(crate) fn signals(&self, id: u32) -> Signals {
        let mut table = locked(&self.table);
        let entry = table.jobs.get_mut(&id);
        Signals {
            cancelled: entry.as_ref().is_none_or(|entry| entry.cancelled),
            ended: false,
            controls: entry.map(|entry| entry.controls.take()).unwrap_or_default(),
        }
    }

    /// The next input, if it is there and no control waits before it.
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

    /// The job reads no more input.
    pub(crate) fn refuse_input(&self, id: u32) {
        self.change(id, |entry| {
            entry.input = None;
            entry.input_over = true;
        });
    }

    /// Keeps a piece of output.
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

    /// Changes a job and wakes those who wait for it.
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

    /// Forgets the oldest job that has ended; says whether there was one.
    fn forget_oldest(&mut self) -> bool {
        let oldest = self.jobs.iter().find(|(_, entry)| !entry.is_running()).map(|(&id, _)| id);
        oldest.and_then(|id| self.jobs.remove(&id)).is_some()
    }

    /// The largest ring a running job may have: all of them at that size are no more than the pot.
    fn share(&self) -> usize {
        let running = self.jobs.values().filter(|entry| entry.is_running()).count();
        let even = POT / (2 * running.max(1));
        LARGEST_RING.min((even / 2 + 1).next_power_of_two())
    }

    /// Takes from the running jobs what is more than their share.
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

    fn has_what_is_wanted(&self, request: &JobRead) -> bool {
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

/// As many words as are remembered, the last of them cut.
fn shortened(argv: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut left = MAX_ARGV;
    let mut kept = Vec::new();
    for word in argv {
        // Even an empty word takes some memory.
        let Some(rest) = left.checked_sub(size_of::<Vec<u8>>()) else { break };
        let word = &word[..word.len().min(rest)];
        left = rest - word.len();
        kept.push(word.to_vec());
    }
    kept
}
