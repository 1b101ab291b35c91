//! One machine's card: one end of a pair of unix datagram sockets, one frame per datagram.
//!
//! QEMU has the other end. Both are connected, so nobody else can send to either, and the kernel reports when the other
//! side has room again. A new QEMU, or a new router, gets a new pair.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::Notify;

/// Flows that are woken when the guest has room again. Waking all of them would make each compete for a few frames.
const WOKEN: usize = 16;

/// Bytes that wait in front of a full guest.
const QUEUE: usize = 512 * 1024;

/// What became of a frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sent {
    /// It is in the guest's queue.
    Yes,
    /// The guest's queue is full; try again when woken.
    Full,
    /// The machine is not there, or not yet; the frame is lost.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Link {
    socket: UnixDatagram,
    waiting: Mutex<VecDeque<Waker>>,
    queue: Mutex<Queue>,
    waits: Notify,
}

/// Frames that nobody sends again: datagrams, and those of neighbours. They wait for room, up to a limit.
#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Link {
    /// Takes the router's end. Must be called in a tokio runtime.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        // Fails for anything but a connected socket of this kind.
        socket.peer_addr()?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket: UnixDatagram::from_std(socket)?,
            waiting: Mutex::default(),
            queue: Mutex::default(),
            waits: Notify::new(),
        })
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await
    }

    /// Receives a frame if there is one.
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.try_recv(buffer)
    }

    /// Sends a frame if the guest has room.
    pub(crate) fn try_send(&self, frame: &[u8]) -> Sent {
        match send_now(&self.socket, frame) {
            Ok(()) => Sent::Yes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            Err(error) => {
                tracing::debug!(%error, "frame lost");
                Sent::Gone
            }
        }
    }

    /// Sends a frame, or queues it if the guest has no room. Says whether it was accepted.
    pub(crate) fn send_or_queue(&self, frame: Vec<u8>) -> bool {
        let mut queue = lock(&self.queue);
        let sent = if queue.frames.is_empty() { self.try_send(&frame) } else { Sent::Full };
        let fits = queue.bytes + frame.len() <= QUEUE;
        if sent == Sent::Full && fits {
            queue.bytes += frame.len();
            queue.frames.push_back(frame);
            self.waits.notify_one();
        }
        sent == Sent::Yes || (sent == Sent::Full && fits)
    }

    /// Sends what is queued, as far as there is room. Says whether something is left.
    fn flush(&self) -> bool {
        let mut queue = lock(&self.queue);
        while let Some(frame) = queue.frames.pop_front() {
            if self.try_send(&frame) == Sent::Full {
                queue.frames.push_front(frame);
                return true;
            }
            queue.bytes -= frame.len();
        }
        false
    }

    /// Wakes a flow once the guest has room again.
    pub(crate) fn wake_when_writable(&self, waker: &Waker) {
        let mut waiting = lock(&self.waiting);
        if !waiting.iter().any(|other| other.will_wake(waker)) {
            waiting.push_back(waker.clone());
        }
        drop(waiting);
        self.waits.notify_one();
    }

    /// Waits for room on behalf of all flows. Runs as long as the machine is attached.
    pub(crate) async fn wake_waiting(&self) {
        loop {
            self.waits.notified().await;
            while self.flush() || !lock(&self.waiting).is_empty() {
                // An error shows again when a flow sends.
                let _ = self.socket.writable().await;
                let woken: Vec<Waker> = {
                    let mut waiting = lock(&self.waiting);
                    let count = waiting.len().min(WOKEN);
                    waiting.drain(..count).collect()
                };
                woken.into_iter().for_each(Waker::wake);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Closes the card. Done explicitly: tasks may hold the link a little longer.
    pub(crate) fn close(&self) {
        // The machine may be gone, and then it is closed already.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }
}

/// Sends without waiting. The runtime is asked only if the kernel has no room: it does not know at first that a new
/// socket is writable. Sending once more under its eyes makes it notice when there is room again.
fn send_now(sender: &UnixDatagram, frame: &[u8]) -> io::Result<()> {
    let send = || rustix::net::send(sender, frame, SendFlags::DONTWAIT).map(|_| ()).map_err(io::Error::from);
    match send() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => sender.try_io(Interest::WRITABLE, send),
        result => result,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn pair() -> (Link, UnixDatagram) {
        let (near, far) = UnixDatagram::pair().unwrap();
        (Link::new(near.into_std().unwrap().into()).unwrap(), far)
    }

    #[tokio::test]
    async fn frames_pass_both_ways_until_either_side_closes() {
        let (link, guest) = pair();
        guest.send(b"up").await.unwrap();
        link.readable().await.unwrap();
        let mut buffer = [0; 10];
        assert_eq!(link.try_receive(&mut buffer).unwrap(), 2);
        assert_eq!(link.try_send(b"down"), Sent::Yes);
        assert_eq!(guest.recv(&mut buffer).await.unwrap(), 4);
        link.close();
        guest.send(b"late").await.unwrap_err();
        let (link, guest) = pair();
        drop(guest);
        assert_eq!(link.try_send(b"lost"), Sent::Gone);
    }

    #[tokio::test]
    async fn a_descriptor_that_is_no_card_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        Link::new(file.into()).unwrap_err();
        let alone = std::os::unix::net::UnixDatagram::unbound().unwrap();
        Link::new(alone.into()).unwrap_err();
    }

    #[tokio::test]
    async fn a_full_guest_is_reported_and_room_is_announced() {
        let (link, guest) = pair();
        let link = Arc::new(link);
        let mut sent = 0;
        while link.try_send(&[7; 1000]) == Sent::Yes {
            sent += 1;
        }
        assert!(sent > 0);
        let pump = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.wake_waiting().await }
        });
        let mut buffer = [0; 2000];
        let room = std::future::poll_fn(|cx| match link.try_send(b"more") {
            Sent::Yes => std::task::Poll::Ready(()),
            _ => {
                link.wake_when_writable(cx.waker());
                std::task::Poll::Pending
            }
        });
        let drain = async {
            for _ in 0..sent {
                guest.recv(&mut buffer).await.unwrap();
            }
        };
        tokio::join!(room, drain);
        pump.abort();
    }
}
