//! Gives a machine its identity: entropy, time, host name, machine-id, boot id, MAC address and root disk.

use std::os::fd::AsRawFd;

use agentiso_proto::{Configure, Response};
use rustix::fs::{Mode, OFlags};

use crate::{
    agent::{Agent, Machine, Root},
    atomic::rewrite,
    clock,
    error::{During, Outcome, invalid, last_errno, refused, unsupported},
    filesystem::{refuse_if_frozen, thaw_root},
    log::log,
    network,
    paths::read_small,
    root,
    sync::locked,
};

const ENTROPY_MIN: usize = 32;
const ENTROPY_MAX: usize = 512;
const RNDADDENTROPY: libc::Ioctl = 0x4008_5203;
const RNDRESEEDCRNG: libc::Ioctl = 0x5207;
const MAX_HOSTNAME: usize = 64;
const MAX_HOSTS_FILE: usize = 1024 * 1024;

/// How to handle a frozen root.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Frozen {
    /// Reject the configuration.
    Refused,
    /// Thaw the root when it has to be written to.
    Thawed,
}

/// Handles [`Configure`].
pub(crate) fn configure(agent: &Agent, configuration: &Configure) -> Outcome<Response> {
    become_itself(agent.machine()?, configuration, None, Frozen::Refused)?;
    Ok(Response::Done)
}

/// Applies a configuration. The random generator is reseeded first: nothing may draw from a state that other machines
/// share.
pub(crate) fn become_itself(
    machine: &Machine,
    configuration: &Configure,
    boot_id: Option<[u8; 16]>,
    frozen: Frozen,
) -> Outcome<()> {
    let mut root = locked(&machine.root);
    check(configuration, &root, frozen)?;
    if let Some(entropy) = &configuration.entropy {
        take_in_entropy(entropy)?;
    }
    if let Some(nanos) = configuration.unix_nanos {
        clock::set(nanos)?;
    }
    if let Some(mac) = configuration.mac {
        network::set_mac(mac)?;
    }
    if let Some(hostname) = &configuration.hostname {
        rustix::system::sethostname(hostname.as_bytes()).during(|| "setting the host name")?;
    }
    thaw_root(&mut root)?;
    if let Some(disk) = &configuration.root {
        root.boot_id = root::mount_disk(disk)?;
        root.disk = Some(disk.clone());
    }
    if let Some(id) = boot_id {
        let cover = root.boot_id.as_ref();
        cover
            .ok_or_else(|| unsupported("the boot id cannot be set before the root is mounted and entered"))?
            .set(id)?;
    }
    if let (Some(disk), Some(hostname)) = (root.entered(), &configuration.hostname)
        && !disk.read_only
    {
        write_hostname(hostname);
    }
    if let (Some(disk), Some(machine_id)) = (root.entered(), &configuration.machine_id)
        && !disk.read_only
    {
        write_machine_id(machine_id)?;
    }
    Ok(())
}

/// Rejects an invalid configuration before any part of it is applied.
fn check(configuration: &Configure, root: &Root, frozen: Frozen) -> Outcome<()> {
    if let Some(entropy) = &configuration.entropy
        && !(ENTROPY_MIN..=ENTROPY_MAX).contains(&entropy.len())
    {
        return Err(invalid(format!(
            "got {} bytes of entropy, expected {ENTROPY_MIN} to {ENTROPY_MAX}",
            entropy.len()
        )));
    }
    if let Some(hostname) = &configuration.hostname
        && !is_hostname(hostname)
    {
        return Err(invalid(format!("{hostname:?} is not a valid host name")));
    }
    if let Some(machine_id) = &configuration.machine_id
        && !is_machine_id(machine_id)
    {
        return Err(invalid("a machine-id must be 32 lower-case hexadecimal digits"));
    }
    if configuration.root.is_some() && root.disk.is_some() {
        return Err(refused("mounting a root although one is already mounted", rustix::io::Errno::EXIST));
    }
    let enters = configuration.root.as_ref().is_some_and(|disk| disk.enter);
    if configuration.machine_id.is_some() && !enters && root.entered().is_none() {
        return Err(invalid("the machine-id cannot be set before the root is mounted and entered"));
    }
    if frozen == Frozen::Refused { refuse_if_frozen(root) } else { Ok(()) }
}

fn is_hostname(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    !name.is_empty()
        && name.len() <= MAX_HOSTNAME
        && name.bytes().all(allowed)
        && !name.starts_with(['-', '.'])
}

fn is_machine_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn take_in_entropy(entropy: &[u8]) -> Outcome<()> {
    #[repr(C)]
    struct Pool {
        bits: libc::c_int,
        bytes: libc::c_int,
        content: [u8; ENTROPY_MAX],
    }
    let mut pool = Pool { bits: 0, bytes: 0, content: [0; ENTROPY_MAX] };
    pool.content[..entropy.len()].copy_from_slice(entropy);
    pool.bytes = entropy.len() as libc::c_int;
    pool.bits = pool.bytes * 8;
    let device = rustix::fs::open("/dev/urandom", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .during(|| "opening the random generator")?;
    // SAFETY: the ioctl reads a structure of this layout, and only as many bytes of it as its length field says.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const pool) } == -1 {
        return Err(refused("adding entropy", last_errno()));
    }
    // SAFETY: this ioctl takes no argument.
    if unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG, 0) } == -1 {
        return Err(refused("reseeding the random generator", last_errno()));
    }
    Ok(())
}

