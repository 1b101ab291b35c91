//! The state of the network, and the log of connections.

use std::sync::PoisonError;

use agentiso_core::ports::network::{Network, NetworkBackend, NetworkLogFilter, NetworkStatus};
use agentiso_core::{Code, Failure, NetworkEntry};
use async_trait::async_trait;

use crate::network::RouterKind;
use crate::workspaces::Workspaces;

#[async_trait]
impl Network for Workspaces {
    async fn status(&self) -> Result<NetworkStatus, Failure> {
        let router = self.net.machines().await?;
        let problem = self.net.check().err().map(|failure| failure.to_string());
        let upkeep = self.net.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(NetworkStatus {
            backend: match self.net.kind() {
                RouterKind::User => NetworkBackend::User,
                RouterKind::Bridge => NetworkBackend::Bridge,
            },
            pool: self.net.pool.range().to_string(),
            gateway: self.net.pool.gateway(),
            machines: router.as_ref().map_or(0, |(_, machines)| machines.len()),
            router: router.map(|(pid, _)| pid),
            problem: problem.or(upkeep),
        })
    }

    async fn log(&self, filter: &NetworkLogFilter) -> Result<Vec<NetworkEntry>, Failure> {
        let filter = *filter;
        Ok(self.meta.read_async(move |read| read.network_log(&filter)).await?)
    }

    async fn logged_after(&self, sequence: u64) -> Result<(), Failure> {
        let ended = |_| Failure::new(Code::Internal, "the log of the network is no longer read");
        self.net.newest.subscribe().wait_for(|&newest| newest > sequence).await.map(drop).map_err(ended)
    }
}
