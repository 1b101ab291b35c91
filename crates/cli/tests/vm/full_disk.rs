//! A full host disk: reported clearly, in bounded time, and nothing is left behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use agentiso_testing::TestHome;

/// Runs its arguments on a small file system of its own at `$SMALL`, filled up first if `$FILL` is not empty, ends the
/// daemon, and lists in `$LEFT` the files they left there, besides those of the daemon. Mounts are gone with the
/// namespace.
const ON_A_SMALL_DISK: &str = r#"
set -e
mount -t tmpfs -o "size=$SIZE,mode=755" small "$SMALL"
for name in $SHARED; do ln -s "$PREPARED/$name" "$SMALL/$name"; done
[ -z "$FILL" ] || dd if=/dev/zero of="$SMALL/filler" bs=4k 2>/dev/null || :
status=0
$AS "$@" || status=$?
$AS "$1" daemon stop --machines >/dev/null 2>&1 || :
find "$SMALL" ! -type l ! -type d ! -empty ! -name filler ! -name reserve ! -name clock.json ! -name 'state.db*' \
  ! -name 'daemon.*' ! -name .backend ! -name .database.json > "$LEFT"
exit $status
"#;

/// A home on a disk that is too small.
struct SmallDisk {
    home: TestHome,
    size: &'static str,
    full: bool,
    shared: &'static str,
}

struct Outcome {
    error: serde_json::Value,
    code: Option<i32>,
    /// Files.
    left: String,
}

impl SmallDisk {
    fn new(size: &'static str, shared: &'static str) -> Self {
        Self { home: TestHome::new(), size, full: false, shared }
    }

    fn full(shared: &'static str) -> Self {
        Self { full: true, ..Self::new("1M", shared) }
    }

    fn agentiso(&self, arguments: &[&str]) -> Outcome {
        let small = self.home.path().join("small");
        let left = self.home.path().join("left");
        fs::create_dir_all(&small).unwrap();
        let (uid, gid) = (id("-u"), id("-g"));
        let mut command = Command::new("unshare");
        if uid == "0" {
            command.arg("--mount").env("AS", "");
        } else {
            // Mounting needs root in a namespace. agentiso runs as the same user as otherwise.
            command.args(["--user", "--map-root-user", "--mount"]);
            command.env("AS", format!("unshare --user --map-user={uid} --map-group={gid}"));
        }
        command.args(["--", "sh", "-c", ON_A_SMALL_DISK, "sh", env!("CARGO_BIN_EXE_agentiso"), "--json"]);
        command.args(arguments).stdin(Stdio::null());
        command.env("SMALL", &small).env("LEFT", &left).env("PREPARED", self.home.path());
        command
            .env("SIZE", self.size)
            .env("FILL", if self.full { "yes" } else { "" })
            .env("SHARED", self.shared);
        command.env("AGENTISO_HOME", &small).env("AGENTISO_CONFIG", self.home.path().join("config.toml"));
        let output = command.output().expect("unshare runs");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{} {}", text(&output.stdout), text(&output.stderr)));
        let left = fs::read_to_string(&left).expect("a list");
        // A daemon that could not start has said so before it has ended.
        while !self.home.processes().is_empty() {
            std::thread::yield_now();
        }
        Outcome { error: report["error"].clone(), code: output.status.code(), left }
    }

    /// Runs a command that must fail because the disk is full, and must leave nothing.
    fn fails(&self, arguments: &[&str], code: i32) -> String {
        let outcome = self.agentiso(arguments);
        assert_eq!(outcome.error["code"], "disk_full", "{arguments:?}: {}", outcome.error);
        assert_eq!(outcome.code, Some(code), "{arguments:?}");
        assert_eq!(outcome.left, "", "{arguments:?}");
        let remedy = outcome.error["remedy"].as_str().unwrap_or_default();
        assert!(remedy.contains("space"), "{arguments:?}: {}", outcome.error);
        outcome.error["message"].as_str().unwrap().to_owned()
    }
}

fn id(flag: &str) -> String {
    text(&Command::new("id").arg(flag).output().expect("id runs").stdout)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end().to_owned()
}

