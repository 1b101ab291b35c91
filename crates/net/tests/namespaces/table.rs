//! The table of who may reach what, row by row, with all its workspaces on one router.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use agentiso_core::WorkspaceId;
use agentiso_net::bridge::Bridge;
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::{DEFAULT_POOL, Pool};
use agentiso_net::{HostUplink, LogEntry, LogEvent, Router, Settings};
use agentiso_testing::internet::Internet;
use agentiso_testing::internet::places::{CARRIER, HOST, LINK_LOCAL, METADATA, OTHER, PRIVATE, WEB};
use agentiso_testing::internet::table::{How, Row, TABLE, To, workspaces};

use tokio::sync::broadcast;

use crate::attempts::{Outcome, attempt, resolve};
use crate::bridged::{start_bridge, tap_guest};
use crate::sockets::on_host;
use crate::support::*;

/// A back end, as the table sees it.
trait Network {
    fn read(&self, from: u64) -> (Vec<LogEntry>, broadcast::Receiver<LogEntry>);
}

impl Network for Router {
    fn read(&self, from: u64) -> (Vec<LogEntry>, broadcast::Receiver<LogEntry>) {
        self.subscribe(from)
    }
}

impl Network for Bridge {
    fn read(&self, from: u64) -> (Vec<LogEntry>, broadcast::Receiver<LogEntry>) {
        self.subscribe(from)
    }
}

#[test]
fn the_table_holds_for_the_bridge() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guests = BTreeMap::new();
        for (last, (name, rules)) in (2..).zip(workspaces()) {
            guests.insert(name, tap_guest(&bridge, last, rules));
        }
        check_rows(&bridge, &mut guests).await;
    });
    check_what_arrived(&internet);
}

#[test]
fn the_table_holds_for_the_user_space_router() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || check_router(resolv_conf));
    check_what_arrived(&internet);
}

/// The test starts itself again, as a user who may do nothing in particular.
#[test]
fn the_table_holds_for_a_router_of_an_ordinary_user() {
    const NOBODY: u32 = 65534;
    if std::env::var_os("AGENTISO_TEST_AS_USER").is_some() {
        assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(check_router("/etc/resolv.conf".into()));
    }
    let internet = Internet::new();
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("test");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [directory.path(), internet.resolv_conf().parent().unwrap()] {
        std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = internet.command(NOBODY, &program);
    command.args(["--exact", "table::the_table_holds_for_a_router_of_an_ordinary_user", "--nocapture"]);
    let output = command.env("AGENTISO_TEST_AS_USER", "1").env("TMPDIR", "/tmp").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    check_what_arrived(&internet);
}

async fn check_router(resolv_conf: PathBuf) {
    let pool = Pool::parse(DEFAULT_POOL).unwrap();
    let settings = Settings { pool, nameservers: Nameservers::Host(resolv_conf) };
    let net = Net::with_router(Router::new(settings, Arc::new(HostUplink)));
    let mut guests = BTreeMap::new();
    for (last, (name, rules)) in (2..).zip(workspaces()) {
        guests.insert(name, net.guest(last, rules));
    }
    check_rows(&net.router, &mut guests).await;
}

/// Checks every row by trying it and by reading the log.
async fn check_rows(network: &impl Network, guests: &mut BTreeMap<&'static str, Guest>) {
    let ids: BTreeMap<_, _> =
        (2..).zip(workspaces()).map(|(last, (name, _))| (name, workspace(last))).collect();
    for row in TABLE {
        let sequence = network.read(0).0.last().map_or(0, |entry| entry.sequence + 1);
        let outcome = try_row(guests, row).await;
        let entry = logged(network, sequence, ids[row.from]).await;
        let verdict = match entry.event {
            LogEvent::Opened => "allowed",
            LogEvent::Refused => "refused",
            other => panic!("{other:?} is logged for {row:?}: {entry:?}"),
        };
        assert_eq!(format!("{verdict}: {}", entry.rule), row.expected, "{row:?}");
        assert_eq!(outcome == Outcome::Reached, row.is_allowed(), "{row:?} was {outcome:?}");
    }
}

/// Tries one row; the other workspace answers meanwhile.
async fn try_row(guests: &mut BTreeMap<&'static str, Guest>, row: &Row) -> Outcome {
    let mut guest = guests.remove(row.from).unwrap();
    let outcome = match row.to {
        To::Address(address) => attempt(&mut guest, address, row.how).await,
        To::Name(name) => match resolve(&mut guest, name).await {
            Some(address) => attempt(&mut guest, address, row.how).await,
            None => Outcome::Refused,
        },
        To::Workspace(name) => {
            let other = guests.get_mut(name).unwrap();
            let address = other.address;
            let (port, is_datagram) = match row.how {
                How::Tcp(port) => (port, false),
                How::Udp(port) => (port, true),
                How::Ping => (1, true),
            };
            tokio::select! {
                outcome = attempt(&mut guest, address, row.how) => outcome,
                () = other.offer(port, is_datagram) => unreachable!("it serves for ever"),
            }
        }
    };
    guests.insert(row.from, guest);
    outcome
}

/// The first entry about a workspace's attempt.
async fn logged(network: &impl Network, from: u64, workspace: WorkspaceId) -> LogEntry {
    let (past, mut live) = network.read(from);
    let matches = |entry: &LogEntry| entry.workspace == workspace && entry.event != LogEvent::Closed;
    let find = async {
        if let Some(entry) = past.into_iter().find(matches) {
            return entry;
        }
        loop {
            let entry = live.recv().await.unwrap();
            if matches(&entry) {
                return entry;
            }
        }
    };
    tokio::time::timeout(PATIENCE, find).await.expect("the attempt is logged")
}

/// The wire and the servers agree with the table.
fn check_what_arrived(internet: &Internet) {
    let arrivals = internet.arrivals();
    let to = |row: &Row| match row.to {
        To::Address(address) => Some(address),
        _ => None,
    };
    let mut allowed: Vec<Ipv4Addr> = TABLE.iter().filter(|row| row.is_allowed()).filter_map(to).collect();
    // Reached by its name.
    allowed.push(OTHER);
    assert!(arrivals.was_sent(WEB) && arrivals.was_sent(PRIVATE), "what is allowed was on the wire");
    for row in TABLE.iter().filter(|row| !row.is_allowed()) {
        if let Some(address) = to(row).filter(|address| !allowed.contains(address)) {
            assert!(!arrivals.was_sent(address), "a packet of {row:?} was on the wire");
        }
    }
    for closed in [METADATA, CARRIER, LINK_LOCAL] {
        assert!(!arrivals.was_sent(closed), "{closed}");
    }
    assert!(arrivals.packets().iter().all(|seen| seen.port != 853), "DNS over TLS");
    let reached: Vec<_> =
        internet.host_arrivals().requests().into_iter().map(|request| request.to.ip()).collect();
    assert_eq!(reached, [HOST], "the host's services, reached once by the workspace that names the address");
}
