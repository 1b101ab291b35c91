//! Vsock: who may talk to a guest, and unique context ids.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::host::Host;

const DEVICE: &str = "/dev/vhost-vsock";
/// The port on which the agent listens.
const PORT: u32 = 5000;

/// The context id of a workspace's machine.
fn cid(host: &Host, name: &str) -> u32 {
    let line = host.command_line(name);
    let (_, rest) = line.split_once("guest-cid=").expect("a machine with vsock");
    rest.split(',').next().unwrap().parse().unwrap()
}

/// Connects to a guest, as any user can.
fn connect(cid: u32) -> File {
    // SAFETY: the address is a plain structure that is valid when zeroed, and its length is passed with it.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let socket = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_vm = std::mem::zeroed();
        address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
        (address.svm_cid, address.svm_port) = (cid, PORT);
        let length = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
        let connected = libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length);
        assert_eq!(connected, 0, "{}", std::io::Error::last_os_error());
        socket
    };
    File::from(socket)
}

fn with_vsock() -> Host {
    Host::new("link = \"auto\"", "")
}

#[test]
fn connections_without_the_key_are_not_served_and_disturb_nobody() {
    let host = with_vsock();
    host.create("one");
    let cid = cid(&host, "one");
    host.run(&["exec", "one", "--", "sh", "-c", "echo before"]);
    // Many silent connections, and one with a valid handshake but without the key.
    let silent: Vec<File> = (0..20).map(|_| connect(cid)).collect();
    let mut stranger = connect(cid);
    stranger.write_all(b"\xa7isoHELLO\r\n\x1a\x01\xf3\x9e\x42").unwrap();
    stranger.write_all(&[0; 64]).unwrap();
    let mut answer = Vec::new();
    // It is closed without a response, or reset because it had sent more.
    let read = stranger.read_to_end(&mut answer);
    assert_eq!(answer, b"", "{read:?}");
    host.run(&["exec", "one", "--", "true"]);
    drop(silent);
    // A host with the key can reconnect.
    host.run(&["daemon", "stop"]);
    host.run(&["exec", "one", "--", "true"]);
}

#[test]
fn the_key_is_on_no_command_line_and_in_no_readable_file() {
    use std::os::unix::fs::MetadataExt;
    let host = with_vsock();
    host.create("one");
    let mut keys = Vec::new();
    for workspace in fs::read_dir(host.path().join("workspaces")).unwrap().flatten() {
        for machine in fs::read_dir(workspace.path()).into_iter().flatten().flatten() {
            assert_eq!(machine.metadata().unwrap().mode() & 0o077, 0, "{machine:?}");
            keys.push(fs::read(machine.path().join("link.key")).unwrap());
        }
    }
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0].len(), 32);
    let line = fs::read(format!("/proc/{}/cmdline", host.pid("one"))).unwrap();
    assert!(!line.windows(32).any(|part| part == keys[0]));
}

#[test]
fn machines_of_two_installations_and_forks_have_different_context_ids() {
    let (one, two) = (with_vsock(), with_vsock());
    one.create("same");
    two.create("same");
    one.run(&["fork", "same", "--name", "fork"]);
    let mut ids = [cid(&one, "same"), cid(&two, "same"), cid(&one, "fork")];
    // The kernel assigns an id only once, so an id that another program has is skipped.
    let device = OpenOptions::new().read(true).write(true).open(DEVICE).unwrap();
    for id in ids {
        let wanted = u64::from(id);
        // SAFETY: the ioctl reads one u64 through the pointer.
        let claimed = unsafe { libc::ioctl(device.as_raw_fd(), 0x4008_af60, &raw const wanted) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((claimed, errno), (-1, Some(libc::EADDRINUSE)), "{id}");
    }
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    // Each responds for itself.
    for (host, name) in [(&one, "same"), (&two, "same"), (&one, "fork")] {
        host.run(&["exec", name, "--", "true"]);
    }
}
