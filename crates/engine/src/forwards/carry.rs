//! One forwarded connection: bytes in both directions, and its end.
//!
//! ```text
//!  both open ── one side has said everything ──► half open ── the other, too ──► over
//!      │                                             │ nothing moves for ten minutes
//!      └──────── a side breaks, or the client has gone ────────────────────────► over
//! ```

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use agentiso_core::ports::link::{ConnectionReader, ConnectionWriter};
use agentiso_core::{Code, Failure};
use rustix::net::{Shutdown, sockopt};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use crate::live_state::locked;

/// Bytes carried at once.
const BUFFER: usize = 64 * 1024;
/// After one side has closed: how long the other may send nothing.
const IDLE: Duration = Duration::from_secs(600);
/// TCP keep-alive: the first probe after this much silence, further probes at this interval, and the connection is
/// closed after this many without a response.
const QUIET: Duration = Duration::from_secs(120);
const ASK_EVERY: Duration = Duration::from_secs(30);
const ASK_TIMES: u32 = 4;

/// Makes a new connection fit for being carried.
pub(super) fn prepare(client: &TcpStream) {
    // Small messages must not wait for more.
    let _ = client.set_nodelay(true);
    // Without these a client that has vanished is noticed later.
    let _ = sockopt::set_socket_keepalive(client, true);
    let _ = sockopt::set_tcp_keepidle(client, QUIET);
    let _ = sockopt::set_tcp_keepintvl(client, ASK_EVERY);
    let _ = sockopt::set_tcp_keepcnt(client, ASK_TIMES);
}

/// Carries bytes until both sides have said everything, or one of them has gone.
pub(super) async fn carry(
    client: &TcpStream,
    source: Box<dyn ConnectionReader>,
    sink: Box<dyn ConnectionWriter>,
) -> Result<(), Failure> {
    let moved = Moved::now();
    let into = into_guest(&moved, client, sink);
    let out = out_of_guest(&moved, source, client);
    let gone = gone(client);
    tokio::pin!(into, out, gone);
    // Each direction ends by itself: one side may have said everything and still listen.
    let client_is_done = tokio::select! {
        sent = &mut into => sent.map(|()| true)?,
        received = &mut out => received.map(|()| false)?,
        () = &mut gone => return Err(broke("the client has gone")),
    };
    moved.note();
    let rest = async { if client_is_done { out.await } else { into.await } };
    tokio::select! {
        ended = rest => ended,
        () = gone => Err(broke("the client has gone")),
        () = moved.idle() => Err(broke("it was half closed and nothing moved")),
    }
}

/// When something last moved.
struct Moved(Mutex<Instant>);

impl Moved {
    fn now() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    fn note(&self) {
        *locked(&self.0) = Instant::now();
    }

