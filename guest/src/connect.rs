//! TCP connections to servers in the guest, and over its network to others. One worker forwards the bytes of a connection in both directions. The two
//! directions are closed independently; a broken connection is reset, so that no peer takes it for a clean end.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4},
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use agentiso_proto::{Channel, ErrorKind, GuestError, OVERHEAD, Response};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt},
};

use crate::{
    agent::Agent,
    bell::{Bell, Wakeable},
    command_io::{CommandIo, Input},
    error::{During, Outcome, cancelled, invalid, refused},
    frames::Scratch,
    hold,
    stream::Stream,
};

/// Bytes read from the socket at a time. With its frame header this is what a guest's virtio console accepts in one
/// write. Kept small because there may be hundreds of connections.
const PIECE: usize = 32 * 1024 - OVERHEAD;

/// What to connect to.
#[derive(Clone, Copy)]
pub(crate) enum Server {
    /// A port on the loopback addresses of the guest.
    Own(u16),
    /// A port of another machine.
    Neighbour(SocketAddrV4),
}

impl Server {
    fn port(self) -> u16 {
        match self {
            Self::Own(port) => port,
            Self::Neighbour(address) => address.port(),
        }
    }

    fn addresses(self) -> Vec<SocketAddr> {
        match self {
            Self::Own(port) => vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()],
            Self::Neighbour(address) => vec![address.into()],
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(port) => write!(out, "port {port}"),
            Self::Neighbour(address) => write!(out, "{address}"),
        }
    }
}

/// Connects to a server and forwards bytes until both directions are closed.
pub(crate) fn connect(
    agent: &Agent,
    stream: &Arc<Stream>,
    server: Server,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    hold::refuse_if_held(agent)?;
    if server.port() == 0 {
        return Err(invalid("nothing can listen on port 0"));
    }
    let bell = Arc::new(Bell::new()?);
    stream.wake_through(Some(Arc::clone(&bell) as Arc<dyn Wakeable>));
    let result = dial(stream, server, &bell).and_then(|socket| {
        stream.respond(&Response::Connected)?;
        let mut carrier = Carrier::new(stream, &bell, &socket, server);
        let carried = carrier.carry(scratch);
        if carried.is_err() {
            // Reset the connection: the server must not take a lost stream for a clean end.
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
        carried
    });
    stream.wake_through(None);
    result
}

/// Tries the addresses of a server in turn.
fn dial(stream: &Stream, server: Server, bell: &Bell) -> Outcome<OwnedFd> {
    let mut failure = None;
    for address in server.addresses() {
        match dial_address(stream, address, bell)? {
            Ok(socket) => return Ok(socket),
            // The guest may not have IPv6, so report the first failure.
            Err(errno) => failure = failure.or(Some(errno)),
        }
    }
    Err(match failure {
        Some(Errno::CONNREFUSED) | None => GuestError {
            kind: ErrorKind::NotFound,
            errno: Some(Errno::CONNREFUSED.raw_os_error()),
            message: format!("nothing listens on {server}: {}", Errno::CONNREFUSED),
        },
        Some(errno) => refused(format!("connecting to {server}"), errno),
    })
}

/// The inner error is from the network; the outer one means that the stream was cancelled or lost.
fn dial_address(stream: &Stream, address: SocketAddr, bell: &Bell) -> Outcome<Result<OwnedFd, Errno>> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match rustix::net::socket_with(family, SocketType::STREAM, flags, None) {
        Ok(socket) => socket,
        Err(errno) => return Ok(Err(errno)),
    };
    match rustix::net::connect(&socket, &address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => {
            if let Err(errno) = wait_for_connection(stream, &socket, bell)? {
                return Ok(Err(errno));
            }
        }
        Err(errno) => return Ok(Err(errno)),
    }
    // Forward small writes immediately.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    Ok(Ok(socket))
}

/// Waits for a pending connect. Can be cancelled: a server with a full backlog may never accept.
fn wait_for_connection(stream: &Stream, socket: &OwnedFd, bell: &Bell) -> Outcome<Result<(), Errno>> {
    loop {
        stream.check()?;
        let mut fds = [PollFd::new(socket, PollFlags::OUT), PollFd::new(bell, PollFlags::IN)];
        wait(&mut fds)?;
        let (settled, rung) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if rung {
            bell.silence();
        }
        if settled {
            let outcome = sockopt::socket_error(socket).during(|| "reading the result of connecting")?;
            return Ok(outcome);
        }
    }
}

