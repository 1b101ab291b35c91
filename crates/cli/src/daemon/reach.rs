//! Connecting to the daemon, which is started if it is not running.
#![expect(clippy::disallowed_methods, reason = "in commands, which do one thing at a time")]

use std::path::Path;

use agentiso_client::Client;
use agentiso_config::paths::Paths;
use agentiso_core::action::ServerStatus;
use agentiso_core::{Code, Failure};

use super::socket::SocketPath;
use super::spawn::spawn;

/// The client name of our own commands.
const NAME: &str = concat!("agentiso/", env!("CARGO_PKG_VERSION"));

/// A client of the daemon, which is started if it is not running.
pub async fn client(paths: &Paths) -> Result<Client, Failure> {
    client_with_metrics(paths, None).await
}

/// The same; a daemon that has to be started has its metrics on this port.
pub async fn client_with_metrics(paths: &Paths, metrics_port: Option<u16>) -> Result<Client, Failure> {
    if let Some(client) = client_if_running(paths).await? {
        if paths.config_named {
            require_same_config(&client, paths).await?;
        }
        return Ok(client);
    }
    spawn(paths, metrics_port).await?;
    match client_if_running(paths).await? {
        Some(client) => Ok(client),
        None => {
            Err(Failure::new(Code::DaemonUnavailable, "the daemon started, but does not accept connections")
                .with_remedy("agentiso daemon status shows the path of its log"))
        }
    }
}

/// Refuses a configuration file that differs from the one the running daemon uses.
async fn require_same_config(client: &Client, paths: &Paths) -> Result<(), Failure> {
    let read = client.act(&ServerStatus {}).await?.config;
    let same = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    // An older daemon does not report it.
    if read.is_empty() || same(Path::new(&read)) == same(&paths.config_file) {
        return Ok(());
    }
    let named = paths.config_file.display();
    let message = format!("the running daemon uses {read}, so {named} would have no effect");
    Err(Failure::new(Code::InvalidConfig, message).with_remedy(format!(
        "restart the daemon with it: agentiso --config {named} daemon restart; or omit --config and AGENTISO_CONFIG"
    )))
}

/// A client of the daemon, if one runs.
pub async fn client_if_running(paths: &Paths) -> Result<Option<Client>, Failure> {
    let socket = match SocketPath::of(&paths.run_dir) {
        Ok(socket) => socket,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("{}: {error}", paths.run_dir.display());
            return Err(Failure::new(Code::of_io(&error), message));
        }
    };
    let client = Client::new(socket.path(), NAME);
    if !client.is_alive().await {
        return Ok(None);
    }
    // The path through an open directory is good for as long as the directory is open: for ever, in a command.
    std::mem::forget(socket);
    Ok(Some(client))
}
