//! A session: its streams, its tasks, and the shared handle.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agentiso_proto::{
    Channel, Hello, Inherit, Kind, MAX_PAYLOAD, MAX_STREAMS, MAX_STREAMS_1, RESYNC_PADDING, Request, encode,
    to_bytes,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::deadline::{ANSWER, doing, within};
use super::exchange::Exchange;
use super::stream::{Shape, Stream};
use super::writer::{Outgoing, Queues};
use super::{LinkError, reader, writer};

/// The number of concurrent connections, which leaves streams for other requests.
const MAX_CONNECTIONS: usize = MAX_STREAMS - MAX_STREAMS_1;
/// How long a new connection waits for others to close.
const CONNECTION_PLACE: Duration = Duration::from_secs(3);
/// Slots for signals, resizes and pings in the control queue.
const CONTROL_PLACES: usize = 64;
/// Slots for data frames in the bulk queue.
const BULK_PLACES: usize = 16;
/// How long writing the remaining frames may take after the last handle was dropped, and how long reading the guest's
/// remaining frames may take after writing failed.
const LINGER: Duration = Duration::from_secs(1);

/// Whether the guest is at a frame boundary when a session starts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Resync {
    /// It is: freshly booted, or idle when it was saved.
    Clean,
    /// It may not be, so padding is sent first.
    Unknown,
}

/// How a session starts.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Whether the guest is at a frame boundary.
    pub resync: Resync,
    /// What happens to the commands of an earlier session.
    pub inherit: Inherit,
}

/// A session with the agent in a guest, shared by its clones. It ends when the last clone and everything created from it
/// are dropped.
#[derive(Clone)]
pub struct Guest(Arc<Handle>);

struct Handle {
    session: Arc<Session>,
    control: mpsc::UnboundedSender<Outgoing>,
    bulk: mpsc::UnboundedSender<Outgoing>,
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.session.released.notify_one();
    }
}

impl Guest {
    /// Starts a session over a byte stream. Requests may follow the Hello without waiting for the Welcome, so a start
    /// takes one round trip. Must be called within a tokio runtime.
    pub fn open<S>(stream: S, options: SessionOptions) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let nonce = uuid::Uuid::new_v4().into_bytes();
        let mut opening = match options.resync {
            Resync::Clean => Vec::new(),
            Resync::Unknown => vec![0; RESYNC_PADDING],
        };
        opening.extend_from_slice(&Hello::new(nonce, options.inherit).encode());

