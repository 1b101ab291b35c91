//! TCP connections: opened on the host first, then accepted towards the guest, then copied in both directions.
//!
//! ```text
//!  SYN ──► verdict ──► connecting ──► accepted ──► copying ──► over ──► record logged
//!            │ refused     │ refused, unreachable     │ reset by either side, cut by policy, idle
//!            ▼             ▼                          ▼
//!           RST       RST or ICMP             RST on the other side
//! ```
//!
//! Data is copied between the guest's rings and the host's socket without another buffer: a slow reader on one side
//! fills the ring, closes the window of the other side, and costs no more memory than the ring.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use agentiso_core::Egress;
use smoltcp::socket::tcp::State;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::flow::{Flow, FlowKey, Record};
use super::stack::Stack;
use super::state::{Machine, lock};
use crate::counters::Counting;
use crate::egress::{Gate, ProxyStream};
use crate::frame::{Segment, Unreachable};
use crate::log::LogEvent;
use agentiso_policy::egress::{Protocol, Rule};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the guest may take to complete the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection waits when its machine has used up its bandwidth.
const BANDWIDTH_PAUSE: Duration = Duration::from_millis(5);
/// Between the resolver and a guest's connection to it.
const RESOLVER_BUFFER: usize = 16 * 1024;

/// A connection that the guest knows of.
pub(super) struct TcpFlow {
    pub(super) record: Option<Arc<Record>>,
    stack: Mutex<Stack>,
    waker: Mutex<Option<Waker>>,
}

impl TcpFlow {
    fn receive(&self, packet: &[u8]) {
        lock(&self.stack).receive(packet);
        if let Some(waker) = lock(&self.waker).as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// How copying ended.
enum Ended {
    Orderly,
    /// The guest or the host's peer reset the connection, or it was idle for too long.
    Reset,
}

impl Machine {
    /// Handles a segment for an address outside the pool, or for the resolver.
    pub(super) fn tcp(self: &Arc<Self>, to: Ipv4Addr, segment: Segment, packet: &[u8]) {
        let key = FlowKey { protocol: Protocol::Tcp, source: segment.source, to, port: segment.port };
        let known = lock(&self.flows).get(&key).cloned();
        match known {
            Some(Flow::Tcp(flow)) => flow.receive(packet),
            Some(_) => {}
            None if segment.is_syn => self.open_tcp(key, packet),
            // A connection from before a fork, a restart or a change of policy.
            None => self.send(self.framer.reset(packet)),
        }
    }

    pub(super) fn open_tcp(self: &Arc<Self>, key: FlowKey, syn: &[u8]) {
        let for_resolver = key.to == self.card.gateway && key.port == 53;
        let (rule, name) = if for_resolver {
            (Rule::GatewayResolver, None)
        } else {
            let (verdict, name) = self.decide(key.to, key.port, Protocol::Tcp);
            if !verdict.allowed && self.waits_for_answer_to(&verdict.rule) {
                return self.hold_tcp(key, name, &verdict.rule, syn);
            }
            if !verdict.allowed {
                return self.refuse_tcp(key, name, &verdict.rule, syn);
            }
            (verdict.rule, name)
        };
        let Some(permit) = self.permit() else {
            return self.refuse_tcp(key, name, &Rule::Limit("connections"), syn);
        };
        let syn = syn.to_vec();
        let machine = Arc::clone(self);
        if for_resolver {
            let (near, far) = tokio::io::duplex(RESOLVER_BUFFER);
            self.spawn(async move {
                let _permit = permit;
                let resolver = crate::dns::serve_stream(Arc::clone(&machine), far);
                tokio::join!(machine.accept(key, &syn, near, None), resolver);
            });
        } else {
            let record = Record::open(self, permit, key, name, &rule);
            lock(&self.flows).insert(key, Flow::Connecting(Arc::clone(&record)));
            // A policy that changed before the flow was there did not end it.
            if !self.is_allowed_to_connect(&record) {
                self.forget(key, Some(&record));
                record.cut_off();
                return self.send(self.framer.reset(&syn));
            }
            self.spawn(async move { machine.connect(key, &syn, record).await });
        }
    }

    pub(super) fn refuse_tcp(&self, key: FlowKey, name: Option<String>, rule: &Rule, syn: &[u8]) {
        self.log_refused(Protocol::Tcp, name, Some((key.to, key.port)), rule);
        self.send(self.framer.reset(syn));
    }

    async fn connect(self: Arc<Self>, key: FlowKey, syn: &[u8], record: Arc<Record>) {
        let connecting = self.shared.uplink.connect(SocketAddrV4::new(key.to, key.port));
        let connected = tokio::select! {
            connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting) => connected,
            () = record.cut() => return self.send(self.framer.reset(syn)),
        };
        match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) if self.policy().is_some_and(|policy| policy.egress() == Egress::Proxy) => {
                let gate = Gate::new(Arc::clone(&self), Arc::clone(&record));
                self.accept(key, syn, ProxyStream::new(gate, stream), Some(record)).await
            }
            Ok(stream) => self.accept(key, syn, stream, Some(record)).await,
            Err(error) => {
                self.forget(key, Some(&record));
                record.finish(LogEvent::Failed);
                self.send(if error.kind() == io::ErrorKind::ConnectionRefused {
                    self.framer.reset(syn)
                } else {
                    self.framer.unreachable(syn, Unreachable::Host)
                });
            }
        }
    }

    /// Accepts the connection towards the guest and copies until it is over.
    async fn accept<S: HostStream>(
        self: &Arc<Self>,
        key: FlowKey,
        syn: &[u8],
        stream: S,
        record: Option<Arc<Record>>,
    ) {
        let buffer = ring_size(self.open.load(Relaxed));
        let Some(stack) = Stack::listen(self.card, Arc::clone(&self.link), key.to, key.port, buffer) else {
            return self.forget(key, record.as_ref());
        };
        let flow =
            Arc::new(TcpFlow { record: record.clone(), stack: Mutex::new(stack), waker: Mutex::new(None) });
        lock(&self.flows).insert(key, Flow::Tcp(Arc::clone(&flow)));
        // The same again: since it began to connect, the policy may say that the proxy has to see it.
        if let Some(record) = record.as_ref().filter(|record| !self.is_allowed_to_begin(record)) {
            record.cut_off();
        }
        flow.receive(syn);
        let mut copying = Copying {
            machine: self,
            flow: &flow,
            stream,
            guest_ended: false,
            guest_done: false,
            host_done: false,
            timer: Box::pin(tokio::time::sleep(Duration::ZERO)),
            last_progress: Instant::now(),
        };
        let ended = tokio::select! {
            ended = std::future::poll_fn(|cx| copying.poll(cx)) => ended,
            () = cut(record.as_deref()) => Ended::Reset,
        };
        if matches!(ended, Ended::Reset) {
            copying.stream.reset();
            let mut stack = lock(&flow.stack);
            stack.socket().abort();
            stack.transmit();
        }
        self.forget(key, record.as_ref());
        if let Some(record) = record {
            record.finish(LogEvent::Closed);
        }
    }
}

