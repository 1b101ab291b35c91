//! One stream of a session: what the host sent for it, and how much it may send back.
//!
//! The link thread puts things in, one worker takes them out.

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

/// Consumed bytes are granted again in lumps of at least this.
const CREDIT_LUMP: u32 = WINDOW / 4;

/// One stream.
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

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    // What the link thread does.

    /// Takes in data. A host that sends more than it was granted ends its own stream.
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

    /// No more data will come.
    pub(crate) fn finish_input(&self) {
        self.change(|state| state.eof = true);
    }

    /// The host can take this many more bytes.
    pub(crate) fn grant(&self, channel: Channel, bytes: u32) {
        self.change(|state| {
            let credit = &mut state.credit[channel as usize];
            *credit = credit.saturating_add(bytes);
        });
    }

    /// Something for the running command.
    pub(crate) fn control(&self, control: Control) {
        self.change(|state| {
            let pieces = state.inbox.len();
            state.controls.push(control, pieces);
        });
    }

    /// The session is over.
    pub(crate) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    // What the worker does.

    /// Whether the work should go on.
    pub(crate) fn check(&self) -> Outcome<()> {
        stopped(&locked(&self.state))
    }

    /// Has every change also wake this, for a worker that waits for other things as well.
    pub(crate) fn wake_through(&self, waiting: Option<Arc<dyn Wakeable>>) {
        locked(&self.state).waiting = waiting;
    }

    /// Waits for the next piece of input; `None` at its end.
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

    /// Sends a filled data frame as soon as there is credit for all of it.
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

    /// Ends the data on a channel while the stream goes on.
    pub(crate) fn send_eof(&self, channel: Channel) -> Outcome<()> {
        let mut frame = Vec::new();
        self.append(Kind::Eof, channel, &[], &mut frame);
        self.send(&frame).map_err(|Ended| cancelled())
    }

    /// Sends a response that is not the last.
    pub(crate) fn respond(&self, response: &Response) -> Outcome<()> {
        let mut frame = Vec::new();
        self.append_response(response, false, &mut frame);
        self.send(&frame).map_err(|Ended| cancelled())
    }

    /// Sends what is left and the last response.
    pub(crate) fn conclude(&self, result: Result<Response, GuestError>, tail: &mut Vec<u8>) {
        let response = result.unwrap_or_else(Response::Error);
        self.append_response(&response, true, tail);
        locked(&self.state).concluded = true;
        // If the session is over, nobody waits for it.
        let _ = self.send(tail);
        tail.clear();
    }

    /// Whether the last response was sent.
    pub(crate) fn is_concluded(&self) -> bool {
        locked(&self.state).concluded
    }

    /// Appends a frame of this stream to others that will be sent together.
    pub(crate) fn append(&self, kind: Kind, channel: Channel, payload: &[u8], out: &mut Vec<u8>) {
        encode(kind, channel, false, self.id, payload, out);
    }

    fn append_response(&self, response: &Response, last: bool, out: &mut Vec<u8>) {
        // Encoding into memory fails for no value of these types; an empty answer would still end the stream.
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

    /// Uses up credit the caller saw.
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

    /// Grants the host what was consumed, once it is worth a frame.
    fn give_back(&self, mut state: MutexGuard<'_, State>) {
        if state.consumed < CREDIT_LUMP || state.eof {
            return;
        }
        let granted = std::mem::take(&mut state.consumed);
        state.inbox_room += granted;
        drop(state);
        let mut frame = Vec::new();
        self.append(Kind::Credit, Channel::Main, &granted.to_le_bytes(), &mut frame);
        // If the session is over, the next wait says so.
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

    /// What the host still sends is taken in and discarded.
    fn input_refused(&self) {}

    fn input_read(&self, bytes: u64) {
        // If the session is over, nobody counts.
        let _ = self.respond(&Response::InputRead { bytes });
    }

    fn cancel(&self) {
        self.change(|state| state.cancelled = true);
    }
}

fn stopped(state: &State) -> Outcome<()> {
    if state.overrun {
        return Err(invalid("more data came than was granted"));
    }
    if state.cancelled || state.ended { Err(cancelled()) } else { Ok(()) }
}
