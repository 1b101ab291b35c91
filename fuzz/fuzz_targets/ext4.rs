//! A damaged file system is compared or rejected, and never differs from itself.

#![no_main]

use std::io;
use std::process::Command;
use std::sync::LazyLock;

use agentiso_core::ports::{DiskView, Extent, Origin};
use agentiso_diff::{Options, compare, read_file};
use libfuzzer_sys::fuzz_target;

/// A small file system with files, directories and links.
static IMAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = std::env::temp_dir().join(format!("agentiso-fuzz-ext4-{}", std::process::id()));
    let tree = dir.join("tree");
    for index in 0..20 {
        let sub = tree.join(format!("dir{}", index % 3));
        std::fs::create_dir_all(&sub).expect("a directory");
        std::fs::write(sub.join(format!("file{index}")), vec![b'x'; index * 100]).expect("a file");
    }
    std::os::unix::fs::symlink("y".repeat(100), tree.join("link")).expect("a link");
    let image = dir.join("image");
    let mut command = Command::new("mke2fs");
    command.args(["-t", "ext4", "-F", "-q", "-b", "1024", "-J", "size=1", "-O", "inline_data", "-d"]);
    let status = command.arg(&tree).arg(&image).arg("3M").status().expect("mke2fs");
    assert!(status.success());
    let bytes = std::fs::read(&image).expect("the image");
    std::fs::remove_dir_all(&dir).expect("a clean end");
    bytes
});

struct Memory(Vec<u8>);

impl DiskView for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = offset as usize;
        let bytes = self.0.get(start..start + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        Ok(Extent { origin: Origin::Unknown, length: self.size() - offset })
    }
}

fuzz_target!(|flips: Vec<(u32, u8)>| {
    let sound = Memory(IMAGE.clone());
    let mut damaged = Memory(IMAGE.clone());
    for (at, byte) in flips {
        let at = at as usize % damaged.0.len();
        damaged.0[at] = byte;
    }
    let _ = compare(&sound, &damaged, &Options::default());
    let _ = read_file(&damaged, b"/dir1/file16", 4096);
    if let Ok(changes) = compare(&damaged, &damaged, &Options::default()) {
        assert!(changes.entries.is_empty());
    }
});
