//! The state of one stream, shared by the reader, the writer and the caller. No lock is held across a wait.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentiso_proto::{
    Channel, DirEntry, FoundEntry, GrepMatch, HookReport, JobInfo, Response, Secret, WINDOW,
};
use tokio::sync::Notify;

use super::LinkError;

/// Credit is granted in chunks of this size, not for every read.
const GRANT: u32 = WINDOW / 4;
/// Small waiting pieces are joined up to this length, so that a guest that sends its window byte by byte costs little more
/// memory than the window.
const JOINED: usize = 16 * 1024;
/// With more waiting pieces than this, joining may change the order between the two channels of a command.
const BACKLOG: usize = 64;
/// The cost of an empty response against the budget.
const RESPONSE_COST: usize = 64;

/// What the guest may send on a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Channels on which data may arrive.
    pub(super) receives: &'static [Channel],
    /// Bytes of memory for waiting responses.
    pub(super) budget: usize,
}

/// Something that arrived.
#[derive(Debug)]
pub(super) enum Event {
    Data(Channel, Vec<u8>),
    End(Channel),
    Response(Response),
    Last(Response),
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    shape: Shape,
    state: Mutex<State>,
    arrived: Notify,
    credited: Notify,
}

#[derive(Debug)]
struct State {
    events: VecDeque<Event>,
    flows: [Flow; 3],
    response_bytes: usize,
    /// The host's remaining credit on the main channel.
    credit: u32,
    finished: bool,
    cancelled: bool,
    failed: Option<LinkError>,
}

/// One channel from the guest.
#[derive(Debug)]
struct Flow {
    open: bool,
    /// The guest's remaining credit.
    allowance: u32,
    /// What the caller took and is not granted again yet.
    owed: u32,
    /// Whether a grant is in the writer's queue.
    granting: bool,
}

