//! One machine's card: a pair of unix datagram sockets, one frame per datagram.
//!
//! Receiving and sending use separate sockets. The receiving one is bound and not connected, so a new QEMU process can
//! send to it. The sending one is connected, because only then does the kernel report when the other side has room
//! again; it is connected anew when the other side was replaced. Either side can restart without the other.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
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
    receiver: UnixDatagram,
    listen: PathBuf,
    peer: PathBuf,
    sender: Mutex<Option<Arc<UnixDatagram>>>,
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
    /// Binds the router's end. A socket that a previous router left there is replaced.
    #[expect(clippy::disallowed_methods, reason = "removes a socket, which waits for no device")]
    pub(crate) fn bind(listen: &Path, peer: &Path) -> io::Result<Self> {
        match std::fs::remove_file(listen) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self {
            receiver: UnixDatagram::bind(listen)?,
            listen: listen.to_owned(),
            peer: peer.to_owned(),
            sender: Mutex::new(None),
            waiting: Mutex::default(),
            queue: Mutex::default(),
            waits: Notify::new(),
        })
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.receiver.readable().await
    }

    /// Receives a frame if there is one.
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receiver.try_recv(buffer)
    }

    /// Sends a frame if the guest has room.
    pub(crate) fn try_send(&self, frame: &[u8]) -> Sent {
        let mut slot = lock(&self.sender);
        // The second round uses a new connection, for a machine that was restarted.
        for _ in 0..2 {
            let sender = match slot.as_ref() {
                Some(sender) => sender,
                None => match self.connect() {
                    Ok(sender) => slot.insert(Arc::new(sender)),
                    Err(_) => return Sent::Gone,
                },
            };
            match send_now(sender, frame) {
                Ok(()) => return Sent::Yes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Sent::Full,
                Err(error) if is_disconnected(&error) => *slot = None,
                Err(error) => {
                    tracing::debug!(%error, peer = %self.peer.display(), "frame lost");
                    return Sent::Gone;
                }
            }
        }
        Sent::Gone
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
                let sender = lock(&self.sender).clone();
                if let Some(sender) = sender {
                    // An error shows again when a flow sends.
                    let _ = sender.writable().await;
                }
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

    /// Removes the router's end from the file system. Done explicitly: tasks may hold the link a little longer, when the
    /// machine is attached again in the same place.
    #[expect(clippy::disallowed_methods, reason = "removes a socket, which waits for no device")]
    pub(crate) fn remove(&self) {
        // The machine may be gone with its directory.
        let _ = std::fs::remove_file(&self.listen);
    }

    fn connect(&self) -> io::Result<UnixDatagram> {
        let sender = UnixDatagram::unbound()?;
        sender.connect(&self.peer)?;
        Ok(sender)
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

fn is_disconnected(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotFound
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn frames_pass_both_ways_and_survive_a_restart_of_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let (listen, peer) = (dir.path().join("router"), dir.path().join("guest"));
        let link = Link::bind(&listen, &peer).unwrap();
        assert_eq!(link.try_send(b"early"), Sent::Gone, "no machine yet");

        for round in 0..2 {
            let guest = UnixDatagram::bind(&peer).unwrap();
            guest.send_to(b"up", &listen).await.unwrap();
            link.readable().await.unwrap();
            let mut buffer = [0; 10];
            assert_eq!(link.try_receive(&mut buffer).unwrap(), 2);
            assert_eq!(link.try_send(b"down"), Sent::Yes, "round {round}");
            assert_eq!(guest.recv(&mut buffer).await.unwrap(), 4);
            drop(guest);
            std::fs::remove_file(&peer).unwrap();
            assert_eq!(link.try_send(b"lost"), Sent::Gone);
        }
    }

    #[tokio::test]
    async fn a_full_guest_is_reported_and_room_is_announced() {
        let dir = tempfile::tempdir().unwrap();
        let (listen, peer) = (dir.path().join("router"), dir.path().join("guest"));
        let link = Arc::new(Link::bind(&listen, &peer).unwrap());
        let guest = UnixDatagram::bind(&peer).unwrap();
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

    #[test]
    fn the_socket_is_removed_with_the_link() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _guard = runtime.enter();
        let dir = tempfile::tempdir().unwrap();
        let listen = dir.path().join("router");
        Link::bind(&listen, &dir.path().join("guest")).unwrap().remove();
        assert!(!listen.exists());
        std::fs::create_dir(&listen).unwrap();
        assert!(Link::bind(&listen, &dir.path().join("guest")).is_err(), "a directory is not replaced");
    }
}
