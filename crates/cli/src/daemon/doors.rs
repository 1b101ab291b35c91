//! What the daemon listens on: its socket, and the configured ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentiso_api::http::{Door, McpDoor, State, Token, metrics_router, router};
use agentiso_api::mcp::ToolSet;
use agentiso_api::{Bodies, EngineBackend};
use agentiso_core::{Code, Failure};
use agentiso_engine::Engine;
use agentiso_runtime::Installation;
use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::limited::Limited;
use super::serve::{Patience, serve};
use super::token::token;

/// How long running requests may take to end when the daemon ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// How many connections are served at once; others wait. The user's own processes may have many.
const AT_THE_SOCKET: usize = 4096;
const AT_THE_NETWORK: usize = 256;
/// How many of the connections from the network may be unauthenticated.
const STRANGERS: usize = 64;

/// The user's own programs may read a response slowly, for example when it is shown a page at a time.
const OWN: Patience = Patience { headers: HEADERS, answer: Duration::from_secs(300) };
const FOREIGN: Patience = Patience { headers: HEADERS, answer: Duration::from_secs(60) };
const HEADERS: Duration = Duration::from_secs(15);

/// Everything the daemon listens on.
pub(super) struct Doors {
    pub socket: UnixListener,
    pub network: Option<(TcpListener, Token)>,
    pub metrics: Option<TcpListener>,
}

impl Doors {
    /// Opens what is configured besides the socket.
    pub async fn open(
        installation: &Installation,
        socket: UnixListener,
        metrics_port: Option<u16>,
    ) -> Result<Self, Failure> {
        let config = &installation.config.daemon;
        let network = match (config.listen, &config.token_file) {
            (Some(address), Some(file)) => Some((bind(address).await?, token(file)?)),
            _ => None,
        };
        let port = metrics_port.unwrap_or(config.metrics_port);
        let metrics = match port {
            0 => None,
            port => Some(bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?),
        };
        Ok(Self { socket, network, metrics })
    }

    /// The ports that are ours.
    pub fn own_ports(&self) -> Vec<u16> {
        let network = self.network.as_ref().map(|(listener, _)| listener);
        let listeners = [network, self.metrics.as_ref()];
        listeners.into_iter().flatten().filter_map(|one| Some(one.local_addr().ok()?.port())).collect()
    }

    /// Serves until it is told to end.
    pub async fn serve(
        self,
        engine: &Arc<Engine>,
        shutdown: mpsc::Sender<bool>,
        mut ending: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        let names: Vec<String> = self
            .network
            .as_ref()
            .and_then(|(listener, _)| listener.local_addr().ok())
            .map(|address| address.ip().to_string())
            .into_iter()
            .collect();
        let mcp = McpDoor::new(&names, ToolSet::Standard);
        let backend = EngineBackend::shared(engine);
        let state = State {
            backend: Arc::clone(&backend),
            door: Door::Socket,
            mcp: mcp.clone(),
            shutdown,
            bodies: Bodies::default(),
            ending: ending.clone(),
        };
        let mut served = JoinSet::new();
        let until = |mut ending: watch::Receiver<bool>| async move {
            let _ = ending.wait_for(|ending| *ending).await;
        };
        if let Some((listener, token)) = self.network {
            let state = State { door: Door::Network { token, names }, ..state.clone() };
            serve_tcp(&mut served, listener, router(state), until(ending.clone()));
        }
        let (app, end) = (router(state), until(ending.clone()));
        let socket = Limited::new(self.socket, AT_THE_SOCKET);
        served.spawn(serve(socket, app, OWN, end));
        if let Some(listener) = self.metrics {
            serve_tcp(&mut served, listener, metrics_router(backend), until(ending.clone()));
        }
        let _ = ending.wait_for(|ending| *ending).await;
        mcp.close();
        // Streams without an end would keep the daemon from ending.
        let _ = tokio::time::timeout(FAREWELL, async { while served.join_next().await.is_some() {} }).await;
        Ok(())
    }
}

fn serve_tcp(
    served: &mut JoinSet<()>,
    listener: TcpListener,
    app: Router,
    end: impl Future<Output = ()> + Send + 'static,
) {
    let listener = Limited::with_anteroom(listener, AT_THE_NETWORK, STRANGERS);
    served.spawn(serve(listener, app, FOREIGN, end));
}

async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::new(Code::PortUnavailable, format!("cannot listen on {address}: {error}"))
            .with_remedy("choose another port in the [daemon] section of the configuration")
    })
}