impl Stream {
    pub(super) fn new(id: u32, shape: Shape) -> Self {
        let flow = |channel: Channel| Flow {
            open: shape.receives.contains(&channel),
            allowance: WINDOW,
            owed: 0,
            granting: false,
        };
        let state = State {
            events: VecDeque::new(),
            flows: [flow(Channel::Main), flow(Channel::Stdout), flow(Channel::Stderr)],
            response_bytes: 0,
            credit: WINDOW,
            finished: false,
            cancelled: false,
            failed: None,
        };
        Self { id, shape, state: Mutex::new(state), arrived: Notify::new(), credited: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds data from the guest. The error describes a violation of the protocol.
    pub(super) fn data(&self, channel: Channel, payload: Vec<u8>) -> Result<(), String> {
        let mut state = self.lock();
        let flow = &mut state.flows[channel as usize];
        if !flow.open {
            return Err(format!("data on stream {} where none may come", self.id));
        }
        let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        flow.allowance = flow
            .allowance
            .checked_sub(len)
            .ok_or_else(|| format!("more data on stream {} than it was allowed", self.id))?;
        if state.failed.is_none() && !payload.is_empty() {
            enqueue(&mut state.events, channel, payload);
            drop(state);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Records the end of a channel's data.
    pub(super) fn eof(&self, channel: Channel) -> Result<(), String> {
        let mut state = self.lock();
        if !std::mem::take(&mut state.flows[channel as usize].open) {
            return Err(format!("end of data on stream {} where none may come", self.id));
        }
        if state.failed.is_none() {
            state.events.push_back(Event::End(channel));
            drop(state);
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Adds a response whose encoding has `size` bytes.
    pub(super) fn response(&self, response: Response, size: usize, last: bool) {
        let mut state = self.lock();
        state.finished |= last;
        state.response_bytes += size + RESPONSE_COST + lists_cost(&response);
        if state.response_bytes > self.shape.budget {
            state.failed.get_or_insert(LinkError::AnswerTooLarge { limit: self.shape.budget });
            state.events.clear();
        } else if state.failed.is_none() {
            state.events.push_back(if last { Event::Last(response) } else { Event::Response(response) });
        }
        drop(state);
        self.arrived.notify_one();
        self.credited.notify_one();
    }

    /// Adds `amount` to the host's credit.
    pub(super) fn credit(&self, amount: u32) -> Result<(), String> {
        let mut state = self.lock();
        let credit = state.credit.checked_add(amount).filter(|&credit| credit <= WINDOW);
        state.credit = credit.ok_or_else(|| format!("more credit on stream {} than was used", self.id))?;
        drop(state);
        self.credited.notify_one();
        Ok(())
    }

    /// Records the end of the session; what arrived before can still be taken.
    pub(super) fn fail(&self, error: LinkError) {
        self.lock().failed.get_or_insert(error);
        self.arrived.notify_one();
        self.credited.notify_one();
    }

    /// Frees waiting data that will not be taken.
    pub(super) fn forget(&self) {
        self.lock().events.clear();
    }

    /// The next event, and whether its channel is due for a grant. Cancel-safe.
    pub(super) async fn next(&self) -> Result<(Event, bool), LinkError> {
        loop {
            if let Some(found) = self.try_next() {
                return found;
            }
            self.arrived.notified().await;
        }
    }

    fn try_next(&self) -> Option<Result<(Event, bool), LinkError>> {
        let mut state = self.lock();
        let Some(event) = state.events.pop_front() else {
            return state.failed.clone().map(Err);
        };
        let mut due = false;
        if let Event::Data(channel, bytes) = &event {
            let finished = state.finished;
            let flow = &mut state.flows[*channel as usize];
            // Never more than the window, which is a u32.
            flow.owed += bytes.len() as u32;
            due = flow.owed >= GRANT && flow.open && !flow.granting && !finished;
            flow.granting |= due;
        }
        Some(Ok((event, due)))
    }

    /// The credit to grant now. It is counted when the grant is written, so a guest that reads nothing gets none.
    pub(super) fn grant(&self, channel: Channel) -> u32 {
        let mut state = self.lock();
        let flow = &mut state.flows[channel as usize];
        flow.granting = false;
        let owed = std::mem::take(&mut flow.owed);
        flow.allowance += owed;
        owed
    }

    /// Waits until the host has credit, and returns how much.
    pub(super) async fn sendable(&self) -> Result<usize, LinkError> {
        loop {
            {
                let state = self.lock();
                if state.finished {
                    return Err(LinkError::InputEnded);
                }
                if let Some(error) = &state.failed {
                    return Err(error.clone());
                }
                if state.credit > 0 {
                    return Ok(state.credit as usize);
                }
            }
            self.credited.notified().await;
        }
    }

    /// Records that `len` bytes were sent, at most what [`Self::sendable`] returned.
    pub(super) fn spend(&self, len: usize) {
        let mut state = self.lock();
        state.credit = state.credit.saturating_sub(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Returns true the first time: a stream is cancelled only once.
    pub(super) fn cancel_once(&self) -> bool {
        !std::mem::replace(&mut self.lock().cancelled, true)
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().finished
    }
}

/// The memory of a decoded response. Lists take far more than on the wire.
fn lists_cost(response: &Response) -> usize {
    let job = |info: &JobInfo| size_of::<JobInfo>() + info.argv.len() * size_of::<Vec<u8>>();
    let found = |found: &GrepMatch| {
        size_of::<GrepMatch>() + (found.before.len() + found.after.len()) * size_of::<Vec<u8>>()
    };
    match response {
        Response::Entries(entries) => entries.len() * size_of::<DirEntry>(),
        Response::Woken { hooks } => hooks.len() * size_of::<HookReport>(),
        Response::Jobs(jobs) => jobs.iter().map(job).sum(),
        Response::JobOutput { info, .. } => job(info),
        Response::Found(entries) => entries.len() * size_of::<FoundEntry>(),
        Response::Matches(matches) => matches.iter().map(found).sum(),
        Response::Env(variables) => variables.len() * size_of::<(String, Secret)>(),
        Response::Done
        | Response::Error(_)
        | Response::Started { .. }
        | Response::Exited(_)
        | Response::Metadata(_)
        | Response::Written { .. }
        | Response::Status(_)
        | Response::JobStarted { .. }
        | Response::EnvSet { .. }
        | Response::Connected
        | Response::FindDone { .. }
        | Response::GrepDone(_)
        | Response::Clock { .. }
        | Response::Detached { .. }
        | Response::InputRead { .. } => 0,
    }
}

/// Appends data, joining it to a small waiting piece of the same channel.
fn enqueue(events: &mut VecDeque<Event>, channel: Channel, payload: Vec<u8>) {
    let reach = if events.len() < BACKLOG { 1 } else { 2 };
    for event in events.iter_mut().rev().take(reach) {
        match event {
            Event::Data(of, waiting) if *of == channel && waiting.len() + payload.len() <= JOINED => {
                waiting.extend_from_slice(&payload);
                return;
            }
            // May overtake only the other channel's data.
            Event::Data(of, _) if *of != channel => {}
            _ => break,
        }
    }
    events.push_back(Event::Data(channel, payload));
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAND: Shape = Shape { receives: &[Channel::Stdout, Channel::Stderr], budget: 4096 };

    #[test]
    fn a_window_sent_byte_by_byte_on_alternating_channels_is_held_in_few_pieces() {
        let stream = Stream::new(1, COMMAND);
        for _ in 0..WINDOW {
            stream.data(Channel::Stdout, vec![1]).unwrap();
            stream.data(Channel::Stderr, vec![2]).unwrap();
        }
        let state = stream.lock();
        assert!(state.events.len() <= BACKLOG + 2 * (WINDOW as usize / JOINED) + 2, "{}", state.events.len());
        for channel in [Channel::Stdout, Channel::Stderr] {
            let held: usize = state.events.iter().map(|event| length_on(event, channel)).sum();
            assert_eq!(held, WINDOW as usize);
        }
    }

    #[test]
    fn a_small_backlog_keeps_the_order_between_channels() {
        let stream = Stream::new(1, COMMAND);
        for (channel, byte) in [(Channel::Stdout, 1), (Channel::Stderr, 2), (Channel::Stdout, 3)] {
            stream.data(channel, vec![byte]).unwrap();
        }
        let order: Vec<_> = stream.lock().events.iter().map(|event| format!("{event:?}")).collect();
        assert_eq!(order, ["Data(Stdout, [1])", "Data(Stderr, [2])", "Data(Stdout, [3])"]);
    }

    #[test]
    fn data_after_the_end_of_its_channel_is_refused() {
        let stream = Stream::new(1, COMMAND);
        stream.eof(Channel::Stdout).unwrap();
        stream.data(Channel::Stdout, vec![1]).unwrap_err();
        stream.eof(Channel::Stdout).unwrap_err();
        stream.data(Channel::Stderr, vec![1]).unwrap();
    }

    #[test]
    fn credit_beyond_the_window_is_refused() {
        let stream = Stream::new(1, COMMAND);
        stream.credit(1).unwrap_err();
        stream.spend(10);
        stream.credit(10).unwrap();
        stream.credit(u32::MAX).unwrap_err();
    }

    fn length_on(event: &Event, channel: Channel) -> usize {
        match event {
            Event::Data(of, bytes) if *of == channel => bytes.len(),
            _ => 0,
        }
    }
}
