//! The daemon from its start to its end.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::ports::AllowAll;
use agentiso_core::wire::ErrorBody;
use agentiso_core::{Code, Failure};
use agentiso_engine::{Engine, Ports, Shutdown};
use agentiso_runtime::workspaces::Workspaces;
use agentiso_runtime::{BootClock, HostPackages, Installation};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::doors::Doors;
use super::lock::DaemonLock;
use super::socket::listen;
use super::spawn::READY;

/// What is printed when another daemon has the lock.
pub(super) const TAKEN: &str = "taken";
/// How long machines may take to power off when the daemon is told to stop them.
const STOP: Duration = Duration::from_secs(30);

/// Runs the daemon in this process until it is told to end.
pub async fn run(paths: &Paths, detached: bool, metrics_port: Option<u16>) -> Result<u8, Failure> {
    let installation =
        &Installation::open(paths.clone()).inspect_err(|failure| say_why(detached, failure))?;
    installation.make_room();
    let lock = match DaemonLock::take(&installation.paths.home) {
        Ok(lock) => lock,
        Err(_) if detached => {
            say(TAKEN);
            return Ok(0);
        }
        Err(failure) => return Err(failure),
    };
    raise_file_limit();
    let opened = open(installation, metrics_port).await;
    let (engine, doors) = opened.inspect_err(|failure| say_why(detached, failure))?;
    let (shutdown, mut asked) = mpsc::channel(1);
    let (end, ending) = watch::channel(false);
    let mut signals = Signals::new()?;
    let serving = doors.serve(&engine, shutdown, ending);
    tokio::pin!(serving);
    announce(detached);
    tracing::info!(home = %installation.paths.home.display(), "the daemon serves");
    let how = tokio::select! {
        stop_machines = asked.recv() => match stop_machines {
            Some(true) => Shutdown::StopMachines(STOP),
            _ => Shutdown::LeaveMachines,
        },
        () = signals.ending() => Shutdown::LeaveMachines,
        ended = &mut serving => {
            ended?;
            Shutdown::LeaveMachines
        }
    };
    tracing::info!(?how, "the daemon ends");
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    let _ = end.send(true);
    let served = (&mut serving).await;
    engine.shut_down(how).await;
    drop(lock);
    served.map(|()| 0)
}

async fn open(
    installation: &Installation,
    metrics_port: Option<u16>,
) -> Result<(Arc<Engine>, Doors), Failure> {
    let socket = listen(&installation.paths.run_dir)?;
    let doors = Doors::open(installation, socket, metrics_port).await?;
    let host = Arc::new(Workspaces::open_to_stay(installation).await?);
    let records = Arc::clone(host.meta());
    let clock = Arc::new(BootClock::open(&installation.paths.home));
    let settings = installation.engine_settings(doors.own_ports());
    let ports = Ports {
        host: Arc::clone(&host) as _,
        records,
        clock,
        policy: Arc::new(AllowAll),
        network: host,
        packages: Arc::new(HostPackages),
    };
    let engine = Engine::open(ports, settings).await?;
    Ok((engine, doors))
}

/// Raises the limit of open files: every machine, forward and client needs some descriptors.
fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}

/// Tells the process that started us that we accept connections.
fn announce(detached: bool) {
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    if detached {
        say(READY);
    }
}

/// Tells the process that started us why we cannot run.
fn say_why(detached: bool, failure: &Failure) {
    if detached {
        say(&serde_json::to_string(&ErrorBody::from(failure)).unwrap_or_default());
    }
}

/// The process that started us reads one line and ends; nothing may depend on it afterwards.
fn say(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{}", line.lines().next().unwrap_or_default());
    let _ = out.flush();
}

/// Signals that end the daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Code::Internal, format!("could not listen for signals: {error}"))
            })
        };
        Ok(Self { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn ending(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