struct Carrier<'a> {
    stream: &'a Stream,
    bell: &'a Bell,
    socket: &'a OwnedFd,
    server: Server,
    /// Data from the host that the server has not accepted yet.
    held: Vec<u8>,
    written: usize,
    inward: Inward,
    /// The server has closed its sending side.
    outward_over: bool,
}

/// The direction from the host to the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Inward {
    Open,
    /// The host has closed its sending side.
    Over,
    /// The server accepts no more data. What it still sends is forwarded.
    Broken(Errno),
}

impl<'a> Carrier<'a> {
    fn new(stream: &'a Stream, bell: &'a Bell, socket: &'a OwnedFd, server: Server) -> Self {
        let (held, inward) = (Vec::new(), Inward::Open);
        Self { stream, bell, socket, server, held, written: 0, inward, outward_over: false }
    }

    fn carry(&mut self, scratch: &mut Scratch) -> Outcome<Response> {
        loop {
            self.stream.check()?;
            self.take_in()?;
            match self.inward {
                Inward::Open => {}
                Inward::Over | Inward::Broken(Errno::PIPE) if self.outward_over => return Ok(Response::Done),
                Inward::Broken(errno) if self.outward_over => return Err(self.broken(errno)),
                Inward::Over | Inward::Broken(_) => {}
            }
            self.wait_and_pass_on(scratch)?;
        }
    }

    /// Writes as much to the server as it accepts without blocking.
    fn take_in(&mut self) -> Outcome<()> {
        while self.inward != Inward::Over {
            if self.written < self.held.len() {
                match rustix::net::send(
                    self.socket,
                    &self.held[self.written..],
                    rustix::net::SendFlags::NOSIGNAL,
                ) {
                    Ok(count) => self.written += count,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(errno) => {
                        self.inward = Inward::Broken(errno);
                        self.written = self.held.len();
                    }
                }
                continue;
            }
            self.written = 0;
            self.held.clear();
            match self.stream.try_receive() {
                Input::Data(data) if self.inward == Inward::Open => self.held = data,
                // Discard it, so that the host does not wait for credit for ever.
                Input::Data(_) => {}
                Input::Pending => return Ok(()),
                Input::Eof => {
                    // A lost session is not an end of file.
                    self.stream.check()?;
                    if self.inward == Inward::Open {
                        self.inward = Inward::Over;
                        // This fails if the server reset the connection; the next read reports that.
                        let _ = rustix::net::shutdown(self.socket, Shutdown::Write);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits until either side is ready and forwards one chunk from the server.
    fn wait_and_pass_on(&mut self, scratch: &mut Scratch) -> Outcome<()> {
        let room = if self.outward_over { 0 } else { self.stream.room(Channel::Main).min(PIECE) };
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, room > 0);
        wanted.set(PollFlags::OUT, self.written < self.held.len());
        let mut fds = vec![PollFd::new(self.bell, PollFlags::IN)];
        // With no events requested, poll would still report POLLHUP and spin.
        if !wanted.is_empty() {
            fds.push(PollFd::new(self.socket, wanted));
        }
        wait(&mut fds)?;
        let (rung, ready) =
            (!fds[0].revents().is_empty(), fds.get(1).is_some_and(|fd| !fd.revents().is_empty()));
        if rung {
            self.bell.silence();
        }
        if ready && room > 0 { self.pass_on(room, scratch) } else { Ok(()) }
    }

    fn pass_on(&mut self, room: usize, scratch: &mut Scratch) -> Outcome<()> {
        scratch.data.clear();
        match rustix::io::read(self.socket, &mut scratch.data.space()[..room]) {
            Ok(0) => {
                self.outward_over = true;
                self.stream.send_eof(Channel::Main)
            }
            Ok(count) => {
                scratch.data.advance(count);
                self.stream.take_output(Channel::Main, scratch, false).map_err(|_| cancelled())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(errno) => Err(self.broken(errno)),
        }
    }

    fn broken(&self, errno: Errno) -> GuestError {
        refused(format!("the connection to {} broke", self.server), errno)
    }
}

fn wait(fds: &mut [PollFd<'_>]) -> Outcome<()> {
    match poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(refused("waiting for a connection", errno)),
    }
}
