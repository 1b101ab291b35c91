//! The link over a virtio socket.
//!
//! Any user of the host can connect. Whoever does not begin with the key is sent away, and disturbs nobody before that:
//! the link of the host that has the key goes on until another one with the key takes its place.

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

/// How many may be at the door at once; more are sent away at once.
const MOST_AT_THE_DOOR: usize = 64;
/// How long somebody at the door may take to show the key, and how long the key may take to come after it was shown:
/// a machine that was just restored has a new one, which may still be on its way.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

type Key = [u8; LINK_KEY_LEN];

/// Serves whoever has the key. The newest wins: the host opens a new connection when it has lost the old.
pub(crate) fn serve(agent: &Arc<Agent>) {
    let listener = match listen() {
        Ok(listener) => listener,
        Err(errno) => return log(&format!("cannot listen on vsock: {errno}")),
    };
    let Some(port) = ports::find(LINK_KEY_PORT, OFlags::NONBLOCK) else {
        return log("there is no port for the key of the link");
    };
    let house = Arc::new(House {
        agent: Arc::clone(agent),
        keys: Mutex::new(Keys { port, given: LinkKeys::default() }),
        at_the_door: AtomicUsize::new(0),
        guest: Mutex::default(),
    });
    let mut arrived = 0;
    loop {
        match accept_with(&listener, SocketFlags::CLOEXEC) {
            Ok(connection) => {
                arrived += 1;
                house.meet(connection, arrived);
            }
            Err(Errno::INTR | Errno::CONNABORTED | Errno::CONNRESET) => {}
            Err(errno) => return log(&format!("cannot accept on vsock: {errno}")),
        }
    }
}

struct House {
    agent: Arc<Agent>,
    keys: Mutex<Keys>,
    at_the_door: AtomicUsize,
    /// Who is served.
    guest: Mutex<Option<Guest>>,
}

struct Guest {
    /// Its place in the order of arrival.
    arrived: u64,
    /// What it came in with.
    key: Key,
    link: Arc<Link>,
    server: JoinHandle<()>,
}

impl House {
    /// Asks a newcomer for the key, in a thread of its own: it may take its time, or never answer.
    fn meet(self: &Arc<Self>, connection: OwnedFd, arrived: u64) {
        if self.at_the_door.fetch_add(1, Ordering::Relaxed) >= MOST_AT_THE_DOOR {
            self.at_the_door.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let house = Arc::clone(self);
        let asked = thread::Builder::new().name("door".to_owned()).spawn(move || {
            let key = shows(&connection, |shown| locked(&house.keys).fits(shown), PATIENCE);
            house.at_the_door.fetch_sub(1, Ordering::Relaxed);
            if let Some(key) = key {
                house.let_in(connection, arrived, key);
            }
        });
        if let Err(error) = asked {
            self.at_the_door.fetch_sub(1, Ordering::Relaxed);
            log(&format!("cannot start a thread for a connection: {error}"));
        }
    }

    fn let_in(&self, connection: OwnedFd, arrived: u64, key: Key) {
        let mut guest = locked(&self.guest);
        // Whoever was asked longer than somebody who came later is not the newest any more.
        if guest.as_ref().is_some_and(|last| last.arrived > arrived) {
            return;
        }
        if let Some(last) = guest.take() {
            if last.key == key {
                last.link.shut_if_alive();
            }
            // Another key means another life: this is a copy of the machine that connection belongs to, and a word from
            // here would end it there. Here it is reset by the device of every machine that is restored.
            // Its server has ended its session when it returns, so the two never mix.
            let _ = last.server.join();
        }
        let link = Arc::new(Link::new(connection, Transport::Socket));
        match self.serve_in_thread(&link) {
            Ok(server) => *guest = Some(Guest { arrived, key, link, server }),
            Err(error) => log(&format!("cannot start a thread for the host: {error}")),
        }
    }

    fn serve_in_thread(&self, link: &Arc<Link>) -> io::Result<JoinHandle<()>> {
        let (agent, link) = (Arc::clone(&self.agent), Arc::clone(link));
        thread::Builder::new().name("vsock".to_owned()).spawn(move || session::serve(&agent, &link))
    }
}

/// The keys that came over the port.
struct Keys {
    port: OwnedFd,
    given: LinkKeys,
}

impl Keys {
    /// Whether a key is the last that was given.
    fn fits(&mut self, shown: &Key) -> bool {
        let mut buffer = [0; 256];
        // Nothing more now, or no host that could say more.
        while let Ok(count @ 1..) = rustix::io::read(&self.port, &mut buffer) {
            self.given.take_in(&buffer[..count]);
        }
        self.given.last().is_some_and(|key| same(key, shown))
    }
}

/// The key, if that is the first thing that comes over a connection. What follows is left in it.
fn shows(connection: &OwnedFd, mut fits: impl FnMut(&Key) -> bool, patience: Duration) -> Option<Key> {
    static TOLD: AtomicBool = AtomicBool::new(false);
    let shown = read_key(connection).ok()?;
    let deadline = Instant::now() + patience;
    loop {
        if fits(&shown) {
            return Some(shown);
        }
        if Instant::now() >= deadline {
            break;
        }
        thread::sleep(LOOK_AGAIN);
    }
    if !TOLD.swap(true, Ordering::Relaxed) {
        log("sent away a connection without the key of the link; others will not be mentioned");
    }
    None
}

fn read_key(connection: &OwnedFd) -> rustix::io::Result<Key> {
    let limit = |limit| sockopt::set_socket_timeout(connection, sockopt::Timeout::Recv, limit);
    limit(Some(PATIENCE))?;
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

/// Takes as long wherever they differ.
fn same(one: &Key, other: &Key) -> bool {
    one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

fn listen() -> rustix::io::Result<OwnedFd> {
    // SAFETY: the address is a plain structure of numbers for which all zeros is valid, and its length is passed
    // with it; the new descriptor is known to nobody else.
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
        let fits = |shown: &Key| key.is_some_and(|key| same(&key, shown));
        (shows(&guest, fits, Duration::ZERO).is_some(), guest)
    }

    #[test]
    fn a_key_that_is_still_on_its_way_is_waited_for() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        let (mut giver, port) = UnixStream::pair().unwrap();
        port.set_nonblocking(true).unwrap();
        let mut keys = Keys { port: port.into(), given: LinkKeys::default() };
        host.write_all(&KEY).unwrap();
        giver.write_all(&agentiso_proto::give_link_key(&[1; LINK_KEY_LEN])).unwrap();
        let mut looks = 0;
        let fits = |shown: &Key| {
            looks += 1;
            if looks == 2 {
                giver.write_all(&agentiso_proto::give_link_key(&KEY)).unwrap();
            }
            keys.fits(shown)
        };
        assert_eq!(shows(&guest.into(), fits, PATIENCE), Some(KEY));
        assert!(!keys.fits(&[1; LINK_KEY_LEN]), "the one before it is good for nothing");
    }

    #[test]
    fn the_key_opens_and_what_follows_it_is_left_for_the_session() {
        let (opened, connection) = shown(&[&KEY[..], b"hello"].concat(), Some(KEY));
        assert!(opened);
        let mut rest = String::new();
        UnixStream::from(connection).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "hello");
    }

