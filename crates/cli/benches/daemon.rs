//! How the daemon bears many workspaces and many clients.
//!
//! ```text
//! cargo bench -p agentiso-cli --bench daemon -- HOME [WORKSPACES [CLIENTS [SECONDS]]]
//! ```
//!
//! HOME is a prepared installation that no daemon works on. Prints one line per figure.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "a benchmark prints its results and stops at the first failure"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agentiso_client::Client;
use agentiso_config::paths::{Environment, Paths};
use agentiso_core::Failure;
use agentiso_core::action::{
    Action, FileRead, FileWrite, WorkspaceCreate, WorkspaceDestroy, WorkspaceList, WorkspaceStart,
    WorkspaceStop,
};
use agentiso_runtime::Installation;
use agentiso_runtime::workspaces::Workspaces;
use tokio::task::JoinSet;

const CONTENT: usize = 4096;
const CALLS: usize = 500;

#[tokio::main]
async fn main() {
    // A test runner that lists tests finds none here.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let Some(home) = words.first().map(PathBuf::from) else {
        eprintln!(
            "usage: cargo bench -p agentiso-cli --bench daemon -- HOME [WORKSPACES [CLIENTS [SECONDS]]]"
        );
        return;
    };
    let number =
        |index: usize, default: usize| words.get(index).and_then(|word| word.parse().ok()).unwrap_or(default);
    if let Err(failure) = overhead(&home).await {
        eprintln!("failed: {failure} ({})", failure.code().as_str());
        return;
    }
    let daemon = Daemon::start(&home);
    let load = Load {
        client: daemon.client(),
        workspaces: number(1, 50),
        clients: number(2, 8),
        seconds: number(3, 300) as u64,
        pid: daemon.process.id(),
    };
    match load.run().await {
        Ok(()) => {}
        Err(failure) => eprintln!("failed: {failure} ({})", failure.code().as_str()),
    }
}

/// What a call costs beyond what the machine takes for it: the same through the daemon, and over the link alone.
async fn overhead(home: &Path) -> Result<(), Failure> {
    let name = "overhead";
    let mut daemon = Daemon::start(home);
    let client = daemon.client();
    make(&client, name).await?;
    let (mut through, mut lists) = (Times::default(), Times::default());
    for _ in 0..CALLS {
        through.time(client.act(&read(name))).await?;
        lists.time(client.act(&WorkspaceList::default())).await?;
    }
    daemon.leave_machines();
    let environment = Environment {
        agentiso_home: Some(std::path::absolute(home).expect("a directory")),
        ..Environment::of_process()
    };
    let installation = Installation::open(Paths::resolve(&environment, None, &|path| path.exists())?)?;
    let workspaces = Workspaces::open_to_stay(&installation).await?;
    let guest = workspaces.guest(workspaces.meta().read(|read| read.find_workspace(name))?.id).await?;
    let mut alone = Times::default();
    for _ in 0..CALLS {
        let read = async {
            let mut file = guest.read_file("/root/file", 0, None).await?;
            while file.next().await?.is_some() {}
            Ok(())
        };
        alone.time(read).await?;
    }
    drop(workspaces);
    println!("file_read of 4 KiB through the daemon: {through}");
    println!("the same over the link alone: {alone}");
    println!("workspace_list of one: {lists}");
    let daemon = Daemon::start(home);
    daemon.client().act(&WorkspaceDestroy { workspace_id: name.to_owned() }).await?;
    Ok(())
}

/// Makes a workspace with a file to read.
async fn make(client: &Client, name: &str) -> Result<(), Failure> {
    let create =
        WorkspaceCreate { name: Some(name.to_owned()), memory_mb: Some(256), ..WorkspaceCreate::default() };
    client.act(&create).await?;
    let write = FileWrite {
        workspace_id: name.to_owned(),
        path: "/root/file".to_owned(),
        content: "x".repeat(CONTENT).into(),
        ..FileWrite::default()
    };
    client.act(&write).await?;
    client.act(&read(name)).await?;
    Ok(())
}

/// The daemon, ended with its machines when this goes.
struct Daemon {
    process: Child,
    home: PathBuf,
}

