//! The link over vsock.
//!
//! Any process on the host can connect, so a connection must first send the link key. One that does not is closed and
//! affects nobody. An authenticated connection is served until a newer one with the key replaces it.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use agentiso_proto::{LINK_KEY_LEN, LINK_KEY_PORT, LinkKeys, VSOCK_PORT};
use rustix::{
    fs::OFlags,
    io::Errno,
    net::{SocketFlags, accept_with, sockopt},
};

use crate::{
    agent::Agent,
    error::last_errno,
    link::{Link, Transport},
    log::log,
    ports, session,
    sync::locked,
};

/// Limit on connections that have not sent the key yet. Further ones are closed immediately.
const MAX_PENDING: usize = 64;
/// How long a connection may take to send the key, and how long to wait for a matching key on the serial port: a
/// machine that was just restored gets a new key, which may still be in flight.
const KEY_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

type Key = [u8; LINK_KEY_LEN];

/// Serves authenticated connections. The newest replaces the one before: the host reconnects when it has lost its link.
pub(crate) fn serve(agent: &Arc<Agent>) {
    let listener = match listen() {
        Ok(listener) => listener,
        Err(errno) => return log(&format!("cannot listen on vsock: {errno}")),
    };
    let Some(port) = ports::find(LINK_KEY_PORT, OFlags::NONBLOCK) else {
        return log("there is no serial port for the link key; vsock is not used");
    };
    let server = Arc::new(Server {
        agent: Arc::clone(agent),
        keys: Mutex::new(Keys { port, given: LinkKeys::default() }),
        pending: AtomicUsize::new(0),
        served: Mutex::default(),
    });
    let mut arrived = 0;
    loop {
        match accept_with(&listener, SocketFlags::CLOEXEC) {
            Ok(connection) => {
                arrived += 1;
                server.authenticate(connection, arrived);
            }
            Err(Errno::INTR | Errno::CONNABORTED | Errno::CONNRESET) => {}
            Err(errno) => return log(&format!("cannot accept on vsock: {errno}")),
        }
    }
}

struct Server {
    agent: Arc<Agent>,
    keys: Mutex<Keys>,
    pending: AtomicUsize,
    /// The connection being served.
    served: Mutex<Option<Served>>,
}

struct Served {
    /// Position in the order of accepted connections.
    arrived: u64,
    /// The key it authenticated with.
    key: Key,
    link: Arc<Link>,
    server: JoinHandle<()>,
}

impl Server {
    /// Waits for the key in a separate thread, since a connection may never send it.
    fn authenticate(self: &Arc<Self>, connection: OwnedFd, arrived: u64) {
        if self.pending.fetch_add(1, Ordering::Relaxed) >= MAX_PENDING {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let server = Arc::clone(self);
        let asked = thread::Builder::new().name("vsock-auth".to_owned()).spawn(move || {
            let key =
                read_valid_key(&connection, |shown| locked(&server.keys).is_current(shown), KEY_TIMEOUT);
            server.pending.fetch_sub(1, Ordering::Relaxed);
            if let Some(key) = key {
                server.serve_connection(connection, arrived, key);
            }
        });
        if let Err(error) = asked {
            self.pending.fetch_sub(1, Ordering::Relaxed);
            log(&format!("cannot start a thread for a connection: {error}"));
        }
    }

    fn serve_connection(&self, connection: OwnedFd, arrived: u64, key: Key) {
        let mut served = locked(&self.served);
        // A newer connection authenticated first.
        if served.as_ref().is_some_and(|last| last.arrived > arrived) {
            return;
        }
        if let Some(last) = served.take() {
            if last.key == key {
                last.link.shut_if_alive();
            }
            // With a different key, this machine is a copy of the one that the connection belongs to: shutting it down
            // from here would close the original's connection. The vsock device resets it in every restored machine.
            // The server has ended its session when it returns, so two sessions never overlap.
            let _ = last.server.join();
        }
        let link = Arc::new(Link::new(connection, Transport::Socket));
        match self.serve_in_thread(&link) {
            Ok(server) => *served = Some(Served { arrived, key, link, server }),
            Err(error) => log(&format!("cannot start a thread for the host: {error}")),
        }
    }

    fn serve_in_thread(&self, link: &Arc<Link>) -> io::Result<JoinHandle<()>> {
        let (agent, link) = (Arc::clone(&self.agent), Arc::clone(link));
        thread::Builder::new().name("vsock".to_owned()).spawn(move || session::serve(&agent, &link))
    }
}

/// The keys received over the serial port.
struct Keys {
    port: OwnedFd,
    given: LinkKeys,
}

impl Keys {
    /// Whether `shown` is the newest key.
    fn is_current(&mut self, shown: &Key) -> bool {
        let mut buffer = [0; 256];
        // Fails when there is nothing to read, or no host is attached.
        while let Ok(count @ 1..) = rustix::io::read(&self.port, &mut buffer) {
            self.given.take_in(&buffer[..count]);
        }
        self.given.last().is_some_and(|key| equal(key, shown))
    }
}

/// Reads the key from the beginning of a connection and checks it. Leaves the following bytes in the connection.
fn read_valid_key(
    connection: &OwnedFd,
    mut is_current: impl FnMut(&Key) -> bool,
    timeout: Duration,
) -> Option<Key> {
    static LOGGED: AtomicBool = AtomicBool::new(false);
    let shown = read_key(connection).ok()?;
    let deadline = Instant::now() + timeout;
    loop {
        if is_current(&shown) {
            return Some(shown);
        }
        if Instant::now() >= deadline {
            break;
        }
        thread::sleep(POLL_INTERVAL);
    }
    if !LOGGED.swap(true, Ordering::Relaxed) {
        log("rejected a connection without a valid link key; further ones are not logged");
    }
    None
}

fn read_key(connection: &OwnedFd) -> rustix::io::Result<Key> {
    let limit = |limit| sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, limit);
    limit(Some(KEY_TIMEOUT))?;
    let mut key = [0; LINK_KEY_LEN];
    let mut have = 0;
    while have < key.len() {
        match rustix::io::read(connection, &mut key[have..]) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(count) => have += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    limit(None)?;
    Ok(key)
}

/// Compares in constant time.
fn equal(one: &Key, other: &Key) -> bool {
    one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

fn listen() -> rustix::io::Result<OwnedFd> {
    // SAFETY: the address is a plain structure that is valid when zeroed, and its length is passed with it. Nothing
    // else owns the new descriptor.
    unsafe {
        let fd = libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(last_errno());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_vm = std::mem::zeroed();
        address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
        address.svm_cid = libc::VMADDR_CID_ANY;
        address.svm_port = VSOCK_PORT;
        let len = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
        if libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) < 0
            || libc::listen(socket.as_raw_fd(), 8) < 0
        {
            return Err(last_errno());
        }
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use agentiso_proto::{Hello, Inherit, WELCOME_LEN};

    use super::*;

    const KEY: Key = [7; LINK_KEY_LEN];

    fn shown(bytes: &[u8], key: Option<Key>) -> (bool, OwnedFd) {
        let (mut host, guest) = UnixStream::pair().unwrap();
        host.write_all(bytes).unwrap();
        drop(host);
        let guest = OwnedFd::from(guest);
        let is_current = |shown: &Key| key.is_some_and(|key| equal(&key, shown));
        (read_valid_key(&guest, is_current, Duration::ZERO).is_some(), guest)
    }

    #[test]
    fn a_key_in_flight_is_waited_for() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        let (mut giver, port) = UnixStream::pair().unwrap();
        port.set_nonblocking(true).unwrap();
        let mut keys = Keys { port: port.into(), given: LinkKeys::default() };
        host.write_all(&KEY).unwrap();
        giver.write_all(&agentiso_proto::give_link_key(&[1; LINK_KEY_LEN])).unwrap();
        let mut looks = 0;
        let is_current = |shown: &Key| {
            looks += 1;
            if looks == 2 {
                giver.write_all(&agentiso_proto::give_link_key(&KEY)).unwrap();
            }
            keys.is_current(shown)
        };
        assert_eq!(read_valid_key(&guest.into(), is_current, KEY_TIMEOUT), Some(KEY));
        assert!(!keys.is_current(&[1; LINK_KEY_LEN]), "the previous key is no longer valid");
    }

    #[test]
    fn the_key_is_accepted_and_later_bytes_are_left_for_the_session() {
        let (opened, connection) = shown(&[&KEY[..], b"hello"].concat(), Some(KEY));
        assert!(opened);
        let mut rest = String::new();
        UnixStream::from(connection).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "hello");
    }

