//! Resets the connections that a card had before it was configured anew.
//!
//! A fork has the connections of its source in its memory, and a restored machine those of its past. Nobody answers
//! them any more, so their processes would wait for a time-out. Disconnecting a socket resets its connection, and the
//! kernel lets the agent do that to a copy of another process's descriptor.

use std::collections::HashSet;
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// A socket in this state waits for connections and has none.
const LISTENS: &str = "0A";

/// Resets every TCP connection from an address. Best effort: a process may end meanwhile.
pub(crate) fn reset(address: Ipv4Addr) {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let sockets: HashSet<u64> = tables.iter().flat_map(|table| connections(table, address)).collect();
    if sockets.is_empty() {
        return;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for process in numbers.filter_map(Pid::from_raw) {
        reset_of(process, &sockets);
    }
}

/// Resets those of the connections that one process has.
fn reset_of(process: Pid, sockets: &HashSet<u64>) {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{process}/fd")) else { return };
    let mut handle = None;
    for descriptor in descriptors.flatten() {
        let target = fs::read_link(descriptor.path()).unwrap_or_default();
        if !target.to_str().and_then(socket_number).is_some_and(|number| sockets.contains(&number)) {
            continue;
        }
        let Some(number) = descriptor.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if handle.is_none() {
            handle = pidfd_open(process, PidfdFlags::empty()).ok();
        }
        let Some(handle) = &handle else { return };
        if let Ok(copy) = pidfd_getfd(handle, number, PidfdGetfdFlags::empty()) {
            disconnect(&copy);
        }
    }
}

fn disconnect(socket: &OwnedFd) {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let length = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the address is valid for its length. If the socket is no longer connected, the call fails and changes
    // nothing.
    unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, length) };
}

/// The number in `socket:[NUMBER]`.
fn socket_number(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The sockets in a table of `/proc/net` that have connections from this address.
fn connections(table: &str, address: Ipv4Addr) -> Vec<u64> {
    // The kernel prints addresses as native numbers.
    let own = format!("{:08X}", u32::from_ne_bytes(address.octets()));
    let mapped = format!("0000000000000000FFFF0000{own}");
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (from, _) = fields.get(1)?.split_once(':')?;
            let is_meant = (from == own || from == mapped) && *fields.get(3)? != LISTENS;
            // A connection that no process has any more has the number 0.
            fields.get(9)?.parse().ok().filter(|&number| is_meant && number != 0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const TABLE: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0200630A:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 100 1
   1: 0200630A:C001 0100630A:0050 01 00000000:00000000 00:00000000 00000000     0        0 200 1
   2: 0300630A:C002 0100630A:0050 01 00000000:00000000 00:00000000 00000000     0        0 300 1
   3: 0200630A:C003 0100630A:0050 06 00000000:00000000 00:00000000 00000000     0        0 0 1
   4: broken
";

    #[test]
    fn connections_are_told_from_listeners_and_from_those_of_other_addresses() {
        let address = Ipv4Addr::new(10, 99, 0, 2);
        assert_eq!(connections(TABLE, address), [200]);
        let mapped = "header\n 0: 0000000000000000FFFF00000200630A:C001 0:0 01 0 0 0 0 0 400\n";
        assert_eq!(connections(mapped, address), [400]);
        assert!(connections("", address).is_empty());
        assert_eq!(socket_number("socket:[42]"), Some(42));
        assert_eq!(socket_number("pipe:[42]"), None);
    }

    #[test]
    fn a_connection_of_a_process_is_reset_and_others_continue() {
        let (meant, other) = (Ipv4Addr::new(127, 0, 0, 77), Ipv4Addr::new(127, 0, 0, 78));
        let mut pairs: Vec<(TcpStream, TcpStream)> = [meant, other]
            .map(|address| {
                let listener = TcpListener::bind((address, 0)).unwrap();
                let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                (near, listener.accept().unwrap().0)
            })
            .into();
        reset(meant);
        let mut byte = [0];
        let ended = pairs[0].1.read(&mut byte).unwrap_err();
        assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
        pairs[1].0.set_nonblocking(true).unwrap();
        assert_eq!(pairs[1].0.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}
