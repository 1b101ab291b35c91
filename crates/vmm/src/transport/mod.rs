//! The transport between host and agent: a virtio serial port or vsock, behind one trait.

mod key;
mod own_port;
mod serial;
mod vsock;

use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;

use agentiso_blocking::in_place;
use serde::{Deserialize, Serialize};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::sockets::SocketDir;

pub(crate) use key::KeyOffer;
use key::LinkKey;
pub(crate) use serial::Serial;
pub(crate) use vsock::{DEVICE as VSOCK_DEVICE, Vsock};

/// A byte stream to the agent.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// The address of the agent of a running machine.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Address {
    /// The serial port's socket in the machine's directory.
    Serial,
    /// This vsock context id.
    Vsock(u32),
}

/// Connects to the agent of a running machine.
pub(crate) async fn reach(address: Address, sockets: &SocketDir) -> io::Result<Box<dyn Stream>> {
    match address {
        Address::Serial => serial::connect(sockets).map(|stream| Box::new(stream) as Box<dyn Stream>),
        Address::Vsock(cid) => vsock::connect(cid, in_place(|| LinkKey::of(sockets))?.as_ref(), |_| ()).await,
    }
}

/// The host's end of a machine's link, created before its QEMU starts.
pub(crate) trait Transport: Send + Sync {
    /// The devices QEMU needs for it, as pairs of flag and value.
    fn arguments(&self) -> Vec<(&'static str, String)>;

    /// Descriptors QEMU inherits.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// The address of the agent, for reconnecting.
    fn address(&self) -> Address;

    /// Connects to the agent. Data is buffered until the agent reads it.
    fn connect(&self) -> Connecting<'_>;

    /// Why connecting has failed so far, if that is known.
    fn refusal(&self) -> Option<&'static str> {
        None
    }

    /// Closes it, except for the key that the guest may not have read yet.
    fn key_offer(self: Box<Self>) -> Option<KeyOffer>;
}