    /// Sends a hello and returns whether it was answered.
    fn greets(host: &mut UnixStream) -> bool {
        let hello = Hello::new([1; 16], Inherit::Keep);
        host.write_all(&hello.encode()).is_ok() && host.read_exact(&mut [0; WELCOME_LEN]).is_ok()
    }

    fn server() -> Arc<Server> {
        Arc::new(Server {
            agent: Arc::new(Agent::of_process()),
            keys: Mutex::new(Keys { port: UnixStream::pair().unwrap().0.into(), given: LinkKeys::default() }),
            pending: AtomicUsize::new(0),
            served: Mutex::default(),
        })
    }

    #[test]
    fn a_newer_connection_with_the_same_key_replaces_the_previous_one() {
        let server = server();
        let ((mut first, one), (mut second, two)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        server.serve_connection(one.into(), 1, KEY);
        assert!(greets(&mut first));
        server.serve_connection(two.into(), 2, KEY);
        assert!(!greets(&mut first) && greets(&mut second));
    }

    #[test]
    fn an_older_connection_that_authenticates_late_does_not_replace_a_newer_one() {
        let server = server();
        let ((mut first, one), (mut second, two)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        server.serve_connection(two.into(), 2, KEY);
        assert!(greets(&mut second));
        server.serve_connection(one.into(), 1, KEY);
        assert!(greets(&mut second) && !greets(&mut first));
    }

    #[test]
    fn a_copy_does_not_shut_down_the_connection_of_its_source() {
        let server = server();
        let ((mut first, one), (mut second, two)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        server.serve_connection(one.into(), 1, KEY);
        let newcomer = Arc::clone(&server);
        let entering = thread::spawn(move || newcomer.serve_connection(two.into(), 2, [8; LINK_KEY_LEN]));
        while server.served.try_lock().is_ok() {
            thread::yield_now();
        }
        for _ in 0..100 {
            assert!(greets(&mut first), "the connection was not shut down");
        }
        drop(first);
        entering.join().unwrap();
        assert!(greets(&mut second));
    }

    #[test]
    fn nothing_else_opens() {
        let mut wrong = KEY;
        wrong[31] ^= 1;
        assert!(!shown(&wrong, Some(KEY)).0);
        assert!(!shown(&KEY[..31], Some(KEY)).0);
        assert!(!shown(b"", Some(KEY)).0);
        assert!(!shown(&KEY, None).0, "an agent without a key accepts no connection");
    }
}
