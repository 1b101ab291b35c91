//! The router process with many machines: its idle cost, and how long a change of rules takes. The machines are cards
//! without a guest.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_config::NetworkBackend;
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, NetworkRules, WorkspaceId};
use agentiso_net::control::{ControlSocket, PolicyChange, RouterClient};
use agentiso_net::plan::Pool;
use agentiso_net::{Limits, MachineSpec};
use agentiso_policy::egress::Policy;
use agentiso_runtime::Installation;
use agentiso_runtime::network::{RouterKind, RouterLauncher};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use uuid::Uuid;

use crate::report::Measurement;
use crate::starts::ms;

/// Machines that do nothing, and how long they are watched.
const IDLE: u32 = 50;
const WATCHED: Duration = Duration::from_secs(10);
/// Machines among which the rules of one are changed, and how often.
const MANY: u32 = 100;
const CHANGES: usize = 100;

/// A router of its own, and the machines' ends of the cards.
struct Running {
    client: RouterClient,
    pool: Pool,
    cards: Vec<OwnedFd>,
    _dir: tempfile::TempDir,
}

pub(super) async fn measure(
    installation: &Installation,
    pool: Pool,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let mut router = start(installation, pool).await?;
    progress.step(&format!("Watching {IDLE} idle machines on the network"), None);
    for _ in 0..IDLE {
        router.attach().await?;
    }
    let (began, before) = (Instant::now(), usage(router.client.pid()));
    tokio::time::sleep(WATCHED).await;
    let (after, elapsed) = (usage(router.client.pid()), began.elapsed());
    let busy = after.cpu.saturating_sub(before.cpu).as_secs_f64() / elapsed.as_secs_f64() * 100.0;

    progress.step(&format!("Changing the rules of one workspace among {MANY}"), None);
    let mut ids = Vec::new();
    for _ in IDLE..MANY {
        ids.push(router.attach().await?);
    }
    let policies = [Policy::default(), online()?];
    let mut times = Vec::new();
    for round in 0..CHANGES {
        let change = PolicyChange {
            workspace: ids[round % ids.len()],
            policy: policies[round / ids.len() % policies.len()].clone(),
        };
        let began = Instant::now();
        router.client.set_policies(vec![change]).await?;
        times.push(ms(began.elapsed()));
    }
    progress.done("");
    router.client.stop().await?;
    Ok(vec![
        Measurement::one(format!("network processes with {IDLE} idle machines"), "MiB", after.memory)
            .at_most(20.0),
        Measurement::one("  of one core", "%", busy).at_most(1.0),
        Measurement::new(format!("a change of rules, {MANY} machines"), "ms", &times).at_most(10.0),
    ])
}

fn online() -> Result<Policy, Failure> {
    Ok(Policy::check(&NetworkRules { allow_internet: true, ..NetworkRules::default() })?)
}

async fn start(installation: &Installation, pool: Pool) -> Result<Running, Failure> {
    let failed = |error| installation.io("start a router for the measurements", error);
    let dir = tempfile::Builder::new().prefix("bench-").tempdir().map_err(failed)?;
    let path = dir.path().join("network.sock");
    let socket = ControlSocket::bind(&path, &dir.path().join("network.lock")).map_err(failed)?;
    let kind = match installation.config.network.backend {
        NetworkBackend::Auto | NetworkBackend::User => RouterKind::User,
        NetworkBackend::Bridge => RouterKind::Bridge,
    };
    installation.router_process()?.launch(socket, kind, &pool).map_err(failed)?;
    let client = RouterClient::connect(&path).await?;
    Ok(Running { client, pool, cards: Vec::new(), _dir: dir })
}

impl Running {
    /// Attaches another machine.
    async fn attach(&mut self) -> Result<WorkspaceId, Failure> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(|error| Failure::new(agentiso_core::Code::Io, error.to_string()))?;
        let workspace = WorkspaceId::from_uuid(Uuid::now_v7());
        let number = self.cards.len() as u32 + 1;
        let spec = MachineSpec {
            workspace,
            address: Ipv4Addr::from_bits(self.pool.gateway().to_bits() + number),
            mtu: 65_520,
            card: String::new(),
            limits: Limits::default(),
            policy: online()?,
        };
        let device = self.client.attach(spec, theirs).await?;
        self.cards.push(device.unwrap_or(ours));
        Ok(workspace)
    }
}

/// What a process and those that it started use.
struct Usage {
    /// Memory that is in use by it alone or shared, in MiB.
    memory: f64,
    cpu: Duration,
}

fn usage(pid: u32) -> Usage {
    let mut total = Usage { memory: 0.0, cpu: Duration::ZERO };
    let mut left = vec![pid];
    while let Some(pid) = left.pop() {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let status = read("status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
        total.memory += kib.unwrap_or_default() / 1024.0;
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let task = task.file_name().to_string_lossy().into_owned();
            let ran = read(&format!("task/{task}/schedstat"));
            let ran = ran.split(' ').next().and_then(|ran| ran.parse().ok());
            total.cpu += Duration::from_nanos(ran.unwrap_or_default());
            let children = read(&format!("task/{task}/children"));
            left.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    total
}