    /// Waits until nothing has moved for a while.
    async fn idle(&self) {
        loop {
            let until = *locked(&self.0) + IDLE;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// Waits until the client can neither be heard nor reached.
pub(super) async fn gone(client: &TcpStream) {
    while client.ready(Interest::ERROR).await.is_ok_and(|ready| !ready.is_error()) {
        let again = client.try_io(Interest::ERROR, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
        debug_assert!(again.is_err());
    }
}

async fn into_guest(
    moved: &Moved,
    client: &TcpStream,
    mut guest: Box<dyn ConnectionWriter>,
) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER];
    loop {
        client.readable().await.map_err(broke)?;
        match client.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => guest.write(&buffer[..count]).await?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(broke(error)),
        }
        moved.note();
    }
}

async fn out_of_guest(
    moved: &Moved,
    mut guest: Box<dyn ConnectionReader>,
    client: &TcpStream,
) -> Result<(), Failure> {
    while let Some(bytes) = guest.next().await? {
        let mut left = &bytes[..];
        while !left.is_empty() {
            client.writable().await.map_err(broke)?;
            match client.try_write(left) {
                Ok(count) => left = left.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(broke(error)),
            }
            moved.note();
        }
    }
    rustix::net::shutdown(client, Shutdown::Write).map_err(broke)
}

fn broke(why: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Io, format!("a forwarded connection broke: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use agentiso_core::ports::link::LinkError;
    use async_trait::async_trait;
    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// A server in a guest: what it says, and what it hears.
    struct Said(mpsc::UnboundedReceiver<Vec<u8>>);
    struct Heard(mpsc::UnboundedSender<Vec<u8>>);

    #[async_trait]
    impl ConnectionReader for Said {
        async fn next(&mut self) -> Result<Option<Bytes>, LinkError> {
            Ok(self.0.recv().await.map(Bytes::from))
        }
    }

    #[async_trait]
    impl ConnectionWriter for Heard {
        async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
            self.0.send(bytes.to_vec()).map_err(|_| LinkError::Disconnected)
        }
    }

    struct Forwarded {
        client: TcpStream,
        say: mpsc::UnboundedSender<Vec<u8>>,
        heard: mpsc::UnboundedReceiver<Vec<u8>>,
        carried: tokio::task::JoinHandle<Result<(), Failure>>,
    }

    async fn forwarded() -> Forwarded {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (ours, _) = listener.accept().await.unwrap();
        let ((say, said), (hear, heard)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        prepare(&ours);
        let carried =
            tokio::spawn(async move { carry(&ours, Box::new(Said(said)), Box::new(Heard(hear))).await });
        Forwarded { client, say, heard, carried }
    }

    #[tokio::test]
    async fn a_half_closed_connection_goes_on_in_the_other_direction() {
        let Forwarded { mut client, say, mut heard, carried } = forwarded().await;
        client.write_all(b"all").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(heard.recv().await.unwrap(), b"all");
        assert_eq!(heard.recv().await, None);
        say.send(b"answer".to_vec()).unwrap();
        drop(say);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
        carried.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_has_gone_ends_both_directions() {
        // Before and after it has said everything, while the guest says nothing.
        for half_closed in [false, true] {
            let Forwarded { mut client, say: _say, mut heard, carried } = forwarded().await;
            if half_closed {
                client.shutdown().await.unwrap();
                assert_eq!(heard.recv().await, None);
            }
            rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
            drop(client);
            carried.await.unwrap().unwrap_err();
        }
    }

    #[tokio::test]
    async fn a_client_that_has_gone_is_noticed_while_the_guest_takes_nothing() {
        struct Stuck;
        #[async_trait]
        impl ConnectionWriter for Stuck {
            async fn write(&mut self, _: &[u8]) -> Result<(), LinkError> {
                std::future::pending().await
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (ours, _) = listener.accept().await.unwrap();
        let (_say, said) = mpsc::unbounded_channel();
        let carried = tokio::spawn(async move { carry(&ours, Box::new(Said(said)), Box::new(Stuck)).await });
        client.write_all(b"x").await.unwrap();
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        carried.await.unwrap().unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_idle_is_over_and_what_moves_is_not() {
        let (moved, began) = (Arc::new(Moved::now()), Instant::now());
        let other = Arc::clone(&moved);
        tokio::spawn(async move {
            for _ in 0..5 {
                tokio::time::sleep(IDLE / 2).await;
                other.note();
            }
        });
        moved.idle().await;
        assert_eq!(began.elapsed().as_secs(), (IDLE / 2 * 7).as_secs());
    }

    #[tokio::test]
    async fn a_half_closed_connection_on_which_nothing_moves_ends() {
        let Forwarded { mut client, say: _say, mut heard, carried } = forwarded().await;
        client.shutdown().await.unwrap();
        assert_eq!(heard.recv().await, None);
        // From here on time passes as soon as there is nothing to do.
        tokio::time::pause();
        carried.await.unwrap().unwrap_err();
    }

    #[tokio::test]
    async fn the_kernel_asks_whether_a_client_is_still_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&client);
        assert!(sockopt::socket_keepalive(&client).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&client).unwrap(), QUIET);
    }
}
