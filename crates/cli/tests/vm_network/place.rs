//! An installation whose host is a namespace of the test internet.

use std::ops::AsyncFnOnce;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_config::paths::Paths;
use agentiso_core::ports::host::{CreateRequest, ForkRequest, ForkSource, RemoveRequest, WorkspaceHost};
use agentiso_core::ports::link::Exec;
use agentiso_core::progress::Silent;
use agentiso_core::{NetworkRules, NetworkState, Resources, WorkspaceId};
use agentiso_runtime::Installation;
use agentiso_runtime::network::RouterProcess;
use agentiso_runtime::workspaces::Workspaces;
use agentiso_testing::TestHome;
use agentiso_testing::internet::Internet;
use agentiso_testing::links::shell;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// No test waits longer than this for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// An installation. Dropping it ends all its processes.
pub struct Place {
    pub internet: Internet,
    home: TestHome,
    workspaces: Option<Workspaces>,
}

impl Place {
    /// Runs a test in the namespace of the host, whose resolver is that of the test internet.
    pub fn run_with(config: &str, body: impl AsyncFnOnce(&mut Self) + Send) {
        let internet = Internet::new();
        let host = internet.host().clone();
        let (internet, home) = (std::sync::Mutex::new(Some(internet)), TestHome::new());
        home.configure(config);
        host.enter(|| {
            let internet = internet.lock().unwrap().take().unwrap();
            // SAFETY: only this thread and those it starts get other mounts, and none of them shares files by path with
            // other threads of the test.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }.unwrap();
            let resolv_conf = internet.resolv_conf();
            mount(&["--make-rprivate", "/"]);
            mount(&["--bind", resolv_conf.to_str().unwrap(), "/etc/resolv.conf"]);
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let mut place = Self { internet, home, workspaces: None };
                place.open().await;
                body(&mut place).await;
            });
        });
    }

    /// Opens the workspaces, as a daemon does.
    pub async fn open(&mut self) {
        let paths = Paths {
            home: self.home.path().to_owned(),
            run_dir: self.home.path().join("run"),
            config_file: self.home.path().join("config.toml"),
            config_named: true,
        };
        let installation = Installation::open(paths).unwrap();
        let user = installation.router_process().unwrap().user;
        let program = env!("CARGO_BIN_EXE_agentiso").into();
        let router = RouterProcess { program, log: self.home.path().join("network.log"), user };
        let opened = Workspaces::open_with_router(&installation, Arc::new(router)).await;
        self.workspaces = Some(opened.unwrap());
    }

    /// Closes them, as a daemon that ends does.
    pub fn close(&mut self) {
        self.workspaces = None;
    }

    pub fn workspaces(&self) -> &Workspaces {
        self.workspaces.as_ref().unwrap()
    }

    fn host(&self) -> &dyn WorkspaceHost {
        self.workspaces()
    }

    pub async fn create(&self, name: &str, network: NetworkRules) -> WorkspaceId {
        let request = CreateRequest {
            name: Some(name.parse().unwrap()),
            image: "debian".parse().unwrap(),
            resources: Resources { memory_mb: 256, ..Resources::default() },
            cold: false,
            pool: false,
            owner: None,
            one_shot: false,
            network,
        };
        self.host().create(&request, &(Arc::new(Silent) as _)).await.unwrap().id
    }

    pub async fn fork(&self, id: WorkspaceId, source: ForkSource, name: &str) -> WorkspaceId {
        let request = ForkRequest {
            workspace: id,
            source,
            name: Some(name.parse().unwrap()),
            count: 1,
            all_or_nothing: true,
            owner: None,
            network: None,
        };
        let outcome = self.host().fork(&request, &(Arc::new(Silent) as _)).await.unwrap();
        outcome.forks.into_iter().next().unwrap().result.unwrap().0.id
    }

    pub async fn set(&self, id: WorkspaceId, rules: NetworkRules) -> NetworkState {
        self.host().set_network(id, &rules).await.unwrap()
    }

    pub async fn state(&self, id: WorkspaceId) -> NetworkState {
        self.host().info(id).await.unwrap().network
    }

    pub async fn remove(&self, id: WorkspaceId) {
        self.host().remove(&RemoveRequest { workspace: id, force: true }).await.unwrap();
    }

    /// Starts a command line that runs on by itself.
    pub async fn job(&self, id: WorkspaceId, line: &str) {
        let argv = ["/bin/bash", "-c", line].map(|word| word.as_bytes().to_vec()).to_vec();
        self.host().link(id).await.unwrap().start_job(Exec { argv, ..Exec::default() }).await.unwrap();
    }

    /// What a command line prints, which must succeed.
    pub async fn sh(&self, id: WorkspaceId, line: &str) -> String {
        shell(&*self.host().link(id).await.unwrap(), &format!("exec /bin/bash -c {}", quoted(line))).await
    }

    /// Whether a command line fails.
    pub async fn fails(&self, id: WorkspaceId, line: &str) -> bool {
        let silent =
            format!("/bin/bash -c {} >/dev/null 2>&1 && echo succeeded || echo failed", quoted(line));
        self.sh(id, &silent).await == "failed\n"
    }

    /// Runs a command line until it prints this.
    pub async fn until(&self, id: WorkspaceId, line: &str, expected: &str) {
        let began = Instant::now();
        loop {
            let said = self.sh(id, &format!("({line}) || true")).await;
            if said.trim() == expected {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{line}: {said:?} instead of {expected:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The process of the router, if there is one.
    pub fn router(&self) -> Option<u32> {
        let lock = std::fs::canonicalize(self.home.path().join("network.lock")).ok()?;
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let has_lock = |pid: &u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            String::from_utf8_lossy(&line).contains("\0network-router\0")
                && open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|file| file == lock)
        };
        numbers.into_iter().find(has_lock)
    }

    /// Kills the router without a warning. Returns its process id.
    pub fn kill_router(&self) -> u32 {
        let pid = self.router().unwrap();
        kill(pid);
        pid
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.home.processes().into_iter().chain(self.router()).for_each(kill);
    }
}

fn kill(pid: u32) {
    if let Some(pid) = Pid::from_raw(i32::try_from(pid).unwrap()) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn mount(arguments: &[&str]) {
    let done = std::process::Command::new("mount").args(arguments).status().unwrap();
    assert!(done.success(), "mount {arguments:?}");
}

fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', r"'\''"))
}
