//! One stream of a session: data received from the host, and the credit for sending.
//!
//! The link thread is the producer, one worker is the consumer.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use agentiso_proto::{Channel, Control, DATA_PAYLOAD, GuestError, Kind, Response, WINDOW, encode, to_bytes};

use crate::{
    bell::Wakeable,
    command_io::{CommandIo, Input, Signals},
    controls::Controls,
    error::{Outcome, cancelled, invalid},
    frames::{DataFrame, Scratch},
    link::{Ended, Epoch, Link},
    sync::locked,
};

/// Credit is returned to the host in units of at least this size.
const CREDIT_LUMP: u32 = WINDOW / 4;

pub(crate) struct Stream {
    id: u32,
    link: Arc<Link>,
    epoch: Epoch,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    credit: [u32; 3],
    inbox: VecDeque<Vec<u8>>,
    inbox_room: u32,
    consumed: u32,
    eof: bool,
    controls: Controls,
    cancelled: bool,
    overrun: bool,
    ended: bool,
    concluded: bool,
    waiting: Option<Arc<dyn Wakeable>>,
}

impl Stream {
    pub(crate) fn new(id: u32, link: Arc<Link>, epoch: Epoch) -> Self {
        let state = State {
            credit: [WINDOW; 3],
            inbox: VecDeque::new(),
            inbox_room: WINDOW,
            consumed: 0,
            eof: false,
            controls: Controls::default(),
            cancelled: false,
            overrun: false,
            ended: false,
            concluded: false,
            waiting: None,
        };
        Self { id, link, epoch, state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    // Called by the link thread.

    /// Queues data. If the host exceeds its credit, the stream fails.
    pub(crate) fn deliver(&self, payload: Vec<u8>) {
        self.change(|state| {
            let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            if len > state.inbox_room {
                state.overrun = true;
            } else if !state.eof && !payload.is_empty() {
                state.inbox_room -= len;
                state.inbox.push_back(payload);
            }
        });
    }

    /// Marks the end of the input.
    pub(crate) fn finish_input(&self) {
        self.change(|state| state.eof = true);
    }

    /// Adds send credit.
    pub(crate) fn grant(&self, channel: Channel, bytes: u32) {
        self.change(|state| {
            let credit = &mut state.credit[channel as usize];
            *credit = credit.saturating_add(bytes);
        });
    }

    /// Queues a control for the running command.
    pub(crate) fn control(&self, control: Control) {
        self.change(|state| {
            let pieces = state.inbox.len();
            state.controls.push(control, pieces);
        });
    }

    /// Ends the stream because its session has ended.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    // Called by the worker.

    /// Fails if the request was cancelled or the session has ended.
    pub(crate) fn check(&self) -> Outcome<()> {
        stopped(&locked(&self.state))
    }

    /// Makes every change also wake `waiting`, for a worker that waits for other events as well.
    pub(crate) fn wake_through(&self, waiting: Option<Arc<dyn Wakeable>>) {
        locked(&self.state).waiting = waiting;
    }

    /// Waits for the next chunk of input. Returns `None` at the end.
    pub(crate) fn receive(&self) -> Outcome<Option<Vec<u8>>> {
        let mut state = locked(&self.state);
        loop {
            stopped(&state)?;
            match self.take(&mut state) {
                Input::Data(data) => {
                    self.give_back(state);
                    return Ok(Some(data));
                }
                Input::Eof => return Ok(None),
                Input::Pending => state = self.wait(state),
            }
        }
    }

    /// Waits for credit for the whole frame, then sends it.
    pub(crate) fn send_data(&self, channel: Channel, frame: &mut DataFrame) -> Outcome<()> {
        let need = frame.filled() as u32;
        let mut state = locked(&self.state);
        loop {
            stopped(&state)?;
            if state.credit[channel as usize] >= need {
                state.credit[channel as usize] -= need;
                break;
            }
            state = self.wait(state);
        }
        drop(state);
        self.send(frame.seal(channel, self.id)).map_err(|Ended| cancelled())
    }

    /// Sends end of file on a channel. The stream stays open.
    pub(crate) fn send_eof(&self, channel: Channel) -> Outcome<()> {
        let mut frame = Vec::new();
        self.append(Kind::Eof, channel, &[], &mut frame);
        self.send(&frame).map_err(|Ended| cancelled())
    }

    /// Sends a response that is not the final one.
    pub(crate) fn respond(&self, response: &Response) -> Outcome<()> {
        let mut frame = Vec::new();
        self.append_response(response, false, &mut frame);
        self.send(&frame).map_err(|Ended| cancelled())
    }

    /// Sends the frames in `tail` and the final response.
    pub(crate) fn conclude(&self, result: Result<Response, GuestError>, tail: &mut Vec<u8>) {
        let response = result.unwrap_or_else(Response::Error);
        self.append_response(&response, true, tail);
        locked(&self.state).concluded = true;
        // If the session has ended, nobody waits for the response.
        let _ = self.send(tail);
        tail.clear();
    }

    /// Whether the final response was sent.
    pub(crate) fn is_concluded(&self) -> bool {
        locked(&self.state).concluded
    }

    /// Appends a frame of this stream to `out`, to be sent together with others.
    pub(crate) fn append(&self, kind: Kind, channel: Channel, payload: &[u8], out: &mut Vec<u8>) {
        encode(kind, channel, false, self.id, payload, out);
    }

    fn append_response(&self, response: &Response, last: bool, out: &mut Vec<u8>) {
        // Encoding these types into memory cannot fail; an empty response would still end the stream.
        let bytes = to_bytes(response).unwrap_or_default();
        encode(Kind::Response, Channel::Main, last, self.id, &bytes, out);
    }

    fn send(&self, frames: &[u8]) -> Result<(), Ended> {
        self.link.send(self.epoch, frames)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = locked(&self.state);
        change(&mut state);
        let waiting = state.waiting.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }

    /// Uses credit that the caller has checked.
    fn spend(&self, channel: Channel, bytes: usize) {
        let credit = &mut locked(&self.state).credit[channel as usize];
        *credit = credit.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    fn take(&self, state: &mut State) -> Input {
        match state.inbox.pop_front() {
            Some(data) => {
                state.consumed += data.len() as u32;
                state.controls.input_taken();
                Input::Data(data)
            }
            None if state.eof || state.ended => Input::Eof,
            None => Input::Pending,
        }
    }

    /// Returns credit for consumed bytes, once there are enough to be worth a frame.
    fn give_back(&self, mut state: MutexGuard<'_, State>) {
        if state.consumed < CREDIT_LUMP || state.eof {
            return;
        }
        let granted = std::mem::take(&mut state.consumed);
        state.inbox_room += granted;
        drop(state);
        let mut frame = Vec::new();
        self.append(Kind::Credit, Channel::Main, &granted.to_le_bytes(), &mut frame);
        // If the session has ended, the next wait reports it.
        let _ = self.send(&frame);
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommandIo for Stream {
    fn signals(&self) -> Signals {
        let mut state = locked(&self.state);
        Signals {
            cancelled: state.cancelled || state.overrun,
            ended: state.ended,
            controls: state.controls.take(),
        }
    }

    fn try_receive(&self) -> Input {
        let mut state = locked(&self.state);
        if state.controls.are_next() {
            return Input::Pending;
        }
        let input = self.take(&mut state);
        self.give_back(state);
        input
    }

    fn room(&self, channel: Channel) -> usize {
        let credit = locked(&self.state).credit[channel as usize];
        (credit as usize).min(DATA_PAYLOAD)
    }

    fn take_output(&self, channel: Channel, scratch: &mut Scratch, at_last: bool) -> Result<(), Ended> {
        self.spend(channel, scratch.data.filled());
        if at_last {
            self.append(Kind::Data, channel, scratch.data.payload(), &mut scratch.tail);
            return Ok(());
        }
        self.send(scratch.data.seal(channel, self.id))
    }

    /// Nothing to do: further input is received and discarded.
    fn input_refused(&self) {}

    fn input_read(&self, bytes: u64) {
        // If the session has ended, nobody needs the count.
        let _ = self.respond(&Response::InputRead { bytes });
    }

    fn cancel(&self) {
        self.change(|state| state.cancelled = true);
    }
}

fn stopped(state: &State) -> Outcome<()> {
    if state.overrun {
        return Err(invalid("the host sent more data than it had credit for"));
    }
    if state.cancelled || state.ended { Err(cancelled()) } else { Ok(()) }
}
