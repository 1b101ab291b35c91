//! A file system with reflinks.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::UnmountFlags;

/// What the file system in the file has room for; the file takes only what is used.
const BYTES: u64 = 512 << 20;

/// An XFS of its own, in a file, mounted in a temporary directory until dropped.
///
/// Mounting needs root: `scripts/test` leaves the tests that need one out, and says so, for anybody else.
pub struct TestXfs {
    dir: tempfile::TempDir,
}

impl TestXfs {
    /// Makes and mounts one.
    ///
    /// # Panics
    ///
    /// If that cannot be done: we are not root, `mkfs.xfs` is missing, or the host lets nobody mount.
    pub fn mount() -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "mounting an XFS needs root; run the other tests with: cargo nextest run -E 'not binary(reflinks)'"
        );
        let dir = tempfile::tempdir().expect("a temporary directory");
        let image = dir.path().join("image");
        File::create(&image).and_then(|file| file.set_len(BYTES)).expect("a file for the XFS");
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(&image));
        let this = Self { dir };
        std::fs::create_dir(this.path()).expect("a mount point");
        run(Command::new("mount").args(["-t", "xfs", "-o", "loop"]).arg(image).arg(this.path()));
        this
    }

    /// Where it is mounted.
    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("mount")
    }
}

impl Drop for TestXfs {
    fn drop(&mut self) {
        // Lazily, because a test that panics may have files open; the loop device goes with the last of them.
        let _ = rustix::mount::unmount(self.path(), UnmountFlags::DETACH);
    }
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("a program that is installed");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaint}", Path::new(command.get_program()).display());
}
