//! The connection to the router, which is started when it is needed.

use std::collections::HashSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_config::paths::Paths;
use agentiso_config::{Network, NetworkBackend};
use agentiso_core::{Code, Failure, NetworkRules, NetworkState, WorkspaceId};
use agentiso_net::control::{ControlError, ControlSocket, PolicyChange, RouterClient};
use agentiso_net::egress::ProxySetup;
use agentiso_net::plan::Pool;
use agentiso_net::{Limits, MachineSpec, MachineStatus, host};
use agentiso_policy::egress::Policy;
use agentiso_proto::Card;
use agentiso_vmm::Plug;
use ipnet::Ipv4Net;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::sync::{Notify, watch};

use super::{RouterKind, RouterLauncher, Wired};

const SOCKET: &str = "network.sock";
const LOCK: &str = "network.lock";
/// What the kernel takes as the path of a socket, with a little less.
const LONGEST: usize = 100;
/// The host's routes.
const ROUTES: &str = "/proc/net/route";
/// How often a router that another process starts is looked for, and the pause between.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);

/// The network of an installation. There is no process behind it until a workspace needs one.
pub(crate) struct Net {
    run_dir: PathBuf,
    lock: PathBuf,
    kind: RouterKind,
    pub(crate) pool: Pool,
    mtu: u16,
    limits: Limits,
    launcher: Arc<dyn RouterLauncher>,
    client: tokio::sync::Mutex<Option<RouterClient>>,
    /// Workspaces whose machines are being attached, and are therefore not recorded yet.
    unrecorded: Mutex<HashSet<WorkspaceId>>,
    /// Tells the upkeep that there is something to look at.
    pub(crate) changed: Notify,
    /// The number of the newest entry of the stored log.
    pub(crate) newest: watch::Sender<u64>,
    /// Why the network does not work at the moment.
    pub(crate) problem: Mutex<Option<String>>,
}

/// A path to the socket that the kernel takes for as long as this is there.
struct SocketPath {
    path: PathBuf,
    _directory: Option<File>,
}

impl Net {
    pub fn new(paths: &Paths, config: &Network, launcher: Arc<dyn RouterLauncher>) -> Result<Self, Failure> {
        let invalid = |failure: Failure| {
            let message = format!("network.pool: {}", failure.message());
            Failure::new(Code::InvalidConfig, message)
                .with_remedy(failure.remedy().unwrap_or("choose another range").to_owned())
        };
        let pool = Pool::parse(&config.pool).map_err(|error| invalid(error.into()))?;
        Ok(Self {
            run_dir: paths.run_dir.clone(),
            lock: paths.home.join(LOCK),
            kind: match config.backend {
                NetworkBackend::Auto | NetworkBackend::User => RouterKind::User,
                NetworkBackend::Bridge => RouterKind::Bridge,
            },
            pool,
            mtu: config.mtu,
            limits: Limits {
                connections: config.max_connections as usize,
                packets_per_second: config.packets_per_second.into(),
                bytes_per_second: config.bytes_per_second,
                queries_per_second: config.dns_queries_per_second.into(),
                ..Limits::default()
            },
            launcher,
            client: tokio::sync::Mutex::default(),
            unrecorded: Mutex::default(),
            changed: Notify::new(),
            newest: watch::Sender::new(0),
            problem: Mutex::default(),
        })
    }

    /// Fails if this host cannot give workspaces a network. Nothing is started.
    pub fn check(&self) -> Result<(), Failure> {
        if self.kind == RouterKind::Bridge {
            in_place(agentiso_net::bridge::check)?;
        }
        Ok(self.pool.check(&self.routes()?)?)
    }

    /// What else this host lacks, beyond the first thing that `check` reports.
    pub fn more_missing(&self) -> Vec<Failure> {
        let missing = match self.kind {
            RouterKind::User => Vec::new(),
            RouterKind::Bridge => in_place(agentiso_net::bridge::missing),
        };
        missing.into_iter().skip(1).map(Failure::from).collect()
    }

    /// The back end.
    pub fn kind(&self) -> RouterKind {
        self.kind
    }

