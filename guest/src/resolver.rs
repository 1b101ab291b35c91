//! The files of the root that depend on the network: `/etc/resolv.conf` and the machine's line in `/etc/hosts`.
//!
//! A resolver file that is not ours is kept beside ours and put back when the card is taken down.

use std::fs;
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::Path;

use agentiso_proto::{Card, GuestError};

use crate::{
    atomic::rewrite,
    error::{Outcome, refused},
    paths::read_small,
};

const MARK: &str = "# agentiso";
/// The address of the own name without a network.
const LOOPBACK: &str = "127.0.1.1";
const MAX_FILE: usize = 1024 * 1024;

/// Writes the files for a card, or restores them without one.
pub(crate) fn write(card: Option<&Card>) -> Outcome<()> {
    let etc = Path::new("/etc");
    if !etc.is_dir() {
        return Ok(());
    }
    write_below(etc, card, &hostname())
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn write_below(etc: &Path, card: Option<&Card>, hostname: &str) -> Outcome<()> {
    let (file, kept) = (etc.join("resolv.conf"), etc.join("resolv.conf.before-agentiso"));
    let is_ours = is_ours(&file)?;
    match card {
        Some(card) => {
            let there = present(&file)?;
            if there && !is_ours {
                fs::rename(&file, &kept).map_err(|error| failed("keeping the resolver file", &error))?;
            }
            let resolver = Ipv4Addr::from(card.resolver);
            replace(&file, format!("{MARK}\nnameserver {resolver}\n").as_bytes())?;
        }
        None if is_ours => {
            let restored = if present(&kept)? { fs::rename(&kept, &file) } else { fs::remove_file(&file) };
            restored.map_err(|error| failed("restoring the resolver file", &error))?;
        }
        None => {}
    }
    let hosts = etc.join("hosts");
    let before = read_small(hosts.as_os_str().as_encoded_bytes(), MAX_FILE).unwrap_or_default();
    let after = with_address(&before, card.map(|card| card.address.into()), hostname);
    if after == before { Ok(()) } else { replace(&hosts, &after) }
}

/// Whether a resolver file was written by us. One that cannot be read is not.
fn is_ours(file: &Path) -> Outcome<bool> {
    let content = read_small(file.as_os_str().as_encoded_bytes(), MAX_FILE).unwrap_or_default();
    // A link is somebody's, wherever it leads.
    let is_link = fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_symlink());
    Ok(!is_link && content.starts_with(format!("{MARK}\n").as_bytes()))
}

/// Whether there is a file or link of this name.
fn present(file: &Path) -> Outcome<bool> {
    match fs::symlink_metadata(file) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("looking for the resolver file", &error)),
    }
}

fn replace(file: &Path, content: &[u8]) -> Outcome<()> {
    rewrite(file.as_os_str().as_encoded_bytes(), content, 0o644)
}

fn failed(what: &str, error: &std::io::Error) -> GuestError {
    refused(what, rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO))
}

/// The hosts file with the machine's name at its address instead of on the loopback interface, and without an address the
/// other way round. Other lines stay.
fn with_address(hosts: &[u8], address: Option<Ipv4Addr>, hostname: &str) -> Vec<u8> {
    let is_ours = |line: &&[u8]| line.trim_ascii_end().ends_with(MARK.as_bytes());
    let is_loopback = |line: &&[u8]| line.starts_with(LOOPBACK.as_bytes());
    let mut lines: Vec<&[u8]> = hosts.split_inclusive(|&byte| byte == b'\n').collect();
    if address.is_none() && !lines.iter().any(is_ours) {
        return hosts.to_vec();
    }
    lines.retain(|line| !is_ours(line) && !is_loopback(line));
    let mut out = lines.concat();
    if !out.is_empty() && !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out.extend(match address {
        Some(address) => format!("{address} {hostname} {MARK}\n").into_bytes(),
        None => format!("{LOOPBACK} {hostname}\n").into_bytes(),
    });
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(last: u8) -> Card {
        Card {
            mac: [2, 0, 0, 0, 0, 1],
            address: [10, 99, 0, last],
            gateway: [10, 99, 0, 1],
            resolver: [10, 99, 0, 1],
            mtu: 1500,
        }
    }

    #[test]
    fn the_resolver_of_the_user_comes_back_when_the_card_goes_down() {
        let etc = tempfile::tempdir().unwrap();
        let file = etc.path().join("resolv.conf");
        let read = || fs::read_to_string(&file).unwrap();
        fs::write(&file, "nameserver 192.0.2.1\n").unwrap();
        for _ in 0..2 {
            write_below(etc.path(), Some(&card(2)), "one").unwrap();
            assert_eq!(read(), "# agentiso\nnameserver 10.99.0.1\n");
        }
        write_below(etc.path(), None, "one").unwrap();
        assert_eq!(read(), "nameserver 192.0.2.1\n");
        write_below(etc.path(), None, "one").unwrap();
        assert_eq!(read(), "nameserver 192.0.2.1\n");
    }

    #[test]
    fn a_link_is_kept_as_a_link_and_what_was_not_there_is_removed_again() {
        let etc = tempfile::tempdir().unwrap();
        let file = etc.path().join("resolv.conf");
        write_below(etc.path(), Some(&card(2)), "one").unwrap();
        write_below(etc.path(), None, "one").unwrap();
        assert!(!file.exists());
        std::os::unix::fs::symlink("../run/nowhere", &file).unwrap();
        write_below(etc.path(), Some(&card(2)), "one").unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
        write_below(etc.path(), None, "one").unwrap();
        assert_eq!(fs::read_link(&file).unwrap(), Path::new("../run/nowhere"));
    }

    #[test]
    fn the_own_name_has_the_address_and_other_lines_stay() {
        let before: &[u8] = b"127.0.0.1 localhost\n10.0.0.1 other\n127.0.1.1 one\n";
        let address = |last| Some(Ipv4Addr::new(10, 99, 0, last));
        let on = with_address(before, address(2), "one");
        assert_eq!(on, b"127.0.0.1 localhost\n10.0.0.1 other\n10.99.0.2 one # agentiso\n");
        let moved = with_address(&on, address(3), "two");
        assert_eq!(moved, b"127.0.0.1 localhost\n10.0.0.1 other\n10.99.0.3 two # agentiso\n");
        assert_eq!(with_address(&moved, None, "one"), before);
        assert_eq!(with_address(before, None, "one"), before);
        assert_eq!(with_address(b"x", address(2), "one"), b"x\n10.99.0.2 one # agentiso\n");
        assert_eq!(with_address(b"x", None, "one"), b"x");
    }
}
