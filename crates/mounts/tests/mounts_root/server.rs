//! Starts servers of this program, and runs tests as an ordinary user who may use FUSE.

use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_mounts::{By, IngestOptions, Launcher, MountInfo, MountRequest, Mounts};
use agentiso_store::TreeId;

use crate::support::*;

const RECORD: &str = "MOUNTS_TEST_RECORD";

/// Makes this program a server if it was started as one. Runs before the test harness, because a server must have one
/// thread and the harness has several.
extern "C" fn serve() {
    if let Some(record) = std::env::var_os(RECORD) {
        let served = agentiso_mounts::serve_mount(Path::new(&record));
        std::process::exit(i32::from(served.is_err()));
    }
}

// SAFETY: the loader calls what is in this section once, before `main`; the function needs nothing that `main` sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static SERVE: extern "C" fn() = serve;

/// Starts this test program as the server.
pub fn launcher() -> Launcher {
    let script = format!("{RECORD}=\"$1\" exec \"$0\"");
    let program = std::env::current_exe().unwrap();
    Launcher {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into(), program.into_os_string()],
    }
}

pub fn mounts(place: &Place) -> Mounts {
    Mounts::open(&place.path("mounts"), &place.dirs, launcher()).unwrap()
}

pub fn mount(place: &Place, tree: TreeId, name: &str, by: By) -> MountInfo {
    let point = place.path(name);
    std::fs::create_dir_all(&point).unwrap();
    let request = MountRequest { tree, point, label: name.to_owned(), read_only: false, by };
    mounts(place).mount(&request).unwrap()
}

/// Unmounts and returns the tree of what was there.
pub fn unmount(place: &Place, point: &Path) -> TreeId {
    let workdir = mounts(place).unmount(point, false).unwrap();
    let tree = workdir.ingest(&IngestOptions::default()).unwrap().tree;
    place.store.pin(&tree.to_string(), agentiso_store::Root::Tree(tree)).unwrap();
    workdir.remove().unwrap();
    tree
}

/// Runs an ignored test as root, and as an ordinary user in a mount namespace in which `/dev/fuse` is open to all.
pub fn with_fuse(test: &str) {
    assert!(rustix::process::geteuid().is_root(), "needs root");
    let dir = tempfile::tempdir().unwrap();
    let node: PathBuf = dir.path().join("fuse");
    let program = std::env::current_exe().unwrap();
    for user in ["0", "65534"] {
        let script = "mknod -m 666 \"$2\" c 10 229; mount --bind \"$2\" /dev/fuse; \
            exec setpriv --reuid $3 --regid $3 --clear-groups \"$1\" --exact \"$4\" --ignored --quiet";
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-e", "-c", script, "sh"])
            .args([program.as_os_str(), node.as_os_str(), user.as_ref(), test.as_ref()])
            .output()
            .unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains("1 passed"), "as user {user}:\n{text}");
        std::fs::remove_file(&node).unwrap();
    }
}