        let session = Arc::new(Session::new());
        let (control, control_queue) = mpsc::unbounded_channel();
        let (bulk, bulk_queue) = mpsc::unbounded_channel();
        let (read_half, write_half) = tokio::io::split(stream);
        tokio::spawn(read(Arc::clone(&session), read_half, nonce));
        let queues = Queues { control: control_queue, bulk: bulk_queue };
        tokio::spawn(write(Arc::clone(&session), write_half, opening, queues));
        Self(Arc::new(Handle { session, control, bulk }))
    }

    /// Waits for the guest's Welcome and returns the negotiated protocol version.
    pub async fn ready(&self) -> Result<u16, LinkError> {
        let mut phase = self.0.session.phase.subscribe();
        let phase = phase.wait_for(|phase| !matches!(phase, Phase::Greeting)).await;
        match phase.as_deref() {
            Ok(Phase::Ready(version)) => Ok(*version),
            _ => Err(self.0.session.error()),
        }
    }

    /// Waits for the end of the session and returns the reason.
    pub async fn closed(&self) -> LinkError {
        self.0.session.closed().await
    }

    /// Whether the session has ended.
    pub fn is_closed(&self) -> bool {
        matches!(*self.0.session.phase.borrow(), Phase::Closed(_))
    }

    /// Whether all requests have been answered. Then no frame is in flight to the guest, and the agent in a copy of the
    /// guest's memory is at a frame boundary.
    pub fn is_quiet(&self) -> bool {
        let table = self.0.session.table();
        table.streams.is_empty() && table.pings.is_empty()
    }

    /// Pings the agent and returns the round-trip time.
    pub async fn ping(&self) -> Result<Duration, LinkError> {
        let session = &self.0.session;
        let ping = async {
            let place = session.place(&session.control_places).await?;
            let (answer, answered) = oneshot::channel();
            let start = Instant::now();
            let number = session.expect_pong(answer, place)?;
            self.send_control(frame(Kind::Ping, Channel::Main, 0, &number.to_le_bytes()), None);
            answered.await.map_err(|_| session.error())?;
            Ok(start.elapsed())
        };
        within(ANSWER, "answering a ping", ping).await
    }

    /// Opens a stream with a request. Waits, for a limited time, only if very many streams are open.
    pub(super) async fn start(&self, request: &Request, shape: Shape) -> Result<Exchange, LinkError> {
        let payload = to_bytes(request).map_err(|error| LinkError::Unencodable(error.to_string()))?;
        if payload.len() > MAX_PAYLOAD {
            return Err(LinkError::TooLarge { bytes: payload.len() });
        }
        let session = &self.0.session;
        // A guest that never ends a stream would block new ones.
        let place = within(ANSWER, doing(request), session.place(&session.stream_places)).await?;
        let stream = session.add(shape, place)?;
        self.send_control(frame(Kind::Request, Channel::Main, stream.id, &payload), None);
        Ok(Exchange::new(self.clone(), stream, request))
    }

    /// Queues a control frame for a running stream, waiting for a slot.
    pub(super) async fn control(&self, stream: &Stream, payload: &[u8]) -> Result<(), LinkError> {
        let session = &self.0.session;
        let place = within(ANSWER, "taking a signal", session.place(&session.control_places)).await?;
        if !stream.is_finished() {
            self.send_control(frame(Kind::Control, Channel::Main, stream.id, payload), Some(place));
        }
        Ok(())
    }

    /// Asks the guest to end a stream's work.
    pub(super) fn cancel(&self, stream: &Stream) {
        if !stream.is_finished() && stream.cancel_once() {
            self.send_control(frame(Kind::Cancel, Channel::Main, stream.id, &[]), None);
        }
    }

    /// Waits for a slot for one more connection, for a short time.
    pub(super) async fn connection_place(&self) -> Result<OwnedSemaphorePermit, LinkError> {
        let place = self.0.session.place(&self.0.session.connection_places);
        within(CONNECTION_PLACE, "ending other connections", place).await
    }

    /// Ignores further frames of a stream, without cancelling it.
    pub(super) fn let_go(&self, stream: &Stream) {
        self.0.session.abandon(stream.id);
        stream.forget();
    }

    /// Cancels a stream and ignores its further frames.
    pub(super) fn abandon(&self, stream: &Stream) {
        if self.0.session.abandon(stream.id) {
            self.cancel(stream);
        }
        stream.forget();
    }

    /// Grants the guest credit for what the caller took.
    pub(super) fn grant(&self, stream: &Arc<Stream>, channel: Channel) {
        // Fails only if the session has ended.
        let _ = self.0.control.send(Outgoing::Grant(Arc::clone(stream), channel));
    }

    /// Sends data on the stream's main channel; waits for the guest's credit and a slot in the queue.
    pub(super) async fn send(&self, stream: &Stream, mut bytes: &[u8]) -> Result<(), LinkError> {
        let session = &self.0.session;
        while !bytes.is_empty() {
            let credit = stream.sendable().await?;
            let place = session.place(&session.bulk_places).await?;
            let (now, later) = bytes.split_at(bytes.len().min(credit).min(agentiso_proto::DATA_PAYLOAD));
            stream.spend(now.len());
            let frame = frame(Kind::Data, Channel::Main, stream.id, now);
            let _ = self.0.bulk.send(Outgoing::Frame(frame, Some(place)));
            bytes = later;
        }
        Ok(())
    }

    /// Ends the data on the stream's main channel.
    pub(super) fn send_eof(&self, stream: &Stream) {
        if !stream.is_finished() {
            let frame = frame(Kind::Eof, Channel::Main, stream.id, &[]);
            let _ = self.0.bulk.send(Outgoing::Frame(frame, None));
        }
    }

    /// Ends the session because of an invalid response, and returns the error to report.
    pub(super) fn violation(&self, what: impl Into<String>) -> LinkError {
        let error = LinkError::Violation(what.into());
        self.0.session.fail(error.clone());
        error
    }

    fn send_control(&self, frame: Vec<u8>, place: Option<OwnedSemaphorePermit>) {
        // Fails only if the session has ended, which the stream reports to its waiters.
        let _ = self.0.control.send(Outgoing::Frame(frame, place));
    }
}