    /// Says hello and returns whether it is answered.
    fn greets(host: &mut UnixStream) -> bool {
        let hello = Hello::new([1; 16], Inherit::Keep);
        host.write_all(&hello.encode()).is_ok() && host.read_exact(&mut [0; WELCOME_LEN]).is_ok()
    }

    fn house() -> Arc<House> {
        Arc::new(House {
            agent: Arc::new(Agent::of_process()),
            keys: Mutex::new(Keys { port: UnixStream::pair().unwrap().0.into(), given: LinkKeys::default() }),
            at_the_door: AtomicUsize::new(0),
            guest: Mutex::default(),
        })
    }

    #[test]
    fn the_newest_with_the_same_key_takes_the_place_of_the_last() {
        let house = house();
        let ((mut first, one), (mut second, two)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        house.let_in(one.into(), 1, KEY);
        assert!(greets(&mut first));
        house.let_in(two.into(), 2, KEY);
        assert!(!greets(&mut first) && greets(&mut second));
    }

    #[test]
    fn one_that_came_earlier_and_was_asked_longer_does_not_take_the_place_of_the_newest() {
        let house = house();
        let ((mut first, one), (mut second, two)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        house.let_in(two.into(), 2, KEY);
        assert!(greets(&mut second));
        house.let_in(one.into(), 1, KEY);
        assert!(greets(&mut second) && !greets(&mut first));
    }

    #[test]
    fn what_a_copy_has_of_its_sources_connection_is_left_alone_until_it_is_reset() {
        let house = house();
        let ((mut first, one), (mut second, two)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        house.let_in(one.into(), 1, KEY);
        let newcomer = Arc::clone(&house);
        let entering = thread::spawn(move || newcomer.let_in(two.into(), 2, [8; LINK_KEY_LEN]));
        while house.guest.try_lock().is_ok() {
            thread::yield_now();
        }
        for _ in 0..100 {
            assert!(greets(&mut first), "it was not shut");
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
        assert!(!shown(&KEY, None).0, "without a key of its own an agent lets nobody in");
    }
}
