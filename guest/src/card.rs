//! Configures the network card: addresses, routes, resolver and the machine's own name.
//!
//! The address has no network of its own: everything is reached through the router, neighbours too. So the machine asks
//! for no hardware address but the router's.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use agentiso_proto::{Card, Response};
use rustix::io::Errno;

use crate::{
    agent::Agent,
    error::{During, Outcome, invalid, last_errno},
    inherited,
    log::log,
    network::{call, control_socket, ethernet, interface, set_up, write_mac},
    resolver,
    sync::locked,
};

/// Handles [`Request::SetCard`](agentiso_proto::Request::SetCard).
pub(crate) fn set(agent: &Agent, card: Option<&Card>) -> Outcome<Response> {
    let machine = agent.machine()?;
    if let Some(card) = card {
        check(card)?;
    }
    let socket = control_socket()?;
    let name = ethernet(&socket)?;
    let before = address_of(&socket, &name)?;
    set_up(&socket, &name, false).during(|| format!("taking {name} down"))?;
    if let Some(address) = before {
        inherited::reset(address);
    }
    match card {
        Some(card) => bring_up(&socket, &name, card)?,
        None if before.is_some() => {
            set_address(&socket, &name, libc::SIOCSIFADDR, Ipv4Addr::UNSPECIFIED)
                .during(|| format!("removing the address of {name}"))?;
        }
        None => {}
    }
    let root = locked(&machine.root);
    if root.entered().is_some_and(|disk| !disk.read_only) && !root.frozen {
        // Best effort, as for the host name: an image whose root cannot be written to still has its addresses.
        if let Err(error) = resolver::write(card) {
            log(&format!("cannot write the resolver to the root: {}", error.message));
        }
    }
    Ok(Response::Done)
}

fn check(card: &Card) -> Outcome<()> {
    if card.mac[0] & 1 != 0 || card.mac == [0; 6] {
        return Err(invalid("the MAC address must be a non-zero unicast address"));
    }
    let addresses = [card.address, card.gateway, card.resolver].map(Ipv4Addr::from);
    if addresses.iter().any(|one| one.is_unspecified() || one.is_multicast() || one.is_broadcast()) {
        return Err(invalid("the addresses of the card must be those of single machines"));
    }
    if !(Card::MIN_MTU..=Card::MAX_MTU).contains(&card.mtu) {
        let (min, max) = (Card::MIN_MTU, Card::MAX_MTU);
        return Err(invalid(format!("an MTU of {} is not between {min} and {max}", card.mtu)));
    }
    Ok(())
}

fn bring_up(socket: &OwnedFd, name: &str, card: &Card) -> Outcome<()> {
    let setting = |what: &'static str| move || format!("setting the {what} of {name}");
    write_mac(socket, name, card.mac).during(setting("MAC address"))?;
    let mut request = interface(name);
    request.ifr_ifru.ifru_mtu = i32::from(card.mtu);
    call(socket, libc::SIOCSIFMTU as libc::Ioctl, &mut request).during(setting("MTU"))?;
    turn_off_ipv6(name);
    set_address(socket, name, libc::SIOCSIFADDR, card.address.into()).during(setting("address"))?;
    set_address(socket, name, libc::SIOCSIFNETMASK, Ipv4Addr::BROADCAST).during(setting("network"))?;
    set_up(socket, name, true).during(|| format!("bringing up {name}"))?;
    let gateway = Ipv4Addr::from(card.gateway);
    add_route(socket, name, gateway, Ipv4Addr::BROADCAST, None).during(setting("route to the router"))?;
    add_route(socket, name, Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, Some(gateway))
        .during(setting("default route"))
}

/// The router passes no IPv6. A kernel without it has no such file.
fn turn_off_ipv6(name: &str) {
    let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
}

fn address_of(socket: &OwnedFd, name: &str) -> Outcome<Option<Ipv4Addr>> {
    let mut request = interface(name);
    match call(socket, libc::SIOCGIFADDR as libc::Ioctl, &mut request) {
        Ok(()) => {}
        Err(Errno::ADDRNOTAVAIL) => return Ok(None),
        Err(errno) => return Err(errno).during(|| format!("reading the address of {name}")),
    }
    // SAFETY: the call has filled in an address, and every bit pattern is valid in all its fields.
    let data = unsafe { request.ifr_ifru.ifru_addr }.sa_data;
    Ok(Some(Ipv4Addr::from([2, 3, 4, 5].map(|index| data[index] as u8))))
}

fn set_address(
    socket: &OwnedFd,
    name: &str,
    number: libc::c_ulong,
    address: Ipv4Addr,
) -> rustix::io::Result<()> {
    let mut request = interface(name);
    request.ifr_ifru.ifru_addr = internet_address(address);
    call(socket, number as libc::Ioctl, &mut request)
}

/// An address as ioctls take it: two bytes of port, then the address.
fn internet_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..].iter_mut().zip(address.octets()) {
        *to = from.cast_signed() as libc::c_char;
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

fn add_route(
    socket: &OwnedFd,
    name: &str,
    to: Ipv4Addr,
    mask: Ipv4Addr,
    through: Option<Ipv4Addr>,
) -> rustix::io::Result<()> {
    let mut device = interface(name).ifr_name;
    // SAFETY: rtentry is valid when zeroed.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    route.rt_dst = internet_address(to);
    route.rt_genmask = internet_address(mask);
    route.rt_flags = libc::RTF_UP;
    if let Some(gateway) = through {
        route.rt_gateway = internet_address(gateway);
        route.rt_flags |= libc::RTF_GATEWAY;
    } else {
        route.rt_flags |= libc::RTF_HOST;
    }
    route.rt_dev = device.as_mut_ptr();
    // SAFETY: the ioctl reads a route whose device is a NUL-terminated name that outlives the call.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT as libc::Ioctl, &raw const route) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_that_could_not_work_is_rejected_before_anything_changes() {
        let good = Card {
            mac: [2, 0, 0, 0, 0, 1],
            address: [10, 99, 0, 2],
            gateway: [10, 99, 0, 1],
            resolver: [10, 99, 0, 1],
            mtu: 1500,
        };
        assert!(check(&good).is_ok());
        for bad in [
            Card { mac: [0; 6], ..good },
            Card { mac: [3, 0, 0, 0, 0, 1], ..good },
            Card { address: [0; 4], ..good },
            Card { gateway: [224, 0, 0, 1], ..good },
            Card { resolver: [255; 4], ..good },
            Card { mtu: 1279, ..good },
            Card { mtu: 65_521, ..good },
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_address_is_behind_two_bytes_of_port() {
        let address = internet_address(Ipv4Addr::new(10, 99, 0, 200));
        assert_eq!(
            address.sa_data[..6].iter().map(|&byte| byte as u8).collect::<Vec<_>>(),
            [0, 0, 10, 99, 0, 200]
        );
    }
}