impl Daemon {
    fn start(home: &Path) -> Self {
        let mut process = agentiso(home)
            .args(["daemon", "run", "--detached"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the daemon starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it speaks");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
            .expect("it says something");
        assert_eq!(line.trim(), "ready");
        Self { process, home: home.to_owned() }
    }

    fn client(&self) -> Client {
        Client::new(&self.home.join("run/daemon.sock"), "bench")
    }

    /// Ends the daemon alone.
    fn leave_machines(&mut self) {
        let _ = agentiso(&self.home).args(["daemon", "stop"]).status();
        let _ = self.process.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = agentiso(&self.home).args(["daemon", "stop", "--machines"]).status();
        let _ = self.process.wait();
    }
}

fn agentiso(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentiso"));
    command.env("AGENTISO_HOME", home);
    command
}

struct Load {
    client: Client,
    workspaces: usize,
    clients: usize,
    seconds: u64,
    pid: u32,
}

impl Load {
    async fn run(&self) -> Result<(), Failure> {
        let names: Vec<String> = (0..self.workspaces).map(|number| format!("load-{number}")).collect();
        let began = Instant::now();
        for name in &names {
            make(&self.client, name).await?;
        }
        println!("{} workspaces made in {:.1} s", names.len(), began.elapsed().as_secs_f64());
        let quiet = self.many_reads(&names, 1, 10).await?;
        println!("one client alone: {quiet}");
        let before = self.memory();
        let figures = self.many_reads(&names, self.clients, self.seconds).await?;
        println!("{} clients for {} s: {figures}", self.clients, self.seconds);
        println!("daemon memory: {before} KiB before, {} KiB after", self.memory());
        let beside = self.beside_boots(&names).await?;
        println!("while another workspace stops and starts: {beside}");
        for name in names {
            self.act(&WorkspaceDestroy { workspace_id: name }).await?;
        }
        Ok(())
    }

    async fn many_reads(&self, names: &[String], clients: usize, seconds: u64) -> Result<Times, Failure> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let mut tasks = JoinSet::new();
        for index in 0..clients {
            let (client, names) = (self.client.clone(), names.to_vec());
            tasks.spawn(async move {
                let mut times = Times::default();
                for name in names.iter().cycle().skip(index * 7) {
                    if Instant::now() >= until {
                        break;
                    }
                    let began = Instant::now();
                    client.act(&read(name)).await?;
                    times.push(began.elapsed());
                }
                Ok::<_, Failure>(times)
            });
        }
        let mut all = Times::default();
        while let Some(done) = tasks.join_next().await {
            all.0.extend(done.expect("no panic")?.0);
        }
        Ok(all)
    }

    async fn beside_boots(&self, names: &[String]) -> Result<Times, Failure> {
        let (client, other) = (self.client.clone(), names[names.len() - 1].clone());
        let boots = tokio::spawn(async move {
            for _ in 0..5 {
                let stop = WorkspaceStop { workspace_id: other.clone(), force: false, timeout_secs: None };
                client.act(&stop).await?;
                client.act(&WorkspaceStart { workspace_id: other.clone() }).await?;
            }
            Ok::<_, Failure>(())
        });
        let mut times = Times::default();
        while !boots.is_finished() {
            let began = Instant::now();
            self.act(&read(&names[0])).await?;
            times.push(began.elapsed());
        }
        boots.await.expect("no panic")?;
        Ok(times)
    }

    async fn act<A: Action>(&self, action: &A) -> Result<A::Outcome, Failure> {
        self.client.act(action).await
    }

    /// Resident memory of the daemon in KiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }
}

fn read(name: &str) -> FileRead {
    FileRead { workspace_id: name.to_owned(), path: "/root/file".to_owned(), ..FileRead::default() }
}

/// How long things took.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn push(&mut self, took: Duration) {
        self.0.push(took);
    }

    async fn time<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let began = Instant::now();
        let done = work.await?;
        self.push(began.elapsed());
        Ok(done)
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort();
        let at = |part: f64| {
            let index = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
            sorted.get(index).map_or(0.0, |took| took.as_secs_f64() * 1e3)
        };
        write!(
            f,
            "{} calls, median {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            sorted.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        )
    }
}