    /// The back end, for people.
    pub fn describe(&self) -> &'static str {
        match self.kind {
            RouterKind::User => "user-space router",
            RouterKind::Bridge => "bridge in a network namespace",
        }
    }

    /// The host's routes, without the default route.
    pub fn routes(&self) -> Result<Vec<Ipv4Net>, Failure> {
        host::routes(Path::new(ROUTES)).map_err(|error| {
            Failure::new(Code::of_io(&error), format!("the host's routes cannot be read: {error}"))
                .with_remedy("mount /proc")
        })
    }

    /// Whether a workspace may keep its address: it is in the pool, and the host has no route to it.
    pub fn is_usable(&self, address: Ipv4Addr, routes: &[Ipv4Net]) -> bool {
        self.pool.range().contains(&address) && !routes.iter().any(|route| route.contains(&address))
    }

    /// The configuration of a workspace's card.
    pub fn card(&self, workspace: WorkspaceId, address: Ipv4Addr) -> Card {
        let gateway = self.pool.gateway().octets();
        let (mac, address) = (workspace.mac(), address.octets());
        Card { mac, address, gateway, resolver: gateway, mtu: self.mtu }
    }

    /// How a machine has to be attached.
    pub fn spec(
        &self,
        workspace: WorkspaceId,
        address: Ipv4Addr,
        rules: &NetworkRules,
        card: String,
    ) -> Result<MachineSpec, Failure> {
        let (mtu, limits, policy) = (self.mtu.into(), self.limits, Policy::check(rules)?);
        Ok(MachineSpec { workspace, address, mtu, card, limits, policy })
    }

    /// Attaches a workspace to the router. Returns the machine's end of its card.
    pub async fn attach(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        network: &NetworkState,
    ) -> Result<Option<(Wired, Plug)>, Failure> {
        let Some(address) = network.address else { return Ok(None) };
        let card = uuid::Uuid::new_v4().to_string();
        let spec = self.spec(workspace, address, &network.rules, card.clone())?;
        let wired = Wired::new(Arc::clone(self), workspace, card);
        let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let (ours, machines) = pair.map_err(|error| lost(&io::Error::from(error)))?;
        let mut is_again = false;
        let device = loop {
            let ours = ours.try_clone().map_err(|error| lost(&error))?;
            let mut client = self.connected().await?;
            let Some(router) = client.as_mut() else { return Err(lost(&"it ended")) };
            match router.attach(spec.clone(), ours).await {
                Ok(device) => break device,
                Err(ControlError::Lost(_)) if !is_again => *client = None,
                // A machine that ended a moment ago may still be there.
                Err(ControlError::Refused { code: Code::Internal, .. }) if !is_again => {
                    self.evict(router, &spec).await?;
                }
                Err(error) => return Err(error.into()),
            }
            is_again = true;
        };
        self.changed.notify_one();
        Ok(Some((wired, device.map_or(Plug::Datagrams(machines), Plug::Tap))))
    }

    /// Detaches another machine that has the address of this workspace.
    async fn evict(&self, router: &mut RouterClient, spec: &MachineSpec) -> Result<(), Failure> {
        let machines = router.machines().await?;
        let holder = machines.iter().find(|machine| machine.spec.address == spec.address);
        match holder.map(|holder| holder.spec.workspace) {
            Some(holder) if !self.is_unrecorded(holder) => Ok(router.detach(holder).await?),
            _ => Ok(()),
        }
    }

    /// Detaches a workspace. One that is not attached is left as it is, and so is a router that does not run.
    pub async fn detach(&self, workspace: WorkspaceId) -> Result<(), Failure> {
        let mut client = self.client.lock().await;
        if client.is_none() {
            *client = self.find().await?;
        }
        let Some(router) = client.as_mut() else { return Ok(()) };
        match router.detach(workspace).await {
            Ok(()) | Err(ControlError::Refused { code: Code::WorkspaceNotRunning, .. }) => Ok(()),
            // It has ended, and nothing is attached.
            Err(ControlError::Lost(_)) => {
                *client = None;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Detaches a workspace in the background. What fails is repaired by the upkeep.
    pub fn detach_soon(self: Arc<Self>, workspace: WorkspaceId) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(failure) = self.detach(workspace).await {
                tracing::warn!(%failure, %workspace, "could not detach a machine from the network");
            }
            self.changed.notify_one();
        });
    }

    /// Changes the policy of an attached workspace. Returns false if it is not attached.
    pub async fn set_policy(&self, workspace: WorkspaceId, rules: &NetworkRules) -> Result<bool, Failure> {
        let policy = Policy::check(rules)?;
        let mut client = self.connected().await?;
        let Some(router) = client.as_mut() else { return Ok(false) };
        match router.set_policies(vec![PolicyChange { workspace, policy }]).await {
            Ok(()) => Ok(true),
            Err(ControlError::Refused { code: Code::WorkspaceNotRunning, .. }) => Ok(false),
            Err(ControlError::Lost(_)) => {
                *client = None;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Gives the proxy the authority and the secrets of a workspace. One that is not attached gets them when it is.
    pub async fn set_proxy(&self, workspace: WorkspaceId, setup: ProxySetup) -> Result<(), Failure> {
        let mut client = self.connected().await?;
        let Some(router) = client.as_mut() else { return Ok(()) };
        match router.set_proxy(workspace, setup).await {
            Ok(()) | Err(ControlError::Refused { code: Code::WorkspaceNotRunning, .. }) => Ok(()),
            // Another router gets them when the machine is attached to it.
            Err(ControlError::Lost(_)) => {
                *client = None;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The machines of the router; `None` if there is no router.
    pub async fn machines(&self) -> Result<Option<(u32, Vec<MachineStatus>)>, Failure> {
        let mut client = self.client.lock().await;
        if client.is_none() {
            *client = self.find().await?;
        }
        let Some(router) = client.as_mut() else { return Ok(None) };
        let pid = router.pid();
        match router.machines().await {
            Ok(machines) => Ok(Some((pid, machines))),
            Err(ControlError::Lost(_)) => {
                *client = None;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A second connection, to read the log; `None` if there is no router.
    pub async fn follower(&self) -> Result<Option<RouterClient>, Failure> {
        self.find().await
    }

    /// The connection to the router, which is started if there is none.
    async fn connected(&self) -> Result<tokio::sync::MutexGuard<'_, Option<RouterClient>>, Failure> {
        let mut client = self.client.lock().await;
        if client.is_none() {
            *client = match self.find().await? {
                Some(found) => Some(found),
                None => Some(self.start().await?),
            };
        }
        Ok(client)
    }

    /// Starts a router if there is none.
    pub async fn ensure(&self) -> Result<(), Failure> {
        self.connected().await.map(drop)
    }

    /// Connects to a router that runs. One of another version, or with other addresses, is ended.
    async fn find(&self) -> Result<Option<RouterClient>, Failure> {
        let Some(socket) = self.socket_path(false)? else { return Ok(None) };
        match RouterClient::connect(&socket.path).await {
            Ok(client) if self.is_as_configured(&client) => Ok(Some(client)),
            Ok(_) | Err(ControlError::Refused { code: Code::Unsupported, .. }) => {
                RouterClient::end(&socket.path).await?;
                Ok(None)
            }
            Err(ControlError::Unreachable { .. } | ControlError::Lost(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn is_as_configured(&self, client: &RouterClient) -> bool {
        client.pool() == self.pool.range().to_string() && client.backend() == self.kind.name()
    }

    async fn start(&self) -> Result<RouterClient, Failure> {
        self.check()?;
        let Some(socket) = self.socket_path(true)? else { return Err(lost(&"its directory is missing")) };
        for _ in 0..TRIES {
            match in_place(|| ControlSocket::bind(&socket.path, &self.lock)) {
                Ok(control) => {
                    self.launcher.launch(control, self.kind, &self.pool).map_err(|error| lost(&error))?;
                    return Ok(RouterClient::connect(&socket.path).await?);
                }
                // Another process starts one, or the last one is ending.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(lost(&error)),
            }
            tokio::time::sleep(PAUSE).await;
            if let Some(found) = self.find().await? {
                return Ok(found);
            }
        }
        Err(lost(&"another one does not answer"))
    }

    /// The path of the control socket; `None` if its directory does not exist and is not to be made.
    #[expect(clippy::disallowed_methods, reason = "runs `in_place`")]
    fn socket_path(&self, make: bool) -> Result<Option<SocketPath>, Failure> {
        let open = || -> io::Result<Option<SocketPath>> {
            if make {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.run_dir)?;
            }
            let plain = self.run_dir.join(SOCKET);
            if plain.as_os_str().len() <= LONGEST {
                return Ok(Some(SocketPath { path: plain, _directory: None }));
            }
            let directory = match fs::File::open(&self.run_dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            };
            let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()));
            Ok(Some(SocketPath { path, _directory: Some(directory) }))
        };
        in_place(open).map_err(|error| lost(&error))
    }

    pub(super) fn begin(&self, workspace: WorkspaceId) {
        self.unrecorded().insert(workspace);
    }

    pub(super) fn end(&self, workspace: WorkspaceId) {
        self.unrecorded().remove(&workspace);
    }

    /// Whether a machine of the workspace is being attached.
    pub fn is_unrecorded(&self, workspace: WorkspaceId) -> bool {
        self.unrecorded().contains(&workspace)
    }

    fn unrecorded(&self) -> MutexGuard<'_, HashSet<WorkspaceId>> {
        self.unrecorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lost(error: &dyn std::fmt::Display) -> Failure {
    let message = format!("the router of the workspaces' network cannot be used: {error}");
    Failure::new(Code::NetworkUnavailable, message)
        .with_remedy("'agentiso check' says more; workspaces without a network are not affected")
}