async fn cut(record: Option<&Record>) {
    match record {
        Some(record) => record.cut().await,
        None => std::future::pending().await,
    }
}

/// The ring for each direction. The first connections of a machine get large ones; a thousand connections together need
/// no more than a few dozen MiB. Pages that are never written cost nothing.
fn ring_size(open: usize) -> usize {
    match open {
        0..=16 => 512 * 1024,
        17..=64 => 256 * 1024,
        65..=256 => 64 * 1024,
        _ => 16 * 1024,
    }
}

/// The host's side of a connection.
pub(crate) trait HostStream: AsyncRead + AsyncWrite + Unpin {
    /// Makes the other side see a reset, rather than an orderly end.
    fn reset(&self);
}

impl HostStream for TcpStream {
    fn reset(&self) {
        // If it fails, the other side sees an orderly end.
        let _ = self.set_zero_linger();
    }
}

impl HostStream for DuplexStream {
    fn reset(&self) {}
}

struct Copying<'a, S> {
    machine: &'a Machine,
    flow: &'a TcpFlow,
    stream: S,
    /// The guest has ended its direction.
    guest_ended: bool,
    /// The guest has ended its direction, everything it sent is written, and the host's peer was told.
    guest_done: bool,
    /// The host's peer has ended its direction, and the guest will be told.
    host_done: bool,
    timer: Pin<Box<Sleep>>,
    last_progress: Instant,
}

