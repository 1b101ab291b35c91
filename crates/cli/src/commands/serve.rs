//! `agentiso serve`: an MCP server on standard input and output, whose backend is the daemon.

use std::time::Duration;

use agentiso_api::mcp::{ServeError, Server, serve_stdio};
use agentiso_api::{Answer, Backend, Call, catalogue};
use agentiso_client::Client;
use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args;
use crate::daemon::{client, client_with_metrics};
use crate::output::Output;

/// How soon we reconnect to a daemon that was restarted.
const COME_BACK: Duration = Duration::from_secs(2);

/// Speaks MCP over standard input and output until the client ends it.
pub async fn serve(here: &Paths, flags: args::Serve, _: Output) -> Result<u8, Failure> {
    let daemon = client_with_metrics(here, flags.metrics_port).await?;
    let session = daemon.start_session(true).await?;
    let daemon = daemon.with_token(session.token.into_exposed());
    let presence = tokio::spawn(stay(daemon.clone()));
    let server = Server::new(Lasting { daemon: daemon.clone(), paths: here.clone() }, flags.tools);
    let served = tokio::select! {
        served = serve_stdio(server) => served,
        () = told_to_end() => Ok(()),
    };
    presence.abort();
    // Its workspaces are left without an owner, and another session can adopt them. A daemon that is gone ends it itself.
    let _ = daemon.end_session().await;
    served.map(|()| 0).map_err(|error: ServeError| error.into())
}

/// Waits for a signal that ends this process: the session ends as if the client had closed the connection.
async fn told_to_end() {
    let listen = |kind| signal(kind).ok();
    let (mut term, mut int, mut hangup) =
        (listen(SignalKind::terminate()), listen(SignalKind::interrupt()), listen(SignalKind::hangup()));
    let next = |signal: &mut Option<Signal>| {
        let mut signal = signal.take();
        async move {
            match &mut signal {
                Some(signal) => drop(signal.recv().await),
                None => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        () = next(&mut term) => {}
        () = next(&mut int) => {}
        () = next(&mut hangup) => {}
    }
}

/// Keeps the session alive. If this process is killed, the session soon ends.
async fn stay(daemon: Client) {
    loop {
        // It ends with the daemon, and the next daemon must be told too.
        let _ = daemon.stay_present().await;
        tokio::time::sleep(COME_BACK).await;
    }
}

/// A daemon that is started again if it is not running when it is needed.
#[derive(Clone)]
struct Lasting {
    daemon: Client,
    paths: Paths,
}

impl Lasting {
    /// Starts the daemon if it is not running: nothing was sent to it yet.
    async fn revive(&self) -> Result<(), Failure> {
        if self.daemon.is_alive().await {
            return Ok(());
        }
        client(&self.paths).await.map(drop)
    }
}

impl Backend for Lasting {
    async fn call(&self, call: Call) -> Result<Answer, Failure> {
        self.call_for("mcp", call).await
    }

    async fn call_for(&self, name: &str, call: Call) -> Result<Answer, Failure> {
        self.revive().await?;
        let daemon = self.daemon.clone().with_name(name);
        match daemon.call(call.action, &call.arguments, call.progress.as_ref()).await {
            Err(failure) if failure.code() == Code::DaemonUnavailable => {
                // The next call finds a daemon. This one may have been performed; only its caller can find out.
                let _ = self.revive().await;
                Err(failure)
            }
            Err(failure) => Err(failure),
            Ok(structured) => Ok(Answer { text: text(call.action, &structured)?, structured }),
        }
    }
}

/// An outcome as text.
fn text(action: &str, structured: &Value) -> Result<String, Failure> {
    match catalogue::find(action) {
        Some(entry) => entry.text(structured),
        None => Ok(structured.to_string()),
    }
}
