//! Connections to what listens in the guest. One worker carries the bytes of each, both ways, and each way ends by
//! itself.

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
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

/// Bytes taken from the socket at once: with its frame, what a guest's virtio console takes in one piece. There may be
/// hundreds of connections, so each makes do with little memory.
const PIECE: usize = 32 * 1024 - OVERHEAD;

/// Connects to a port of the guest's own and carries bytes until both ways have ended.
pub(crate) fn connect(
    agent: &Agent,
    stream: &Arc<Stream>,
    port: u16,
    scratch: &mut Scratch,
) -> Outcome<Response> {
    hold::refuse_if_held(agent)?;
    if port == 0 {
        return Err(invalid("nothing can listen on port 0"));
    }
    let bell = Arc::new(Bell::new()?);
    stream.wake_through(Some(Arc::clone(&bell) as Arc<dyn Wakeable>));
    let result = dial(stream, port, &bell).and_then(|socket| {
        stream.respond(&Response::Connected)?;
        let mut carrier = Carrier::new(stream, &bell, &socket, port);
        let carried = carrier.carry(scratch);
        if carried.is_err() {
            // Whoever is at the other end must not take a connection that broke for one that ended.
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
        carried
    });
    stream.wake_through(None);
    result
}

/// Tries one loopback address after the other.
fn dial(stream: &Stream, port: u16, bell: &Bell) -> Outcome<OwnedFd> {
    let addresses = [(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()];
    let mut failure = None;
    for address in addresses {
        match dial_address(stream, address, bell)? {
            Ok(socket) => return Ok(socket),
            // A guest need not have the second protocol, so the first failure is the one that tells.
            Err(errno) => failure = failure.or(Some(errno)),
        }
    }
    Err(match failure {
        Some(Errno::CONNREFUSED) | None => GuestError {
            kind: ErrorKind::NotFound,
            errno: Some(Errno::CONNREFUSED.raw_os_error()),
            message: format!("nothing listens on port {port}: {}", Errno::CONNREFUSED),
        },
        Some(errno) => refused(format!("connecting to port {port}"), errno),
    })
}

/// The inner error is the network's.
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
    // What is small must not wait for more.
    let _ = sockopt::set_tcp_nodelay(&socket, true);
    Ok(Ok(socket))
}

/// A server whose queue is full lets one wait, for which the host may not have the patience.
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
            let outcome = sockopt::socket_error(socket).during(|| "asking how connecting went")?;
            return Ok(outcome);
        }
    }
}

struct Carrier<'a> {
    stream: &'a Stream,
    bell: &'a Bell,
    socket: &'a OwnedFd,
    port: u16,
    /// From the host, and how much of it was written.
    held: Vec<u8>,
    written: usize,
    inward: Inward,
    /// The server has sent everything.
    outward_over: bool,
}

/// The way from the host to the server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Inward {
    Open,
    /// The host has sent everything.
    Over,
    /// The server takes no more; what it still sends is passed on all the same.
    Broken(Errno),
}

impl<'a> Carrier<'a> {
    fn new(stream: &'a Stream, bell: &'a Bell, socket: &'a OwnedFd, port: u16) -> Self {
        let (held, inward) = (Vec::new(), Inward::Open);
        Self { stream, bell, socket, port, held, written: 0, inward, outward_over: false }
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

    /// Writes what the server takes without waiting.
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
                // Discarded, so that the host does not wait for ever.
                Input::Data(_) => {}
                Input::Pending => return Ok(()),
                Input::Eof => {
                    // A session that was lost is no end of data.
                    self.stream.check()?;
                    if self.inward == Inward::Open {
                        self.inward = Inward::Over;
                        // It may have been reset, which reading tells.
                        let _ = rustix::net::shutdown(self.socket, Shutdown::Write);
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Waits until something can go on, and passes on a piece of what the server sent.
    fn wait_and_pass_on(&mut self, scratch: &mut Scratch) -> Outcome<()> {
        let room = if self.outward_over { 0 } else { self.stream.room(Channel::Main).min(PIECE) };
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, room > 0);
        wanted.set(PollFlags::OUT, self.written < self.held.len());
        let mut fds = vec![PollFd::new(self.bell, PollFlags::IN)];
        // A socket of which nothing is wanted would still report that it was closed, again and again.
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
        refused(format!("the connection to port {} broke", self.port), errno)
    }
}

fn wait(fds: &mut [PollFd<'_>]) -> Outcome<()> {
    match poll(fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(refused("waiting for a connection", errno)),
    }
}
