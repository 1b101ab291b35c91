//! The key that authenticates the host to an agent on vsock.
#![expect(
    clippy::disallowed_methods,
    reason = "called `in_place`, by the start of a machine and by reconnecting"
)]

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use agentiso_proto::{LINK_KEY_LEN, LINK_KEY_PORT, give_link_key};

use crate::sockets::SocketDir;

/// The file it is stored in, for reconnecting. Only the owner can enter the machine's directory.
const FILE: &str = "link.key";

/// The key of one machine.
#[derive(Clone, Copy)]
pub(crate) struct LinkKey([u8; LINK_KEY_LEN]);

/// The serial port over which the guest gets the key.
pub(crate) struct KeyPort {
    listener: UnixListener,
    offer: KeyOffer,
}

/// The open connection of that port. QEMU discards unread data when it is closed, so it stays open until the guest has the
/// key.
pub(crate) struct KeyOffer {
    _stream: UnixStream,
}

impl LinkKey {
    /// Generates a key and stores it in the machine's directory.
    pub fn make(dir: &SocketDir) -> io::Result<Self> {
        let mut key = [0; LINK_KEY_LEN];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        let path = dir.address(FILE);
        // QEMU owns the directory, so a link in it must not be followed.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?.write_all(&key)?;
        Ok(Self(key))
    }

    /// The key of a running machine; `None` if it was started by a version without keys.
    pub fn of(dir: &SocketDir) -> io::Result<Option<Self>> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(dir.address(FILE));
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut key = [0; LINK_KEY_LEN];
        file.read_exact(&mut key)?;
        Ok(Some(Self(key)))
    }

    /// The bytes to send first on a connection.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Opens the port and writes the key to it. The kernel buffers it until QEMU and the guest read it.
    pub fn port(&self, dir: &SocketDir) -> io::Result<KeyPort> {
        let listener = dir.listen("key.sock")?;
        let mut stream = dir.connect("key.sock")?;
        stream.write_all(&give_link_key(&self.0))?;
        Ok(KeyPort { listener, offer: KeyOffer { _stream: stream } })
    }
}

impl KeyPort {
    /// QEMU's arguments for the port.
    pub fn arguments(&self) -> Vec<(&'static str, String)> {
        let fd = self.listener.as_raw_fd();
        vec![
            ("-chardev", format!("socket,id=key,fd={fd},server=on,wait=off")),
            ("-device", "virtio-serial-device".to_owned()),
            ("-device", format!("virtserialport,chardev=key,name={LINK_KEY_PORT}")),
        ]
    }

    /// The connection that has to stay open.
    pub fn offer(self) -> KeyOffer {
        self.offer
    }

    /// The descriptor that QEMU inherits.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_key_is_kept_for_whoever_comes_back_and_for_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let sockets = SocketDir::open(dir.path()).unwrap();
        assert!(LinkKey::of(&sockets).unwrap().is_none());
        let first = LinkKey::make(&sockets).unwrap();
        let second = LinkKey::make(&sockets).unwrap();
        assert_ne!(first.bytes(), second.bytes());
        assert_eq!(LinkKey::of(&sockets).unwrap().unwrap().bytes(), second.bytes());
        assert_eq!(fs::metadata(dir.path().join(FILE)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_in_the_place_of_the_key_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        fs::write(&precious, [1; LINK_KEY_LEN]).unwrap();
        symlink(&precious, dir.path().join(FILE)).unwrap();
        let sockets = SocketDir::open(dir.path()).unwrap();
        assert!(LinkKey::of(&sockets).is_err());
        LinkKey::make(&sockets).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), [1; LINK_KEY_LEN]);
    }

    #[test]
    fn a_guest_is_given_the_key_and_no_command_line_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let sockets = SocketDir::open(dir.path()).unwrap();
        let key = LinkKey::make(&sockets).unwrap();
        let port = key.port(&sockets).unwrap();
        let mut given = [0; 256];
        let count = port.listener.accept().unwrap().0.read(&mut given).unwrap();
        let mut keys = agentiso_proto::LinkKeys::default();
        keys.take_in(&given[..count]);
        assert_eq!(keys.last().unwrap(), key.bytes());
    }
}