fn frame(kind: Kind, channel: Channel, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(kind, channel, false, stream, payload, &mut out);
    out
}

async fn read<R: AsyncRead + Unpin>(session: Arc<Session>, mut reader: R, nonce: [u8; 16]) {
    tokio::select! {
        error = reader::run(&mut reader, nonce, &session) => session.fail(error),
        _ = session.closed() => {}
    }
}

async fn write<W: AsyncWrite + Unpin>(
    session: Arc<Session>,
    mut writer: W,
    opening: Vec<u8>,
    mut queues: Queues,
) {
    let released = async {
        session.released.notified().await;
        tokio::time::sleep(LINGER).await;
    };
    let error = tokio::select! {
        written = writer::run(&mut writer, opening, &mut queues) => match written {
            Ok(()) => LinkError::closed(io::ErrorKind::ConnectionAborted, "nobody used the link any more"),
            Err(error) => {
                // The guest may have sent more before it stopped reading: let the reader find the end.
                let _ = tokio::time::timeout(LINGER, session.closed()).await;
                LinkError::Closed(error.into())
            }
        },
        () = released => LinkError::closed(io::ErrorKind::TimedOut, "the guest did not take the last words"),
        error = session.closed() => error,
    };
    session.fail(error);
}

enum Phase {
    Greeting,
    Ready(u16),
    Closed(LinkError),
}

/// The state shared by the handle and the two tasks.
pub(super) struct Session {
    phase: watch::Sender<Phase>,
    table: Mutex<Table>,
    released: Notify,
    /// Slots for open streams, including cancelled ones that the guest has not ended yet. The agent would refuse more, so
    /// they wait here.
    stream_places: Arc<Semaphore>,
    connection_places: Arc<Semaphore>,
    control_places: Arc<Semaphore>,
    bulk_places: Arc<Semaphore>,
}

#[derive(Default)]
struct Table {
    closed: bool,
    streams: HashMap<u32, Slot>,
    last_stream: u32,
    /// Each keeps its slot until it is answered, so that a silent guest cannot make them accumulate.
    pings: HashMap<u64, (oneshot::Sender<()>, OwnedSemaphorePermit)>,
    last_ping: u64,
}

/// An open stream; without its state if it was cancelled.
struct Slot {
    stream: Option<Arc<Stream>>,
    _place: OwnedSemaphorePermit,
}

