//! Connecting to a guest from a port that no guest can guess.
//!
//! The kernel looks for the connection a packet of a guest belongs to, and, if there is none, for any socket with the
//! port the packet is for, whoever that one is connected to. So a guest that knows the port of another machine's link
//! can end that link, or speak in it. The ports the kernel gives out follow one another: a guest sees its own and knows
//! its neighbours.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio_vsock::VsockStream;

/// Ports below are for privileged users; the highest means "any".
const PORTS: std::ops::Range<u32> = 1024..u32::MAX;
const PORT_TRIES: u32 = 64;

/// Connects to a port of the guest with that context id.
pub(super) async fn connect(cid: u32, port: u32) -> io::Result<VsockStream> {
    let socket = with_port_of_its_own()?;
    match with_address(cid, port, |address, length| {
        // SAFETY: the address outlives the call, and its length goes with it.
        unsafe { libc::connect(socket.as_raw_fd(), address, length) }
    }) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => finished(socket).await,
        Err(error) => Err(error),
        Ok(()) => VsockStream::new(socket.into()),
    }
}

async fn finished(socket: OwnedFd) -> io::Result<VsockStream> {
    // SAFETY: the descriptor is the socket's own, which stays open and the same until it is given back.
    let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::WRITABLE)? };
    let _writable = socket.writable().await?;
    rustix::net::sockopt::socket_error(&socket)??;
    VsockStream::new(socket.into_inner().into())
}

fn with_port_of_its_own() -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers, and the new descriptor is known to nobody else.
    let socket = unsafe {
        let fd =
            libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0);
        succeeded(fd)?;
        OwnedFd::from_raw_fd(fd)
    };
    for _ in 0..PORT_TRIES {
        let port = random_port();
        match with_address(libc::VMADDR_CID_ANY, port, |address, length| {
            // SAFETY: the address outlives the call, and its length goes with it.
            unsafe { libc::bind(socket.as_raw_fd(), address, length) }
        }) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => return other.map(|()| socket),
        }
    }
    Err(io::Error::other("no port is free"))
}

fn random_port() -> u32 {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    PORTS.start + random % (PORTS.end - PORTS.start)
}

fn with_address(
    cid: u32,
    port: u32,
    call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> libc::c_int,
) -> io::Result<()> {
    // SAFETY: a plain structure of numbers, for which zeros are valid.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    (address.svm_cid, address.svm_port) = (cid, port);
    succeeded(call((&raw const address).cast(), size_of::<libc::sockaddr_vm>() as libc::socklen_t))
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_neither_privileged_nor_any() {
        for _ in 0..10_000 {
            assert!(PORTS.contains(&random_port()));
        }
    }
}
