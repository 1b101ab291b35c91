//! vsock, on hosts with `/dev/vhost-vsock`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentiso_proto::VSOCK_PORT;
use rustix::ioctl::{Setter, ioctl, opcode};
use tokio::io::AsyncWriteExt;
use tokio_vsock::VsockStream;

use super::key::{KeyOffer, KeyPort, LinkKey};
use super::{Address, Connecting, Stream, Transport, own_port};
use crate::sockets::SocketDir;

/// The device that assigns context ids to guests.
pub(crate) const DEVICE: &str = "/dev/vhost-vsock";
/// Lower context ids are reserved.
const RESERVED_CIDS: u32 = 3;
const CID_TRIES: u32 = 64;
/// The delay between attempts to connect to an agent that does not listen yet. The kernel offers no notification.
const PAUSE: Duration = Duration::from_millis(2);

/// A context id, reserved for as long as the device is open.
pub(crate) struct Vsock {
    device: File,
    cid: u32,
    key: LinkKey,
    port: KeyPort,
    refusal: Mutex<Option<&'static str>>,
}

impl Vsock {
    /// Claims a free context id, for the machine with this directory.
    pub fn new(dir: &SocketDir) -> io::Result<Self> {
        let (device, cid) = claim_any()?;
        let key = LinkKey::make(dir)?;
        let port = key.port(dir)?;
        Ok(Self { device, cid, key, port, refusal: Mutex::default() })
    }
}

#[expect(clippy::disallowed_methods, reason = "part of the start of a machine, which runs `in_place`")]
fn claim_any() -> io::Result<(File, u32)> {
    let device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    let cid = first_free(random_cid, |cid| claim(&device, cid))?;
    Ok((device, cid))
}

/// The first id that can be claimed.
fn first_free(mut next: impl FnMut() -> u32, claim: impl Fn(u32) -> io::Result<()>) -> io::Result<u32> {
    for _ in 0..CID_TRIES {
        let cid = next();
        match claim(cid) {
            Ok(()) => return Ok(cid),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("no context id is free"))
}

/// Claims an id. The kernel refuses an id that is in use.
fn claim(device: &File, cid: u32) -> io::Result<()> {
    const VHOST_VIRTIO: u8 = 0xaf;
    const SET_GUEST_CID: rustix::ioctl::Opcode = opcode::write::<u64>(VHOST_VIRTIO, 0x60);
    // SAFETY: this request reads one `u64` through the pointer it is given, which is what `Setter` passes.
    unsafe { ioctl(device, Setter::<SET_GUEST_CID, u64>::new(u64::from(cid)))? };
    Ok(())
}

fn random_cid() -> u32 {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    random.clamp(RESERVED_CIDS, u32::MAX - 1)
}

impl Transport for Vsock {
    fn arguments(&self) -> Vec<(&'static str, String)> {
        let (cid, fd) = (self.cid, self.device.as_raw_fd());
        let socket = ("-device", format!("vhost-vsock-device,guest-cid={cid},vhostfd={fd}"));
        std::iter::once(socket).chain(self.port.arguments()).collect()
    }

    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.device.as_fd(), self.port.descriptor()]
    }

    fn address(&self) -> Address {
        Address::Vsock(self.cid)
    }

    fn connect(&self) -> Connecting<'_> {
        Box::pin(connect(self.cid, Some(&self.key), |error| {
            *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = Some(refusal(error));
        }))
    }

    fn refusal(&self) -> Option<&'static str> {
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key_offer(self: Box<Self>) -> Option<KeyOffer> {
        Some(self.port.offer())
    }
}

/// Connects to the agent of a guest as soon as it listens, and sends the key. Reports every attempt that was too early.
pub(super) async fn connect(
    cid: u32,
    key: Option<&LinkKey>,
    too_early: impl Fn(&io::Error) + Send,
) -> io::Result<Box<dyn Stream>> {
    loop {
        match knock(cid, key).await {
            Ok(stream) => return Ok(Box::new(stream) as Box<dyn Stream>),
            Err(error) if is_not_there_yet(&error) => {
                too_early(&error);
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn knock(cid: u32, key: Option<&LinkKey>) -> io::Result<VsockStream> {
    let mut stream = own_port::connect(cid, VSOCK_PORT).await?;
    stream.write_all(key.map(LinkKey::bytes).unwrap_or_default()).await?;
    Ok(stream)
}

/// What a failed attempt says about the state of the guest.
fn refusal(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionRefused => {
            "its kernel answers on vsock, but the agent does not listen"
        }
        _ => "its kernel does not answer on vsock",
    }
}

fn is_not_there_yet(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected, TimedOut};
    const ENODEV: i32 = 19;
    matches!(error.kind(), ConnectionRefused | ConnectionReset | NotConnected | TimedOut)
        || error.raw_os_error() == Some(ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_another_program_has_is_passed_over_and_any_other_refusal_is_told() {
        let taken = |cid| match cid {
            1..=4 => Err(io::Error::from_raw_os_error(libc::EADDRINUSE)),
            _ => Ok(()),
        };
        let mut ids = 1..;
        assert_eq!(first_free(|| ids.next().unwrap(), taken).unwrap(), 5);
        assert!(first_free(|| 1, taken).is_err(), "there is an end to it");
        let refused = first_free(|| 1, |_| Err(io::Error::from_raw_os_error(libc::EACCES))).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_guest_that_does_not_listen_yet_is_waited_for_and_a_refusal_of_the_host_is_not() {
        for errno in [libc::ECONNREFUSED, libc::ECONNRESET, libc::ETIMEDOUT, libc::ENODEV] {
            assert!(is_not_there_yet(&io::Error::from_raw_os_error(errno)), "{errno}");
        }
        let said = |errno| refusal(&io::Error::from_raw_os_error(errno));
        assert!(said(libc::ECONNRESET).contains("does not listen"));
        assert!(said(libc::ETIMEDOUT).contains("its kernel does not answer"));
        for errno in [libc::EACCES, libc::EAFNOSUPPORT, libc::EMFILE] {
            assert!(!is_not_there_yet(&io::Error::from_raw_os_error(errno)), "{errno}");
        }
    }
}
