//! The `newc` archive the kernel unpacks at boot. Same entries, same bytes: no times, no inodes of the host.

use std::io::Write as _;

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// Builds an archive in memory.
#[derive(Default)]
pub(super) struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    pub(super) fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, (0, 0), &[]);
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entry(path, FILE | mode, (0, 0), content);
    }

    pub(super) fn character_device(&mut self, path: &str, mode: u32, major: u32, minor: u32) {
        self.entry(path, CHARACTER_DEVICE | mode, (major, minor), &[]);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        // inode, mode, uid, gid, links, mtime, size, major, minor, device major and minor, name size, checksum
        let fields = [self.entries, mode, 0, 0, links, 0, content.len() as u32, 0, 0, device.0, device.1];
        self.bytes.extend_from_slice(b"070701");
        for field in fields.into_iter().chain([path.len() as u32 + 1, 0]) {
            // Writing to memory does not fail.
            let _ = write!(self.bytes, "{field:08x}");
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
