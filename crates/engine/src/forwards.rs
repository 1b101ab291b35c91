//! Port forwards: ports of the host that lead into workspaces.
//!
//! A forward is a listener on 127.0.0.1 and, for each connection, a stream through the guest link: it needs no network
//! in the workspace. It belongs to the workspace, not to its machine: while no machine runs, connections are closed at
//! once. Its record and its listener are changed together, by actions that hold the workspace's lock. A listener that
//! could not be opened after a restart of the daemon is opened when the forward is requested again. A forward may also
//! lead to a port of another workspace, over the network of its own (`towards`).

mod carry;
mod limits;
mod towards;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentiso_core::action;
use agentiso_core::ports::link::{ConnectionReader, ConnectionWriter, Link, LinkError};
use agentiso_core::ports::records::{Forward, Workspace};
use agentiso_core::{Code, Failure, WorkspaceId};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use self::carry::{carry, gone, prepare};
use self::limits::{ConnectionLimits, ForwardLimit, LogLimit};
use self::towards::require_reachable;
use crate::Engine;
use crate::live_state::locked;
use crate::retry::while_held;

/// Ports below this need privileges.
const LOWEST: u16 = agentiso_core::action::forms::MIN_HOST_PORT;
/// Forwards of one workspace.
const PER_WORKSPACE: usize = 32;
/// Forwards of all workspaces together: each takes a descriptor of the daemon's.
const ALTOGETHER: usize = 512;
/// The pause after a failed accept: without free file descriptors the next one would fail at once, too.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;
/// How long a client waits for a connection into its workspace.
const WAY: Duration = Duration::from_secs(15);

/// The listeners.
pub(crate) struct Forwards {
    own_ports: Vec<u16>,
    /// By port of the host.
    open: Mutex<HashMap<u16, Listening>>,
    places: ConnectionLimits,
}

struct Listening {
    workspace: WorkspaceId,
    to: Option<WorkspaceId>,
    task: JoinHandle<()>,
}

