//! Port forwards: ports of the host that lead into workspaces.
//!
//! A forward is a listener on 127.0.0.1 and, for each connection, a stream through the guest link: it needs no network
//! in the workspace. It belongs to the workspace, not to its machine: while no machine runs, connections are closed at
//! once. Its row in the database and its listener are changed together, by actions that have their turn on the
//! workspace; a listener that could not be opened again after a restart of the daemon is opened when the forward is
//! asked for again.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_meta::Forward;
use agentiso_runtime::guest::{ConnectionReader, ConnectionWriter, Guest};
use jiff::Timestamp;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::Engine;
use crate::held::when_free;
use crate::rooms::locked;

/// Ports below this need rights nobody should have.
const LOWEST: u16 = 1024;
/// Connections of one forward at once.
const CONNECTIONS: usize = 256;
/// Forwards of one workspace.
const PER_WORKSPACE: usize = 32;
/// Forwards of all workspaces together: each takes a descriptor of the daemon's.
const ALTOGETHER: usize = 512;
/// After an accept that failed: without descriptors the next one fails at once, too.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;
/// Bytes carried at once.
const BUFFER: usize = 64 * 1024;

/// The listeners.
pub(crate) struct Forwards {
    own_ports: Vec<u16>,
    /// By port of the host.
    open: Mutex<HashMap<u16, Listening>>,
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
        Self { own_ports, open: Mutex::default() }
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
        let existing = self.meta().read(|read| read.forwards_of(id))?;
        let same = |forward: &&Forward| {
            forward.guest_port == guest_port && host_port.is_none_or(|port| port == forward.host_port)
        };
        if let Some(&Forward { host_port, .. }) = existing.iter().find(same) {
            if !locked(&self.forwards.open).contains_key(&host_port) {
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
        self.meta().write(|tx| tx.insert_forward(&forward))?;
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
        let mut ended = self.meta().read(|read| read.forwards_of(id))?;
        ended.retain(|forward| {
            forward.guest_port == guest_port && host_port.is_none_or(|port| port == forward.host_port)
        });
        self.meta().write(|tx| {
            ended.iter().try_for_each(|forward| tx.remove_forward(id, forward.host_port).map(drop))
        })?;
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
        let known = match self.meta().read(|read| read.forwards_of(id)) {
            Ok(known) => known,
            Err(error) => {
                tracing::warn!(%error, workspace = %id, "could not read the port forwards of a workspace");
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
        let task = tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(CONNECTIONS));
            let mut connections = tokio::task::JoinSet::new();
            let mut pause = FIRST_PAUSE;
            loop {
                while connections.try_join_next().is_some() {}
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
                let client = match listener.accept().await {
                    Ok((client, _)) => {
                        pause = FIRST_PAUSE;
                        client
                    }
                    Err(error) => {
                        tracing::warn!(%error, host_port, "a forwarded port could not accept a connection");
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_PAUSE);
                        continue;
                    }
                };
                let Some(engine) = engine.upgrade() else { return };
                connections.spawn(async move {
                    if let Err(failure) = engine.carry_to(id, guest_port, client).await {
                        tracing::debug!(%failure, guest_port, "a forwarded connection failed");
                    }
                    drop(place);
                });
            }
        });
        locked(&self.forwards.open).insert(host_port, Listening { workspace: id, task });
    }

    async fn carry_to(&self, id: WorkspaceId, port: u16, client: TcpStream) -> Result<(), Failure> {
        let _at_work = self.rooms.work_on(id);
        let guest = self.guest(id).await?;
        carry(&guest, port, client).await
    }

    /// The ports of the host that lead into a workspace and are listened on.
    pub(crate) fn open_ports(&self, id: WorkspaceId) -> Vec<u16> {
        let open = locked(&self.forwards.open);
        open.iter().filter(|(_, listening)| listening.workspace == id).map(|(port, _)| *port).collect()
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
    Err(Failure::new(Code::QuotaExceeded, message)
        .with_remedy("remove forwards that are not needed any more"))
}

async fn carry(guest: &Guest, port: u16, client: TcpStream) -> Result<(), Failure> {
    let (reader, writer) = when_free(|| {
        let guest = guest.clone();
        async move { guest.connect(port).await }
    })
    .await?;
    // Small messages must not wait for more.
    let _ = client.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    // Each direction ends by itself: one side may have said everything and still listen.
    let (sent, received) = tokio::join!(into_guest(from_client, writer), out_of_guest(reader, to_client));
    sent.and(received)
}

async fn into_guest(mut client: OwnedReadHalf, mut guest: ConnectionWriter) -> Result<(), Failure> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match client.read(&mut buffer).await {
            Ok(0) => {
                guest.finish();
                return Ok(());
            }
            Ok(count) => guest.write(&buffer[..count]).await?,
            Err(error) => {
                return Err(Failure::new(Code::Io, format!("a forwarded connection broke: {error}")));
            }
        }
    }
}

async fn out_of_guest(mut guest: ConnectionReader, mut client: OwnedWriteHalf) -> Result<(), Failure> {
    let broke = |error: io::Error| Failure::new(Code::Io, format!("a forwarded connection broke: {error}"));
    while let Some(bytes) = guest.next().await? {
        client.write_all(&bytes).await.map_err(broke)?;
    }
    client.shutdown().await.map_err(broke)
}

fn unusable(port: Option<u16>, error: &io::Error) -> Failure {
    let which = port.map_or("a port".to_owned(), |port| format!("port {port}"));
    Failure::new(Code::PortUnavailable, format!("{which} cannot be used: {error}"))
        .with_remedy("choose another host_port, or leave it out to get a free one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_ports_are_forwarded() {
        room_for_another(PER_WORKSPACE - 1, ALTOGETHER - 1).unwrap();
        for (own, all) in [(PER_WORKSPACE, PER_WORKSPACE), (0, ALTOGETHER)] {
            assert_eq!(room_for_another(own, all).unwrap_err().code(), Code::QuotaExceeded, "{own} {all}");
        }
    }
}
