//! An installation of a test's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_config::paths::Paths;
use agentiso_net::control::{ControlSocket, run_router};
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::Pool;
use agentiso_net::{HostUplink, Router, Settings};
use agentiso_runtime::Installation;
use agentiso_runtime::network::{RouterKind, RouterLauncher};
use agentiso_runtime::workspaces::Workspaces;
use agentiso_testing::TestHome;
use agentiso_testing::hosts::HostLab;

/// Where a workspace keeps its files.
const KEPT: [&str; 3] = ["disks", "memory", "workspaces"];

/// Runs the router in the process of the test: a test has no command that is one.
struct InProcess;

impl RouterLauncher for InProcess {
    fn launch(&self, socket: ControlSocket, _kind: RouterKind, pool: &Pool) -> std::io::Result<()> {
        let settings = Settings { pool: *pool, nameservers: Nameservers::Fixed(Vec::new()) };
        tokio::spawn(run_router(socket, Router::new(settings, Arc::new(HostUplink))));
        Ok(())
    }
}

/// An installation. Dropping it ends all its machines.
pub struct Place {
    pub lab: HostLab,
    home: TestHome,
}

impl Place {
    pub async fn new() -> Self {
        let home = TestHome::new();
        let paths = Paths {
            home: home.path().to_owned(),
            run_dir: home.path().join("run"),
            config_file: home.path().join("config.toml"),
            config_named: true,
        };
        let installation = Installation::open(paths).unwrap();
        let workspaces = Workspaces::open_with_router(&installation, Arc::new(InProcess)).await.unwrap();
        let dir = home.path().to_owned();
        let lab = HostLab {
            records: Arc::clone(workspaces.meta()) as _,
            host: Arc::new(workspaces),
            image: "debian".parse().unwrap(),
            kept: Box::new(move || kept(&dir)),
            echo_server,
        };
        Self { lab, home }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in self.home.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// The files of workspaces, but not those that the back end keeps for itself: their names begin with a dot. The lock of
/// a workspace that exists is made when it is first locked, so it does not count either.
fn kept(home: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for dir in KEPT {
        walk(&home.join(dir), &mut found);
    }
    found.retain(|path| !is_lock_of_known(home, path));
    let relative = |path: &PathBuf| path.strip_prefix(home).unwrap().to_string_lossy().into_owned();
    let mut found: Vec<String> = found.iter().map(relative).collect();
    found.sort();
    found
}

fn is_lock_of_known(home: &Path, path: &Path) -> bool {
    let is_lock = path.extension().is_some_and(|extension| extension == "lock");
    let record = path.with_extension("workspace.json");
    is_lock && home.join("disks").join(record.file_name().unwrap()).exists()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => walk(&path, found),
            false if entry.file_name().as_encoded_bytes().starts_with(b".") => {}
            false => found.push(path),
        }
    }
}

fn echo_server(port: u16) -> String {
    format!(
        r#"exec perl -MIO::Socket::INET -e '
$| = 1;
$l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => {port}, Listen => 9, ReuseAddr => 1) or die;
print "ready\n";
while ($c = $l->accept) {{ while (sysread $c, $b, 65536) {{ syswrite $c, $b }} close $c }}'"#
    )
}