impl Session {
    fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Greeting),
            table: Mutex::new(Table::default()),
            released: Notify::new(),
            // Raised once the agent's limit is known.
            stream_places: Arc::new(Semaphore::new(MAX_STREAMS_1)),
            connection_places: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            control_places: Arc::new(Semaphore::new(CONTROL_PLACES)),
            bulk_places: Arc::new(Semaphore::new(BULK_PLACES)),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn welcomed(&self, version: u16) {
        if version >= 2 {
            self.stream_places.add_permits(MAX_STREAMS - MAX_STREAMS_1);
        }
        self.phase.send_if_modified(|phase| {
            let greeting = matches!(phase, Phase::Greeting);
            if greeting {
                *phase = Phase::Ready(version);
            }
            greeting
        });
    }

    /// Ends the session; only the first reason counts.
    fn fail(&self, error: LinkError) {
        let first = self.phase.send_if_modified(|phase| {
            let open = !matches!(phase, Phase::Closed(_));
            if open {
                *phase = Phase::Closed(error.clone());
            }
            open
        });
        if !first {
            return;
        }
        let streams = {
            let mut table = self.table();
            table.closed = true;
            table.pings.clear();
            std::mem::take(&mut table.streams)
        };
        for stream in streams.into_values().filter_map(|slot| slot.stream) {
            stream.fail(error.clone());
        }
        for places in [&self.stream_places, &self.connection_places, &self.control_places, &self.bulk_places]
        {
            places.close();
        }
    }

    async fn closed(&self) -> LinkError {
        let mut phase = self.phase.subscribe();
        // The sender is in `self`, so waiting cannot fail.
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Closed(_))).await;
        self.error()
    }

    /// The reason why the session ended.
    fn error(&self) -> LinkError {
        match &*self.phase.borrow() {
            Phase::Closed(error) => error.clone(),
            _ => LinkError::closed(io::ErrorKind::NotConnected, "the session is ending"),
        }
    }

    async fn place(&self, places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, LinkError> {
        Arc::clone(places).acquire_owned().await.map_err(|_| self.error())
    }

    fn add(&self, shape: Shape, place: OwnedSemaphorePermit) -> Result<Arc<Stream>, LinkError> {
        let mut table = self.table();
        if table.closed {
            drop(table);
            return Err(self.error());
        }
        loop {
            // Stream 0 is for pings. After a wrap, ids in use are skipped.
            table.last_stream = table.last_stream.wrapping_add(1).max(1);
            if !table.streams.contains_key(&table.last_stream) {
                break;
            }
        }
        let id = table.last_stream;
        let stream = Arc::new(Stream::new(id, shape));
        table.streams.insert(id, Slot { stream: Some(Arc::clone(&stream)), _place: place });
        Ok(stream)
    }

    /// The stream with this id; `None` if it was cancelled. The error is a violation.
    pub(super) fn find(&self, id: u32) -> Result<Option<Arc<Stream>>, String> {
        let table = self.table();
        table.streams.get(&id).map(|slot| slot.stream.clone()).ok_or_else(|| unknown(id))
    }

    /// Like [`Self::find`]; nothing may follow on this stream.
    pub(super) fn finish(&self, id: u32) -> Result<Option<Arc<Stream>>, String> {
        self.table().streams.remove(&id).map(|slot| slot.stream).ok_or_else(|| unknown(id))
    }

    /// Drops the state of a stream; false if it has ended.
    fn abandon(&self, id: u32) -> bool {
        self.table().streams.get_mut(&id).is_some_and(|slot| slot.stream.take().is_some())
    }

    fn expect_pong(
        &self,
        answer: oneshot::Sender<()>,
        place: OwnedSemaphorePermit,
    ) -> Result<u64, LinkError> {
        let mut table = self.table();
        if table.closed {
            drop(table);
            return Err(self.error());
        }
        table.last_ping += 1;
        let number = table.last_ping;
        table.pings.insert(number, (answer, place));
        Ok(number)
    }

    pub(super) fn pong(&self, payload: &[u8]) -> Result<(), String> {
        let number = payload.try_into().map(u64::from_le_bytes).ok();
        let answer = number.and_then(|number| self.table().pings.remove(&number));
        let (answer, _place) = answer.ok_or_else(|| "a pong nobody asked for".to_owned())?;
        // The caller may have stopped waiting.
        let _ = answer.send(());
        Ok(())
    }
}

fn unknown(id: u32) -> String {
    format!("a frame for stream {id}, which is not open")
}
