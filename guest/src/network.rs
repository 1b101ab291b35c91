//! Loopback and the MAC address of the network interface.

use std::{
    ffi::{c_char, c_short},
    fs,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
};

use crate::error::{During, Outcome, invalid, last_errno, unsupported};

pub(crate) const ETHERNET: u16 = 1;
const USUAL_NAME: &str = "eth0";

pub(crate) fn bring_up_loopback() -> Outcome<()> {
    let socket = control_socket()?;
    set_up(&socket, "lo", true).during(|| "bringing up the loopback interface")
}

/// Sets the MAC address of the first Ethernet interface.
pub(crate) fn set_mac(mac: [u8; 6]) -> Outcome<()> {
    if mac[0] & 1 != 0 || mac == [0; 6] {
        return Err(invalid("the MAC address must be a non-zero unicast address"));
    }
    let socket = control_socket()?;
    // Reading sysfs is slow, so try the usual name first.
    match write_mac(&socket, USUAL_NAME, mac) {
        Err(Errno::NODEV | Errno::BUSY) => {}
        result => return result.during(|| format!("setting the MAC address of {USUAL_NAME}")),
    }
    let name = first_ethernet().ok_or_else(|| unsupported("this machine has no network interface"))?;
    let setting = || format!("setting the MAC address of {name}");
    match write_mac(&socket, &name, mac) {
        // Some drivers accept an address only while the interface is down.
        Err(Errno::BUSY) => {
            set_up(&socket, &name, false).during(setting)?;
            let result = write_mac(&socket, &name, mac);
            set_up(&socket, &name, true).during(setting)?;
            result
        }
        result => result,
    }
    .during(setting)
}

/// The name of the first Ethernet interface. Reading sysfs is slow, so the usual name is tried first.
pub(crate) fn ethernet(socket: &OwnedFd) -> Outcome<String> {
    let mut request = interface(USUAL_NAME);
    if call(socket, libc::SIOCGIFFLAGS as libc::Ioctl, &mut request).is_ok() {
        return Ok(USUAL_NAME.to_owned());
    }
    first_ethernet().ok_or_else(|| unsupported("this machine has no network interface"))
}

fn first_ethernet() -> Option<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/class/net")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let kind = fs::read_to_string(format!("/sys/class/net/{name}/type")).unwrap_or_default();
            kind.trim().parse() == Ok(ETHERNET)
        })
        .collect();
    names.sort();
    names.into_iter().next()
}

pub(crate) fn control_socket() -> Outcome<OwnedFd> {
    rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .during(|| "opening a socket")
}

pub(crate) fn write_mac(socket: &OwnedFd, name: &str, mac: [u8; 6]) -> rustix::io::Result<()> {
    let mut request = interface(name);
    let mut address = libc::sockaddr { sa_family: ETHERNET, sa_data: [0; 14] };
    for (to, from) in address.sa_data.iter_mut().zip(mac) {
        *to = from.cast_signed() as c_char;
    }
    request.ifr_ifru.ifru_hwaddr = address;
    call(socket, libc::SIOCSIFHWADDR as libc::Ioctl, &mut request)
}

pub(crate) fn set_up(socket: &OwnedFd, name: &str, up: bool) -> rustix::io::Result<()> {
    let mut request = interface(name);
    call(socket, libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: the preceding call has filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let bit = libc::IFF_UP as c_short;
    request.ifr_ifru.ifru_flags = if up { flags | bit } else { flags & !bit };
    call(socket, libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}

pub(crate) fn interface(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is valid when zeroed.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, &from) in request.ifr_name[..room].iter_mut().zip(name.as_bytes()) {
        *to = from as c_char;
    }
    request
}

pub(crate) fn call(
    socket: &OwnedFd,
    number: libc::Ioctl,
    request: &mut libc::ifreq,
) -> rustix::io::Result<()> {
    // SAFETY: these ioctls take an ifreq with a NUL-terminated name.
    match unsafe { libc::ioctl(socket.as_raw_fd(), number, std::ptr::from_mut(request)) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}
