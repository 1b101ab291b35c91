//! The key without which an agent on vsock talks to nobody.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use agentiso_proto::{LINK_KEY_FILE, LINK_KEY_LEN};

use crate::sockets::SocketDir;

/// Where it is kept, for whoever comes back to the machine: in a directory that nobody else can enter.
const FILE: &str = "link.key";

/// The key of one machine.
#[derive(Clone, Copy)]
pub(crate) struct LinkKey([u8; LINK_KEY_LEN]);

/// The key as QEMU is given it: by a descriptor, because everybody sees its arguments.
pub(crate) struct KeyFile(File);

impl LinkKey {
    /// Makes one and keeps it in the machine's directory.
    pub fn make(dir: &SocketDir) -> io::Result<Self> {
        let mut key = [0; LINK_KEY_LEN];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        let path = dir.address(FILE);
        // The directory is QEMU's, which must not lead us elsewhere by a link.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?.write_all(&key)?;
        Ok(Self(key))
    }

    /// The key of a machine that runs; `None` if it was started by a version that had none.
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

    /// What is sent first.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// For QEMU.
    pub fn file(&self) -> io::Result<KeyFile> {
        let file = rustix::fs::memfd_create("link-key", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(file);
        file.write_all(&self.0)?;
        Ok(KeyFile(file))
    }
}

impl KeyFile {
    /// What QEMU is told about it.
    pub fn argument(&self) -> (&'static str, String) {
        ("-fw_cfg", format!("name={LINK_KEY_FILE},file=/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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
    fn qemu_finds_the_key_behind_its_descriptor_and_not_in_its_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let key = LinkKey::make(&SocketDir::open(dir.path()).unwrap()).unwrap();
        let file = key.file().unwrap();
        let (_, argument) = file.argument();
        let path = argument.split_once("file=").unwrap().1;
        assert_eq!(fs::read(path).unwrap(), key.bytes());
    }
}
