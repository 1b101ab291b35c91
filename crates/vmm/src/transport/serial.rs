//! A virtio serial port: works everywhere.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream as StdStream};

use tokio::net::UnixStream;

use super::{Address, Connecting, KeyOffer, Stream, Transport};
use crate::sockets::SocketDir;

/// A serial port whose other end is a unix socket.
pub(crate) struct Serial {
    listener: UnixListener,
    stream: StdStream,
}

impl Serial {
    /// Listens in the machine's directory and connects immediately. The kernel queues the connection until QEMU accepts
    /// it, so there is no race and nothing to poll.
    pub fn new(sockets: &SocketDir) -> io::Result<Self> {
        let listener = sockets.listen("agent.sock")?;
        let stream = sockets.connect("agent.sock")?;
        stream.set_nonblocking(true)?;
        Ok(Self { listener, stream })
    }
}

/// Connects to the port of a running machine.
pub(super) fn connect(sockets: &SocketDir) -> io::Result<UnixStream> {
    let stream = sockets.connect("agent.sock")?;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

impl Transport for Serial {
    fn arguments(&self) -> Vec<(&'static str, String)> {
        let fd = self.listener.as_raw_fd();
        vec![
            ("-chardev", format!("socket,id=agent,fd={fd},server=on,wait=off")),
            ("-device", "virtio-serial-device".to_owned()),
            ("-device", "virtserialport,chardev=agent,name=agentiso".to_owned()),
        ]
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.listener.as_fd()]
    }

    fn address(&self) -> Address {
        Address::Serial
    }

    fn connect(&self) -> Connecting<'_> {
        let stream = self.stream.try_clone().and_then(UnixStream::from_std);
        Box::pin(std::future::ready(stream.map(|stream| Box::new(stream) as Box<dyn Stream>)))
    }

    fn key_offer(self: Box<Self>) -> Option<KeyOffer> {
        None
    }
}
