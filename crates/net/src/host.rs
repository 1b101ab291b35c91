//! What the host's own network looks like, read each time it is needed: a host changes networks while guests run.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use ipnet::Ipv4Net;

/// Reads the host's IPv4 routes, without the default route, from a file in the format of `/proc/net/route`.
#[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
pub fn routes(path: &Path) -> io::Result<Vec<Ipv4Net>> {
    parse_routes(&std::fs::read_to_string(path)?)
}

fn parse_routes(text: &str) -> io::Result<Vec<Ipv4Net>> {
    let mut routes = Vec::new();
    for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let column = |index: usize| {
            columns.get(index).and_then(|hex| u32::from_str_radix(hex, 16).ok()).map(u32::from_be)
        };
        let parsed = column(1).zip(column(7)).and_then(|(destination, mask)| {
            Ipv4Net::with_netmask(Ipv4Addr::from_bits(destination), Ipv4Addr::from_bits(mask)).ok()
        });
        let route = parsed.ok_or_else(|| {
            io::Error::new(ErrorKind::InvalidData, format!("unknown line in the table of routes: {line}"))
        })?;
        if route.prefix_len() > 0 {
            routes.push(route.trunc());
        }
    }
    Ok(routes)
}

/// Whether an address is one of the host's own, by asking the kernel how it would send there: packets to an own
/// address leave from that same address. Nothing is sent.
pub fn is_own_address(address: Ipv4Addr) -> io::Result<bool> {
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    match probe.connect((address, 9)) {
        // An own address always has a route.
        Err(error) if matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable) => {
            return Ok(false);
        }
        result => result?,
    }
    Ok(probe.local_addr()?.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
";

    #[test]
    fn routes_are_read_without_the_default_route() {
        let routes = parse_routes(TABLE).unwrap();
        let expected: Vec<Ipv4Net> =
            ["192.168.1.0/24", "172.17.0.0/16"].map(|text| text.parse().unwrap()).into();
        assert_eq!(routes, expected);
    }

    #[test]
    fn a_table_of_another_format_is_an_error_and_not_an_empty_table() {
        assert_eq!(parse_routes("Iface\neth0 x y\n").unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(routes(Path::new("/nonexistent/route")).is_err());
        routes(Path::new("/proc/net/route")).unwrap();
    }

    #[test]
    fn loopback_addresses_are_the_hosts_own() {
        assert!(is_own_address(Ipv4Addr::LOCALHOST).unwrap());
    }
}