impl Listening {
    /// Ends it; the port is free when this returns.
    async fn end(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Forwards {
    pub fn new(own_ports: Vec<u16>) -> Self {
        Self { own_ports, open: Mutex::default(), places: ConnectionLimits::new() }
    }

    /// Ends the forwards of a workspace that is gone, and those that lead to it.
    pub async fn close(&self, id: WorkspaceId) {
        let theirs: Vec<Listening> = locked(&self.open)
            .extract_if(|_, listening| listening.workspace == id || listening.to == Some(id))
            .map(|(_, listening)| listening)
            .collect();
        for listening in theirs {
            listening.end().await;
        }
    }

    /// Ends all of them.
    pub fn close_all(&self) {
        locked(&self.open).clear();
    }
}

impl Engine {
    /// Forwards a port of the workspace, or of another one, from `host_port`, or from a free port if that is absent. A
    /// forward that exists is returned as it is.
    pub(crate) async fn forward(
        self: &Arc<Self>,
        workspace: &Workspace,
        other: Option<&Workspace>,
        guest_port: u16,
        host_port: Option<u16>,
    ) -> Result<u16, Failure> {
        if guest_port == 0 {
            return Err(Failure::new(Code::InvalidArgument, "guest_port must be 1 to 65535"));
        }
        if let Some(other) = other {
            require_reachable(workspace, other, guest_port)?;
        }
        let (id, to) = (workspace.id, other.map(|other| other.id));
        let existing = self.records.forwards_of(id).await?;
        let same = |forward: &&Forward| {
            forward.guest_port == guest_port
                && forward.to == to
                && host_port.is_none_or(|port| port == forward.host_port)
        };
        if let Some(forward) = existing.iter().find(same) {
            let host_port = forward.host_port;
            if !self.open_ports(id).contains(&host_port) {
                let listener = self.listen(Some(host_port))?;
                self.serve(forward, listener);
            }
            return Ok(host_port);
        }
        if let Some(port) = host_port {
            self.require_usable(port)?;
        }
        room_for_another(existing.len(), locked(&self.forwards.open).len())?;
        let listener = self.listen(host_port)?;
        let host_port = listener.local_addr().map_err(|error| unusable(host_port, &error))?.port();
        let forward = Forward { workspace: id, to, guest_port, host_port, created: Timestamp::now() };
        self.records.insert_forward(&forward).await?;
        self.serve(&forward, listener);
        // Only the first workspace is locked: the other may have been removed before the listener was known.
        let is_recorded = |known: &[Forward]| known.iter().any(|one| one.host_port == host_port);
        if to.is_some() && !is_recorded(&self.records.forwards_of(id).await?) {
            self.end_listener(host_port).await;
            return Err(Failure::new(Code::WorkspaceNotFound, "the other workspace has just been removed"));
        }
        Ok(host_port)
    }

    /// Ends the forward from `host_port`, or all forwards of the guest port if that is absent. Says whether there was
    /// one.
    pub(crate) async fn end_forward(
        &self,
        id: WorkspaceId,
        guest_port: u16,
        host_port: Option<u16>,
    ) -> Result<bool, Failure> {
        let mut ended = self.records.forwards_of(id).await?;
        ended.retain(|forward| {
            forward.guest_port == guest_port && host_port.is_none_or(|port| port == forward.host_port)
        });
        let ports: Vec<u16> = ended.iter().map(|forward| forward.host_port).collect();
        self.records.remove_forwards(id, &ports).await?;
        for forward in &ended {
            self.end_listener(forward.host_port).await;
        }
        Ok(!ended.is_empty())
    }

    async fn end_listener(&self, host_port: u16) {
        let listening = locked(&self.forwards.open).remove(&host_port);
        if let Some(listening) = listening {
            listening.end().await;
        }
    }

    /// The forwards of a workspace whose ports are listened on.
    pub(crate) async fn shown_forwards(&self, id: WorkspaceId) -> Result<Vec<action::Forward>, Failure> {
        let known = self.records.forwards_of(id).await?;
        let open = self.open_ports(id);
        let shown = known.into_iter().filter(|one| open.contains(&one.host_port));
        Ok(shown
            .map(|one| action::Forward {
                host_port: one.host_port,
                guest_port: one.guest_port,
                to: one.to.map(|to| to.to_string()),
            })
            .collect())
    }

    /// Opens the forwards of a workspace after a restart of the daemon. A port that another program has taken
    /// meanwhile is logged and left out.
    pub(crate) async fn open_forwards(self: &Arc<Self>, id: WorkspaceId) {
        let known = match self.records.forwards_of(id).await {
            Ok(known) => known,
            Err(failure) => {
                tracing::warn!(%failure, workspace = %id, "could not read the port forwards of a workspace");
                return;
            }
        };
        for forward in known {
            match self.listen(Some(forward.host_port)) {
                Ok(listener) => self.serve(&forward, listener),
                Err(failure) => {
                    tracing::warn!(%failure, host_port = forward.host_port, "could not open a port forward again")
                }
            }
        }
    }

    fn require_usable(&self, port: u16) -> Result<(), Failure> {
        let reason = if port < LOWEST {
            format!("ports below {LOWEST} are not forwarded")
        } else if self.forwards.own_ports.contains(&port) {
            "it is agentiso's own".to_owned()
        } else {
            return Ok(());
        };
        Err(Failure::new(Code::PortUnavailable, format!("port {port} cannot be used: {reason}"))
            .with_remedy("choose another host_port, or leave it out to get a free one"))
    }

    fn listen(&self, port: Option<u16>) -> Result<TcpListener, Failure> {
        let bind = || -> io::Result<TcpListener> {
            let socket = TcpSocket::new_v4()?;
            // Connections that have just ended do not keep a forward from coming back.
            socket.set_reuseaddr(true)?;
            socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port.unwrap_or(0))))?;
            socket.listen(BACKLOG)
        };
        bind().map_err(|error| unusable(port, &error))
    }

    fn serve(self: &Arc<Self>, forward: &Forward, listener: TcpListener) {
        let Forward { workspace: id, to, guest_port, host_port, .. } = *forward;
        let engine = Arc::downgrade(self);
        let limit = self.forwards.places.limit(id);
        let task = tokio::spawn(accept(listener, limit, move |client| {
            let engine = engine.upgrade();
            async move {
                let Some(engine) = engine else { return };
                if let Err(failure) = engine.carry_to(id, to, guest_port, client).await {
                    tracing::debug!(%failure, guest_port, "a forwarded connection failed");
                }
            }
        }));
        locked(&self.forwards.open).insert(host_port, Listening { workspace: id, to, task });
    }

    async fn carry_to(
        &self,
        id: WorkspaceId,
        to: Option<WorkspaceId>,
        port: u16,
        client: TcpStream,
    ) -> Result<(), Failure> {
        let _at_work = (self.live.use_workspace(id), to.map(|to| self.live.use_workspace(to)));
        prepare(&client);
        let way = async {
            let guest = self.guest(id).await?;
            let address = match to {
                Some(to) => Some(self.address_of(to).await?),
                None => None,
            };
            Ok::<_, Failure>(while_held(|| connect(guest.clone(), address, port)).await?)
        };
        let (source, sink) = tokio::select! {
            way = timeout(WAY, way) => way.map_err(|_| no_way())??,
            () = gone(&client) => return Ok(()),
        };
        carry(&client, source, sink).await
    }

    /// The host ports of a workspace's forwards that are listened on.
    fn open_ports(&self, id: WorkspaceId) -> Vec<u16> {
        let open = locked(&self.forwards.open);
        let theirs = open.iter().filter(|(_, one)| one.workspace == id && !one.task.is_finished());
        theirs.map(|(port, _)| *port).collect()
    }
}