/// Writes the host name to `/etc`. Best effort: the kernel's host name is already set, so a read-only image still
/// works.
fn write_hostname(hostname: &str) {
    let hosts = read_small(b"/etc/hosts", MAX_HOSTS_FILE).unwrap_or_default();
    let written = rewrite(b"/etc/hostname", format!("{hostname}\n").as_bytes(), 0o644)
        .and_then(|()| rewrite(b"/etc/hosts", &with_hostname(&hosts, hostname), 0o644));
    if let Err(error) = written {
        log(&format!("cannot write the host name to the root: {}", error.message));
    }
}

/// Returns the hosts file with one line for this machine. Replaces the line of an earlier name and keeps all others.
fn with_hostname(hosts: &[u8], hostname: &str) -> Vec<u8> {
    const OWN: &[u8] = b"127.0.1.1";
    let mut lines: Vec<&[u8]> = hosts.split(|&byte| byte == b'\n').collect();
    if lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    let mut out = Vec::new();
    if lines.is_empty() {
        out.extend_from_slice(b"127.0.0.1 localhost\n::1 localhost\n");
    }
    for line in lines.into_iter().filter(|line| !line.starts_with(OWN)) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(OWN);
    out.extend_from_slice(format!(" {hostname}\n").as_bytes());
    out
}

fn write_machine_id(machine_id: &str) -> Outcome<()> {
    if !std::path::Path::new("/etc").is_dir() {
        return Ok(());
    }
    rewrite(b"/etc/machine-id", format!("{machine_id}\n").as_bytes(), 0o444)
}

#[cfg(test)]
mod tests {
    use agentiso_proto::RootDisk;

    use super::*;

    fn check(configuration: &Configure, root: &Root) -> Outcome<()> {
        super::check(configuration, root, Frozen::Refused)
    }

    #[test]
    fn host_names_are_valid_in_a_file_and_a_prompt() {
        assert!(is_hostname("ws-1") && is_hostname("a.b") && is_hostname(&"x".repeat(64)));
        for bad in ["", "-x", ".x", "a b", "a\nb", "ä", &"x".repeat(65)] {
            assert!(!is_hostname(bad), "{bad:?}");
        }
    }

    #[test]
    fn machine_ids_are_32_lower_case_hex_digits() {
        assert!(is_machine_id("0123456789abcdef0123456789abcdef"));
        for bad in [
            "",
            "0123456789ABCDEF0123456789ABCDEF",
            "0123456789abcdef0123456789abcde",
            "g123456789abcdef0123456789abcdef",
        ] {
            assert!(!is_machine_id(bad), "{bad:?}");
        }
    }

    #[test]
    fn the_hosts_file_keeps_other_lines_and_has_one_line_for_this_machine() {
        let once = with_hostname(b"127.0.0.1 localhost\n10.0.0.1 other\n127.0.1.1 old\n", "new");
        assert_eq!(once, b"127.0.0.1 localhost\n10.0.0.1 other\n127.0.1.1 new\n");
        assert_eq!(with_hostname(&once, "new"), once);
        assert_eq!(with_hostname(b"", "a"), b"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 a\n");
    }

    #[test]
    fn a_second_root_is_rejected_and_a_frozen_root_is_not_changed() {
        let disk =
            RootDisk { device: "/dev/vda".into(), fstype: "ext4".into(), read_only: false, enter: true };
        let entered = Root { disk: Some(disk.clone()), ..Root::default() };
        let again = Configure { root: Some(disk.clone()), ..Configure::default() };
        assert_eq!(check(&again, &entered).unwrap_err().kind, agentiso_proto::ErrorKind::Exists);
        let frozen = Root { disk: Some(disk), frozen: true, ..Root::default() };
        assert!(check(&Configure::default(), &frozen).is_err());
        assert!(super::check(&Configure::default(), &frozen, Frozen::Thawed).is_ok());
        assert!(check(&Configure::default(), &entered).is_ok());
    }

    #[test]
    fn a_machine_id_requires_an_entered_root() {
        let machine_id = Some("0".repeat(32));
        let disk =
            |enter| RootDisk { device: "/dev/vda".into(), fstype: "ext4".into(), read_only: false, enter };
        let alone = Configure { machine_id: machine_id.clone(), ..Configure::default() };
        let with = |enter| Configure { root: Some(disk(enter)), ..alone.clone() };
        assert!(check(&alone, &Root::default()).is_err());
        assert!(check(&with(false), &Root::default()).is_err());
        assert!(check(&with(true), &Root::default()).is_ok());
        assert!(check(&alone, &Root { disk: Some(disk(false)), ..Root::default() }).is_err());
        assert!(check(&alone, &Root { disk: Some(disk(true)), ..Root::default() }).is_ok());
    }

    #[test]
    fn too_little_and_too_much_entropy_are_rejected() {
        let with =
            |len| check(&Configure { entropy: Some(vec![1; len]), ..Configure::default() }, &Root::default());
        assert!(with(31).is_err() && with(513).is_err());
        assert!(with(32).is_ok() && with(512).is_ok());
    }
}
