//! A file system with reflinks.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::mount::UnmountFlags;

/// What the file system in the file has room for; the file takes only what is used.
const BYTES: u64 = 512 << 20;

/// An XFS of its own, in a file, mounted in a temporary directory until dropped.
///
/// Mounting needs root. As anybody else there is none, and the tests that need one have nothing to run on: they must
/// end when [`TestXfs::mount`] says so.
pub struct TestXfs {
    dir: tempfile::TempDir,
}

impl TestXfs {
    /// Makes and mounts one; `None`, and a line that says why, if we are not root.
    ///
    /// # Panics
    ///
    /// If root cannot do it either: `mkfs.xfs` is missing, or the host lets nobody mount.
    #[expect(clippy::print_stderr, reason = "a test that has nothing to run on must say so")]
    pub fn mount() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not root, so no XFS can be mounted: reflinks are not tested");
            return None;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let image = dir.path().join("image");
        File::create(&image).and_then(|file| file.set_len(BYTES)).expect("a file for the XFS");
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(&image));
        let this = Self { dir };
        std::fs::create_dir(this.path()).expect("a mount point");
        run(Command::new("mount").args(["-t", "xfs", "-o", "loop"]).arg(image).arg(this.path()));
        Some(this)
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