impl<S: HostStream> Copying<'_, S> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        self.register(cx.waker());
        let flow = self.flow;
        let mut stack = lock(&flow.stack);
        loop {
            if flow.record.as_ref().is_some_and(|record| record.is_cut()) {
                return Poll::Ready(Ended::Reset);
            }
            let mut allowance = self.allowance();
            let copied = match self.copy(&mut stack, &mut allowance, cx) {
                Ok(copied) => copied,
                Err(_) => return Poll::Ready(Ended::Reset),
            };
            let is_blocked = stack.transmit();
            Counting::add(&self.machine.counting.frames_to_guest, stack.take_sent());
            if let Some(ended) = self.ended(&mut stack, is_blocked) {
                return Poll::Ready(ended);
            }
            if copied {
                self.last_progress = Instant::now();
                continue;
            }
            if is_blocked {
                self.machine.link.wake_when_writable(cx.waker());
            }
            let pause = (allowance == 0).then_some(BANDWIDTH_PAUSE);
            let limit = match stack.socket().state() {
                State::SynReceived => HANDSHAKE_TIMEOUT,
                _ => self.machine.limits.tcp_idle(),
            };
            let Some(idle) = limit.checked_sub(self.last_progress.elapsed()) else {
                return Poll::Ready(Ended::Reset);
            };
            let next = [stack.next_timer().filter(|_| !is_blocked), pause]
                .into_iter()
                .flatten()
                .fold(idle, Duration::min);
            self.timer.as_mut().reset(tokio::time::Instant::now() + next);
            ready!(self.timer.as_mut().poll(cx));
        }
    }

    /// Copies what can be copied in both directions without waiting, and passes on the end of either.
    fn copy(&mut self, stack: &mut Stack, allowance: &mut usize, cx: &mut Context<'_>) -> io::Result<bool> {
        let to_host = self.copy_to_host(stack, allowance, cx)?;
        let to_guest = self.copy_to_guest(stack, allowance, cx)?;
        Ok(to_host || to_guest)
    }

    fn copy_to_host(
        &mut self,
        stack: &mut Stack,
        allowance: &mut usize,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut progress = false;
        let socket = stack.socket();
        while socket.can_recv() && *allowance > 0 {
            let stream = Pin::new(&mut self.stream);
            let written = socket.recv(|data| {
                let data = &data[..data.len().min(*allowance)];
                match stream.poll_write(cx, data) {
                    Poll::Ready(Ok(count)) => (count, Ok(count)),
                    Poll::Ready(Err(error)) => (0, Err(error)),
                    Poll::Pending => (0, Ok(0)),
                }
            });
            let count = written.map_err(|_| io::ErrorKind::ConnectionReset)??;
            if count == 0 {
                return Ok(progress);
            }
            self.account(count, allowance);
            self.flow.record.iter().for_each(|record| record.sent(count));
            progress = true;
        }
        self.guest_ended |=
            matches!(socket.state(), State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        let is_due = self.guest_ended && !socket.can_recv() && !self.guest_done;
        if is_due && let Poll::Ready(result) = Pin::new(&mut self.stream).poll_shutdown(cx) {
            result?;
            self.guest_done = true;
            progress = true;
        }
        Ok(progress)
    }

    fn copy_to_guest(
        &mut self,
        stack: &mut Stack,
        allowance: &mut usize,
        cx: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut progress = false;
        let socket = stack.socket();
        while !self.host_done && socket.can_send() && *allowance > 0 {
            let stream = Pin::new(&mut self.stream);
            let read = socket.send(|room| {
                let length = room.len().min(*allowance);
                let mut buffer = ReadBuf::new(&mut room[..length]);
                match stream.poll_read(cx, &mut buffer) {
                    Poll::Ready(Ok(())) => (buffer.filled().len(), Ok(Some(buffer.filled().len()))),
                    Poll::Ready(Err(error)) => (0, Err(error)),
                    Poll::Pending => (0, Ok(None)),
                }
            });
            match read.map_err(|_| io::ErrorKind::ConnectionReset)?? {
                None => return Ok(progress),
                Some(0) => {
                    self.host_done = true;
                    socket.close();
                }
                Some(count) => {
                    self.account(count, allowance);
                    self.flow.record.iter().for_each(|record| record.received(count));
                }
            }
            progress = true;
        }
        Ok(progress)
    }

    /// Whether the connection is over: ended by both sides with everything delivered, or reset by the guest.
    fn ended(&self, stack: &mut Stack, is_blocked: bool) -> Option<Ended> {
        match stack.socket().state() {
            State::TimeWait | State::Closed if self.guest_done && self.host_done => {
                (!is_blocked).then_some(Ended::Orderly)
            }
            // A reset during the handshake makes the socket listen again.
            State::Listen => Some(Ended::Reset),
            State::Closed if !self.guest_ended => Some(Ended::Reset),
            _ => None,
        }
    }

    /// What the machine's bandwidth allows now.
    fn allowance(&self) -> usize {
        if self.flow.record.is_none() {
            return usize::MAX;
        }
        let available = lock(&self.machine.buckets).bytes.available(Instant::now());
        usize::try_from(available).unwrap_or(usize::MAX)
    }

    fn account(&self, count: usize, allowance: &mut usize) {
        *allowance = allowance.saturating_sub(count);
        if self.flow.record.is_some() {
            lock(&self.machine.buckets).bytes.spend(count as u64);
        }
    }

    fn register(&self, waker: &Waker) {
        let mut slot = lock(&self.flow.waker);
        if !slot.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }
}
