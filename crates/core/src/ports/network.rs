//! The network port: the state of the network of workspaces, and the log of their connections.
//!
//! Which workspace may reach what is set through the host ([`set_network`](super::host::WorkspaceHost::set_network)).

use std::net::Ipv4Addr;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Failure, NetworkEntry, WorkspaceId};

/// How workspaces are connected.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkBackend {
    /// A router in user space, which needs no privileges.
    User,
    /// A bridge in a network namespace, which needs root.
    Bridge,
}

/// The state of the network.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct NetworkStatus {
    /// How workspaces are connected.
    pub backend: NetworkBackend,
    /// The range their addresses are from.
    pub pool: String,
    /// The address of the router and resolver, as workspaces see it.
    pub gateway: Ipv4Addr,
    /// Process id of the router; absent while no workspace needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<u32>,
    /// Number of machines that are attached to it.
    pub machines: usize,
    /// Why workspaces have no network at the moment, although they should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Which entries of the log are wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NetworkLogFilter {
    /// Only those of one workspace.
    pub workspace: Option<WorkspaceId>,
    /// The oldest entries with higher numbers than this. Default: the newest entries.
    pub after: Option<u64>,
    /// How many at most.
    pub limit: usize,
}

/// The network of an installation.
#[async_trait]
pub trait Network: Send + Sync {
    /// Its present state. Starts nothing.
    async fn status(&self) -> Result<NetworkStatus, Failure>;

    /// Reads the log, in the order of the numbers. The log is bounded: old entries are removed.
    async fn log(&self, filter: &NetworkLogFilter) -> Result<Vec<NetworkEntry>, Failure>;

    /// Waits until the log has an entry with a higher number than this.
    async fn logged_after(&self, sequence: u64) -> Result<(), Failure>;
}
