//! Port forwards: ports of the host that lead into workspaces.
//!
//! A forward is a listener on 127.0.0.1 and, for each connection, a stream through the guest link: it needs no network
//! in the workspace. It belongs to the workspace, not to its machine: while no machine runs, connections are closed at
//! once. Its record and its listener are changed together, by actions that hold the workspace's lock. A listener that
//! could not be opened after a restart of the daemon is opened when the forward is requested again.

mod carry;
mod limits;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentiso_core::ports::link::{ConnectionReader, ConnectionWriter, Link, LinkError};
use agentiso_core::ports::records::Forward;
use agentiso_core::{Code, Failure, WorkspaceId};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use self::carry::{carry, gone, prepare};
use self::limits::{ConnectionLimits, ForwardLimit, LogLimit};
use crate::Engine;
use crate::live_state::locked;
use crate::retry::while_held;

/// Ports below this need privileges.
const LOWEST: u16 = 1024;
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

    /// Ends the forwards of a workspace that is gone.
    pub async fn close(&self, id: WorkspaceId) {
        let theirs: Vec<Listening> = locked(&self.open)
            .extract_if(|_, listening| listening.workspace == id)
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
    /// Forwards a port of the workspace from `host_port`, or from a free port if that is absent. A forward that exists
    /// is returned as it is.
    pub(crate) async fn forward(
        self: &Arc<Self>,
        id: WorkspaceId,
        guest_port: u16,
        host_port: Option<u16>,
    ) -> Result<u16, Failure> {
        if guest_port == 0 {
            return Err(Failure::new(Code::InvalidArgument, "guest_port must be 1 to 65535"));
        }
        let existing = self.records.forwards_of(id).await?;
        let same = |forward: &&Forward| {
            forward.guest_port == guest_port && host_port.is_none_or(|port| port == forward.host_port)
        };
        if let Some(&Forward { host_port, .. }) = existing.iter().find(same) {
            if !self.open_ports(id).contains(&host_port) {
                let listener = self.listen(Some(host_port))?;
                self.serve(id, guest_port, host_port, listener);
            }
            return Ok(host_port);
        }
        if let Some(port) = host_port {
            self.require_usable(port)?;
        }
        room_for_another(existing.len(), locked(&self.forwards.open).len())?;
        let listener = self.listen(host_port)?;
        let host_port = listener.local_addr().map_err(|error| unusable(host_port, &error))?.port();
        let forward = Forward { workspace: id, guest_port, host_port, created: Timestamp::now() };
        self.records.insert_forward(&forward).await?;
        self.serve(id, guest_port, host_port, listener);
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
            let listening = locked(&self.forwards.open).remove(&forward.host_port);
            if let Some(listening) = listening {
                listening.end().await;
            }
        }
        Ok(!ended.is_empty())
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
        for Forward { guest_port, host_port, .. } in known {
            match self.listen(Some(host_port)) {
                Ok(listener) => self.serve(id, guest_port, host_port, listener),
                Err(failure) => tracing::warn!(%failure, host_port, "could not open a port forward again"),
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

    fn serve(self: &Arc<Self>, id: WorkspaceId, guest_port: u16, host_port: u16, listener: TcpListener) {
        let engine = Arc::downgrade(self);
        let limit = self.forwards.places.limit(id);
        let task = tokio::spawn(accept(listener, limit, move |client| {
            let engine = engine.upgrade();
            async move {
                let Some(engine) = engine else { return };
                if let Err(failure) = engine.carry_to(id, guest_port, client).await {
                    tracing::debug!(%failure, guest_port, "a forwarded connection failed");
                }
            }
        }));
        locked(&self.forwards.open).insert(host_port, Listening { workspace: id, task });
    }

    async fn carry_to(&self, id: WorkspaceId, port: u16, client: TcpStream) -> Result<(), Failure> {
        let _at_work = self.live.use_workspace(id);
        prepare(&client);
        let way = async {
            let guest = self.guest(id).await?;
            Ok::<_, Failure>(while_held(|| connect(guest.clone(), port)).await?)
        };
        let (source, sink) = tokio::select! {
            way = timeout(WAY, way) => way.map_err(|_| no_way())??,
            () = gone(&client) => return Ok(()),
        };
        carry(&client, source, sink).await
    }

    /// The host ports of a workspace's forwards that are listened on.
    pub(crate) fn open_ports(&self, id: WorkspaceId) -> Vec<u16> {
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

async fn connect(guest: Link, port: u16) -> Result<Connection, LinkError> {
    guest.connect(port).await
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
