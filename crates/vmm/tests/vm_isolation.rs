//! What a program in QEMU's place can reach on the host: a QEMU taken over by its guest can do no more.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_vmm::qemu::{Credentials, Isolate, Process, Qemu, Spawn};
use agentiso_vmm::{Access, Isolation, Shown, User, Users};

/// Tries operations and prints the results. Needs only what every Debian has.
const PROBE: &str = r#"
use strict; use Socket;
my %at = @ARGV;
my ($unix, $tcp);
sub said { my ($what, $done) = @_; print STDERR "$what: ", ($done ? "reached" : "refused"), "\n" }
sub opens { my ($mode, $path) = @_; return open(my $file, $mode, $path) }
said("own disk, write", opens("+<", $at{own}));
said("layer, read", opens("<", $at{layer}));
said("layer, write", opens("+<", $at{layer}));
said("memory base, read", opens("<", $at{base}));
said("memory base, write", opens("+<", $at{base}));
said("another machine's disk", opens("<", $at{other}));
said("a new file beside its disk", opens(">", "$at{own}.new"));
said("a second name for its disk", link($at{own}, "$at{own}.link"));
said("processes", opens("<", "/proc/self/status"));
said("users of the host", opens("<", "/etc/passwd"));
said("the daemon's socket", socket($unix, AF_UNIX, SOCK_STREAM, 0) && connect($unix, sockaddr_un($at{socket})));
said("the network", socket($tcp, AF_INET, SOCK_STREAM, 0)
    && connect($tcp, sockaddr_in($at{port}, inet_aton("127.0.0.1"))));
said("signals", kill(0, $at{daemon}));
# A disk that it gets while it runs.
for (1 .. 1000) { last if -e $at{later}; select(undef, undef, undef, 0.02) }
said("a disk it is shown later", opens("+<", $at{later}));
print STDERR "done\n";
"#;

/// A user id that no user of the host has.
const STRANGER: &str = "65531";

struct Probed {
    said: BTreeMap<String, bool>,
    landlock: u32,
    namespaces_differ: bool,
    uid: u32,
}

impl Probed {
    fn reached(&self, what: &str) -> bool {
        *self.said.get(what).unwrap_or_else(|| panic!("nothing is known of {what:?}: {:?}", self.said))
    }
}

