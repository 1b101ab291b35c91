//! A guest whose connections are streams, for clients that speak TLS and HTTP.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::guest::Guest;
use super::{GATEWAY, PATIENCE};

/// Between a client and the guest's socket.
const PIPE: usize = 256 * 1024;

/// A guest that runs in a task of its own.
pub struct Streams {
    dial: mpsc::UnboundedSender<Dial>,
    task: JoinHandle<()>,
}

struct Dial {
    to: Ipv4Addr,
    port: u16,
    connected: oneshot::Sender<Option<DuplexStream>>,
}

struct Stream {
    handle: SocketHandle,
    pipe: DuplexStream,
    waiting: Option<(DuplexStream, oneshot::Sender<Option<DuplexStream>>)>,
    guest_done: bool,
    peer_done: bool,
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Streams {
    /// Runs a guest, after it has resolved some names.
    pub async fn new(mut guest: Guest, names: &[&str]) -> Self {
        for name in names {
            resolve(&mut guest, name).await;
        }
        let (dial, dialled) = mpsc::unbounded_channel();
        Self { dial, task: tokio::spawn(run(guest, dialled)) }
    }

    /// Connects; nothing if it is refused.
    pub async fn connect(&self, to: Ipv4Addr, port: u16) -> Option<DuplexStream> {
        let (connected, outcome) = oneshot::channel();
        self.dial.send(Dial { to, port, connected }).unwrap();
        tokio::time::timeout(PATIENCE, outcome).await.unwrap().unwrap()
    }
}

async fn resolve(guest: &mut Guest, name: &str) {
    let mut query = Message::new(1, MessageType::Query, OpCode::Query);
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    let socket = guest.udp();
    guest.send_udp(socket, GATEWAY, 53, &query.to_vec().unwrap());
    let (answer, _) = guest.receive_udp(socket).await;
    assert!(!Message::from_vec(&answer).unwrap().answers.is_empty(), "{name} does not resolve");
    guest.sockets.remove(socket);
}

async fn run(mut guest: Guest, mut dialled: mpsc::UnboundedReceiver<Dial>) {
    let mut streams: Vec<Stream> = Vec::new();
    let mut timer = Box::pin(tokio::time::sleep(Duration::ZERO));
    std::future::poll_fn(|cx| {
        loop {
            guest.turn();
            let mut progress = false;
            while let Poll::Ready(Some(Dial { to, port, connected })) = dialled.poll_recv(cx) {
                let (near, pipe) = tokio::io::duplex(PIPE);
                let handle = guest.dial(to, port, PIPE);
                let waiting = Some((near, connected));
                streams.push(Stream { handle, pipe, waiting, guest_done: false, peer_done: false });
                progress = true;
            }
            let mut index = 0;
            while index < streams.len() {
                let stream = &mut streams[index];
                progress |= copy(&mut guest, stream, cx);
                if !guest.tcp(stream.handle).is_open() && !guest.tcp(stream.handle).can_recv() {
                    let ended = streams.swap_remove(index);
                    if let Some((_, connected)) = ended.waiting {
                        let _ = connected.send(None);
                    }
                    guest.transmit();
                    guest.sockets.remove(ended.handle);
                } else {
                    index += 1;
                }
            }
            guest.transmit();
            if progress || guest.poll_ready(cx) {
                continue;
            }
            timer.as_mut().reset(tokio::time::Instant::now() + guest.delay());
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::<()>::Pending;
            }
        }
    })
    .await;
}

fn copy(guest: &mut Guest, stream: &mut Stream, cx: &mut Context<'_>) -> bool {
    let socket = guest.tcp(stream.handle);
    let mut progress = false;
    if stream.waiting.is_some() {
        if socket.state() != tcp::State::Established {
            return false;
        }
        let (near, connected) = stream.waiting.take().unwrap();
        let _ = connected.send(Some(near));
        progress = true;
    }
    while socket.can_recv() {
        let pipe = Pin::new(&mut stream.pipe);
        let count = socket
            .recv(|bytes| match pipe.poll_write(cx, bytes) {
                Poll::Ready(Ok(count)) => (count, count),
                // The client is gone: what arrives is thrown away.
                Poll::Ready(Err(_)) => (bytes.len(), bytes.len()),
                Poll::Pending => (0, 0),
            })
            .unwrap();
        if count == 0 {
            break;
        }
        progress = true;
    }
    if !stream.peer_done && matches!(socket.recv(|_| (0, ())), Err(tcp::RecvError::Finished)) {
        stream.peer_done = Pin::new(&mut stream.pipe).poll_shutdown(cx).is_ready();
    }
    while !stream.guest_done && socket.can_send() {
        let pipe = Pin::new(&mut stream.pipe);
        let read = socket
            .send(|room| {
                let mut buffer = ReadBuf::new(room);
                match pipe.poll_read(cx, &mut buffer) {
                    Poll::Ready(_) => (buffer.filled().len(), Some(buffer.filled().len())),
                    Poll::Pending => (0, None),
                }
            })
            .unwrap();
        match read {
            None => break,
            Some(0) => {
                stream.guest_done = true;
                socket.close();
            }
            Some(_) => {}
        }
        progress = true;
    }
    progress
}
