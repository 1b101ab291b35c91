//! How host and agent reach each other: a virtio serial port or a virtio socket, behind one trait.

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

/// Where the agent of a running machine is reached.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Address {
    /// By the serial port's socket in its directory.
    Serial,
    /// By this context id.
    Vsock(u32),
}

/// Opens a stream to the agent of a machine that runs already.
pub(crate) async fn reach(address: Address, sockets: &SocketDir) -> io::Result<Box<dyn Stream>> {
    match address {
        Address::Serial => serial::connect(sockets).map(|stream| Box::new(stream) as Box<dyn Stream>),
        Address::Vsock(cid) => vsock::connect(cid, in_place(|| LinkKey::of(sockets))?.as_ref(), |_| ()).await,
    }
}

/// The host's end of a machine's link, from before its QEMU starts.
pub(crate) trait Transport: Send + Sync {
    /// The devices QEMU needs for it, as pairs of flag and value.
    fn arguments(&self) -> Vec<(&'static str, String)>;

    /// Descriptors QEMU inherits.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Where the agent will be reached, by whoever comes later.
    fn address(&self) -> Address;

    /// Opens a stream. What is written to it waits until the agent reads.
    fn connect(&self) -> Connecting<'_>;

    /// Why no stream could be opened so far, if that is known.
    fn refusal(&self) -> Option<&'static str> {
        None
    }

    /// Ends it but for what the guest may still have to take.
    fn key_offer(self: Box<Self>) -> Option<KeyOffer>;
}