/// Runs the probe like a QEMU, with a home around it, and returns what it could reach.
async fn probe() -> Probed {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let home = place.path().canonicalize().unwrap().join("home");
    for dir in ["", "disks", "bases", "machine", "machine/disks", "run"] {
        fs::create_dir(home.join(dir)).unwrap();
    }
    let user = is_root().then(|| users(place.path()).claim().unwrap());
    let file = |path: &str, owner: Option<&User>| {
        let path = home.join(path);
        fs::write(&path, "x").unwrap();
        let group = user.as_ref().map(|user| user.owner().1);
        fs::set_permissions(&path, Permissions::from_mode(if owner.is_some() { 0o600 } else { 0o640 }))
            .unwrap();
        if let Some(group) = group {
            chown(&path, Some(owner.map_or(0, |owner| owner.owner().0)), Some(group)).unwrap();
        }
        path
    };
    let own = file("disks/own", user.as_ref());
    let [layer, base, other] = ["disks/layer", "bases/base", "disks/other"].map(|path| file(path, None));
    let later = file("disks/later", user.as_ref());
    let view = home.join("machine/disks");
    if is_root() {
        fs::set_permissions(&view, Permissions::from_mode(0o711)).unwrap();
    }
    for disk in [&own, &layer] {
        fs::hard_link(disk, view.join(disk.file_name().unwrap())).unwrap();
    }
    let socket = home.join("run/daemon.sock");
    let _daemon = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
    let network = TcpListener::bind("127.0.0.1:0").unwrap();

    let program = PathBuf::from("/usr/bin/perl");
    let qemu = Qemu {
        path: program.clone(),
        version: String::new(),
        release: (10, 0),
        firmware: base.clone(),
        identity: "probe".to_owned(),
    };
    let isolation = Isolation::find(&qemu, &place.path().join("isolation.json")).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let arguments = [
        ("own", text(&own)),
        ("layer", text(&layer)),
        ("base", text(&base)),
        ("other", text(&other)),
        ("later", text(&later)),
        ("socket", text(&socket)),
        ("port", network.local_addr().unwrap().port().to_string()),
        ("daemon", std::process::id().to_string()),
    ];
    let arguments = arguments.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    let files = vec![
        Shown::in_place("/dev/null", Access::Write),
        Shown::in_place(&base, Access::Read),
        Shown { host: view.clone(), at: home.join("disks"), access: Access::WriteWithin },
        Shown::in_place(&layer, Access::Read),
    ];
    let heard = place.path().join("heard");
    let process = Process::spawn(Spawn {
        program: &program,
        arguments: ["-e".to_owned(), PROBE.to_owned(), "--".to_owned()]
            .into_iter()
            .chain(arguments)
            .map(Into::into)
            .collect(),
        inherited: Vec::new(),
        stderr: heard.clone(),
        run_as: user.as_ref().map(User::credentials),
        isolate: Some(Isolate { by: &isolation, files }),
        read_only: None,
        ephemeral: true,
        confine: None,
    })
    .unwrap();
    let namespace = |pid: &str, kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
    let pid = process.pid().to_string();
    let namespaces_differ =
        ["mnt", "net", "ipc"].iter().all(|kind| namespace(&pid, kind) != namespace("self", kind));
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(u64::from_str_radix(&field("CapEff:"), 16).unwrap(), 0);
    assert!(!field("Groups:").split(' ').any(|group| group == "0"));
    let uid = field("Uid:").split_whitespace().next().unwrap().parse().unwrap();
    fs::hard_link(&later, view.join("later")).unwrap();
    process.ended().await;
    let heard = fs::read_to_string(heard).unwrap();
    assert!(heard.ends_with("done\n"), "{heard}");
    let said = heard.lines().filter_map(|line| line.rsplit_once(": "));
    let said = said.map(|(what, became)| (what.to_owned(), became == "reached")).collect();
    Probed { said, landlock: isolation.landlock().unwrap_or(0), namespaces_differ, uid }
}

fn users(place: &Path) -> Users {
    let like = Credentials { uid: 65534, gid: 65534, kvm_gid: None };
    Users::new(&place.join("uids"), 1_900_100_000, 1000, like)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn an_isolated_process_reaches_only_its_own_files() {
    let probed = probe().await;
    for what in ["own disk, write", "layer, read", "memory base, read", "a disk it is shown later"] {
        assert!(probed.reached(what), "{what}: {:?}", probed.said);
    }
    let mut refused = vec![
        "layer, write",
        "memory base, write",
        "another machine's disk",
        "processes",
        "users of the host",
        "the daemon's socket",
        "the network",
    ];
    // If all machines have the same user, only Landlock denies these.
    let has_own_user = is_root();
    if has_own_user || probed.landlock > 0 {
        refused.extend(["a new file beside its disk", "a second name for its disk"]);
    }
    if has_own_user || probed.landlock >= 6 {
        refused.push("signals");
    }
    for what in refused {
        assert!(!probed.reached(what), "{what}: {:?}", probed.said);
    }
    assert!(probed.namespaces_differ);
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(probed.uid == own, !has_own_user, "root's machines have users of their own");
    assert_ne!(probed.uid, 0);
}

#[test]
fn isolation_works_for_an_ordinary_user() {
    let name = "an_isolated_process_reaches_only_its_own_files";
    let place = tempfile::Builder::new().prefix("isolation-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    // The build directory may be inaccessible to other users.
    let program = place.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={STRANGER}")).arg(format!("--regid={STRANGER}")).arg("--clear-groups");
        command.arg(&program);
        command
    } else {
        Command::new(&program)
    };
    let output = command.args([name, "--exact", "--nocapture"]).env("TMPDIR", "/tmp").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}