fn directory_with(bytes: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), vec![b'x'; bytes]).unwrap();
    dir
}

fn import(source: &Path) -> [&str; 5] {
    ["image", "import", "--name", "large", source.to_str().unwrap()]
}

#[test]
fn an_import_onto_a_full_disk_fails_before_it_begins() {
    let source = directory_with(1);
    SmallDisk::full("kernel templates cache").fails(&import(source.path()), 1);
}

#[test]
fn an_import_that_fills_the_disk_fails_and_removes_what_it_wrote() {
    let source = directory_with(48 << 20);
    let said = SmallDisk::new("32M", "kernel templates cache").fails(&import(source.path()), 1);
    assert!(said.contains("the disk of the host is full"), "{said}");
}

#[test]
fn a_machine_does_not_start_on_a_full_disk() {
    let disk = SmallDisk::full("kernel images templates cache");
    for flags in [&["run", "--", "true"][..], &["run", "--cold", "--", "true"]] {
        disk.fails(flags, 125);
    }
}

#[test]
fn a_template_without_space_leaves_nothing_incomplete() {
    SmallDisk::new("8M", "kernel images cache").fails(&["run", "--memory", "256", "--", "true"], 125);
}

#[test]
fn a_full_disk_is_not_reported_as_a_missing_kernel() {
    SmallDisk::new("1M", "images cache").fails(&["run", "--", "true"], 125);
}

#[test]
fn a_machine_that_fills_the_host_disk_is_killed() {
    // Large enough for the reserve without which a full disk cannot be cleaned up.
    let disk = SmallDisk::new("300M", "kernel images templates cache");
    let script = "head -c 600M /dev/zero > /large; sync; echo survived; sleep 1000";
    let said = disk.fails(&["run", "--", "sh", "-c", script], 125);
    assert!(said.contains("the disk of the host is full"), "{said}");
}

/// Creates a workspace with snapshots on a small disk, fills the disk, and removes everything again.
const REMOVE_ON_A_FULL_DISK: &str = r#"
set -e
mount -t tmpfs -o size=1G,mode=755 small "$SMALL"
for name in kernel images templates cache; do ln -s "$PREPARED/$name" "$SMALL/$name"; done
trap '"$AGENTISO" daemon stop --machines >/dev/null 2>&1 || :' EXIT
"$AGENTISO" create --name web >/dev/null
"$AGENTISO" snapshot create web one >/dev/null
"$AGENTISO" snapshot create web two --memory >/dev/null
"$AGENTISO" stop web >/dev/null
dd if=/dev/zero of="$SMALL/filler" bs=4k 2>/dev/null || :
dd if=/dev/zero of="$SMALL/rest" bs=1 2>/dev/null || :
[ "$(stat -f -c %a "$SMALL")" = 0 ]
"$AGENTISO" snapshot rm web two
"$AGENTISO" rm web
[ -z "$(find "$SMALL/disks" "$SMALL/memory" -name '*-*' ! -name '.*')" ]
"#;

#[test]
fn snapshots_and_workspaces_can_be_removed_from_a_full_disk() {
    let home = TestHome::new();
    let small = home.path().join("small");
    fs::create_dir_all(&small).unwrap();
    let (uid, gid) = (id("-u"), id("-g"));
    let mut command = Command::new("unshare");
    if uid == "0" {
        command.args(["--mount", "--"]);
    } else {
        command.args(["--user", "--map-user", &uid, "--map-group", &gid, "--keep-caps", "--mount", "--"]);
    }
    command.args(["sh", "-c", REMOVE_ON_A_FULL_DISK]).stdin(Stdio::null());
    command.env("SMALL", &small).env("PREPARED", home.path()).env("AGENTISO", env!("CARGO_BIN_EXE_agentiso"));
    command.env("AGENTISO_HOME", &small).env("AGENTISO_CONFIG", home.path().join("config.toml"));
    let output = command.output().expect("unshare runs");
    assert!(output.status.success(), "{} {}", text(&output.stdout), text(&output.stderr));
}
