//! Vsock: who may talk to a guest, and whose context id is whose.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::host::Host;

const DEVICE: &str = "/dev/vhost-vsock";
/// The port the agent listens on.
const PORT: u32 = 5000;

/// The context id of a workspace's machine.
fn cid(host: &Host, name: &str) -> u32 {
    let line = host.command_line(name);
    let (_, rest) = line.split_once("guest-cid=").expect("a machine with vsock");
    rest.split(',').next().unwrap().parse().unwrap()
}

/// Connects to a guest as anybody can.
fn connect(cid: u32) -> File {
    // SAFETY: the address is a plain structure of numbers for which zeros are valid, and its length goes with it.
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
fn nobody_without_the_key_of_a_machine_is_served_or_disturbs_who_is() {
    let host = with_vsock();
    host.create("one");
    let cid = cid(&host, "one");
    host.run(&["exec", "one", "--", "sh", "-c", "echo before"]);
    // Many who say nothing, and one who knows how to begin but not the key.
    let silent: Vec<File> = (0..20).map(|_| connect(cid)).collect();
    let mut stranger = connect(cid);
    stranger.write_all(b"\xa7isoHELLO\r\n\x1a\x01\xf3\x9e\x42").unwrap();
    stranger.write_all(&[0; 64]).unwrap();
    let mut answer = Vec::new();
    // It is closed without a word, or reset because it had said more.
    let read = stranger.read_to_end(&mut answer);
    assert_eq!(answer, b"", "{read:?}");
    host.run(&["exec", "one", "--", "true"]);
    drop(silent);
    // Whoever has the key comes back to it as before.
    host.run(&["daemon", "stop"]);
    host.run(&["exec", "one", "--", "true"]);
}

#[test]
fn the_key_is_on_no_command_line_and_in_no_file_others_can_read() {
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
fn machines_of_two_installations_and_forks_have_context_ids_of_their_own() {
    let (one, two) = (with_vsock(), with_vsock());
    one.create("same");
    two.create("same");
    one.run(&["fork", "same", "--name", "fork"]);
    let mut ids = [cid(&one, "same"), cid(&two, "same"), cid(&one, "fork")];
    // The kernel gives an id to one only, so another program that has it keeps it from us.
    let device = OpenOptions::new().read(true).write(true).open(DEVICE).unwrap();
    for id in ids {
        let wanted = u64::from(id);
        // SAFETY: the request reads one u64 through the pointer.
        let claimed = unsafe { libc::ioctl(device.as_raw_fd(), 0x4008_af60, &raw const wanted) };
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((claimed, errno), (-1, Some(libc::EADDRINUSE)), "{id}");
    }
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    // Each answers for itself.
    for (host, name) in [(&one, "same"), (&two, "same"), (&one, "fork")] {
        host.run(&["exec", name, "--", "true"]);
    }
}
