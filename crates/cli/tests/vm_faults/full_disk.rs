//! A home on a separate disk that fills up.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentiso_testing::TestHome;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use crate::rounds::{Limits, Run};

/// Runs its arguments with a small file system at `$SMALL`. The mounts end with the namespace.
const ON_A_SMALL_DISK: &str = r#"
set -e
mount -t tmpfs -o "size=$SIZE,mode=755" small "$SMALL"
for name in $SHARED; do ln -s "$PREPARED/$name" "$SMALL/$name"; done
printf '[pool]\nsize = 0\n' > "$SMALL/config.toml"
exec $AS "$@"
"#;
/// Enough for templates, four workspaces and their snapshots.
const SIZE: &str = "2G";
/// Set when this test runs itself on the small disk.
const SMALL: &str = "AGENTISO_FAULT_SMALL";

/// A file that occupies the free space.
pub struct Filler {
    file: PathBuf,
}

impl Filler {
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Leaves at most `rest` bytes free.
    pub fn fill(&self, rest: u64) {
        let file = File::create(&self.file).unwrap();
        loop {
            let room = statvfs(self.file.parent().unwrap()).unwrap();
            let bytes = (room.f_bavail * room.f_frsize).saturating_sub(rest);
            if bytes == 0 {
                return;
            }
            match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // A machine used the space first.
                Err(Errno::NOSPC) => {}
                other => return other.unwrap(),
            }
        }
    }

    pub fn clear(&self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[test]
fn a_full_disk_and_kills_lose_nothing_and_leak_nothing() {
    if let Some(small) = std::env::var_os(SMALL) {
        let small = Path::new(&small);
        Run::new(small, Limits::from_environment(15)).filling(small.join("filler")).go();
        return;
    }
    let home = TestHome::new();
    let small = home.path().join("small");
    fs::create_dir(&small).unwrap();
    let owner = fs::metadata(&small).unwrap();
    let mut command = Command::new("unshare");
    if owner.uid() == 0 {
        command.arg("--mount").env("AS", "");
    } else {
        // Mounting needs root in a namespace. agentiso runs as the same user as otherwise.
        command.args(["--user", "--map-root-user", "--mount"]);
        command.env("AS", format!("unshare --user --map-user={} --map-group={}", owner.uid(), owner.gid()));
    }
    command.args(["--", "sh", "-c", ON_A_SMALL_DISK, "sh"]).arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "full_disk::a_full_disk_and_kills_lose_nothing_and_leak_nothing",
        "--nocapture",
    ]);
    command.env("SIZE", SIZE).env("SHARED", "kernel images cache").env("PREPARED", home.path());
    command.env("SMALL", &small).env(SMALL, &small).stdin(Stdio::null());
    let status = command.status().expect("unshare runs");
    assert!(status.success(), "{status}");
}