/// Refuses one forward more than a workspace, or all of them, may have.
fn room_for_another(of_workspace: usize, altogether: usize) -> Result<(), Failure> {
    let message = if of_workspace >= PER_WORKSPACE {
        format!("a workspace may have {PER_WORKSPACE} forwarded ports, and this one has {of_workspace}")
    } else if altogether >= ALTOGETHER {
        format!("{altogether} ports are forwarded already, and no more than {ALTOGETHER} may be")
    } else {
        return Ok(());
    };
    Err(Failure::new(Code::QuotaExceeded, message).with_remedy("remove forwards that are no longer needed"))
}

/// Accepts connections for ever. Those for which there is no place are closed at once.
async fn accept<F>(listener: TcpListener, limit: ForwardLimit, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    let (mut full, mut failing) = (LogLimit::default(), LogLimit::default());
    let mut pause = FIRST_PAUSE;
    let port = listener.local_addr().map_or(0, |address| address.port());
    loop {
        while connections.try_join_next().is_some() {}
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                if let Some(left_out) = failing.is_due(Instant::now()) {
                    tracing::warn!(%error, port, left_out, "a forwarded port could not accept a connection");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        pause = FIRST_PAUSE;
        let Some(place) = limit.enter() else {
            if let Some(left_out) = full.is_due(Instant::now()) {
                tracing::warn!(port, left_out, "too many forwarded connections: new ones are closed");
            }
            continue;
        };
        let serving = serve(client);
        connections.spawn(async move {
            serving.await;
            drop(place);
        });
    }
}

type Connection = (Box<dyn ConnectionReader>, Box<dyn ConnectionWriter>);

async fn connect(guest: Link, address: Option<Ipv4Addr>, port: u16) -> Result<Connection, LinkError> {
    match address {
        Some(address) => guest.connect_to(address, port).await,
        None => guest.connect(port).await,
    }
}

fn no_way() -> Failure {
    Failure::new(Code::GuestFailed, format!("the workspace took no connection within {} s", WAY.as_secs()))
}

fn unusable(port: Option<u16>, error: &io::Error) -> Failure {
    let which = port.map_or("a port".to_owned(), |port| format!("port {port}"));
    Failure::new(Code::PortUnavailable, format!("{which} cannot be used: {error}"))
        .with_remedy("choose another host_port, or leave it out to get a free one")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_connection_without_a_place_is_closed_at_once_and_the_next_one_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // One for each workspace, and so for all.
        let limit = ConnectionLimits::of(1, 1).limit(WorkspaceId::from_uuid(uuid::Uuid::from_u128(1)));
        let accepting = tokio::spawn(accept(listener, limit, |mut client| async move {
            let _ = client.write_all(b"in").await;
            let _ = client.read(&mut [0; 1]).await;
        }));
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut word = [0; 2];
        first.read_exact(&mut word).await.unwrap();
        for _ in 0..20 {
            let mut refused = TcpStream::connect(address).await.unwrap();
            assert_eq!(refused.read(&mut word).await.unwrap_or(0), 0);
        }
        drop(first);
        // Its place is free once its end was seen.
        let served = async {
            loop {
                let mut next = TcpStream::connect(address).await.unwrap();
                if next.read(&mut word).await.unwrap_or(0) > 0 {
                    return;
                }
            }
        };
        timeout(Duration::from_secs(60), served).await.unwrap();
        accepting.abort();
    }

    #[test]
    fn only_so_many_ports_are_forwarded() {
        room_for_another(PER_WORKSPACE - 1, ALTOGETHER - 1).unwrap();
        for (own, all) in [(PER_WORKSPACE, PER_WORKSPACE), (0, ALTOGETHER)] {
            assert_eq!(room_for_another(own, all).unwrap_err().code(), Code::QuotaExceeded, "{own} {all}");
        }
    }
}
