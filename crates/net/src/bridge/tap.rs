//! TAP devices: a link of the namespace whose other end is a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;

use rustix::ioctl::{Updater, ioctl};

/// Where TAP devices come from.
pub(super) const DEVICE: &str = "/dev/net/tun";

/// The kernel's `struct ifreq`, as far as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;
const TAP: u16 = 0x0002;
/// Frames without a header of the kernel's own: QEMU's hub passes none on.
const NO_HEADER: u16 = 0x1000;

/// Creates a TAP device in the namespace of this thread. It exists while the file, or a copy of it, is open.
#[expect(clippy::disallowed_methods, reason = "a device node: opening it waits for nothing")]
pub(super) fn create(name: &str) -> io::Result<OwnedFd> {
    let file: File = OpenOptions::new().read(true).write(true).open(DEVICE)?;
    let mut request = Request { name: [0; 16], flags: TAP | NO_HEADER, rest: [0; 22] };
    let bytes = name.as_bytes();
    if bytes.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, which is 40 bytes long and laid out like `Request`.
    unsafe { ioctl(&file, Updater::<TUNSETIFF, Request>::new(&mut request)) }?;
    Ok(file.into())
}
