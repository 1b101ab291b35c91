//! The network of an installation as a port of the engine.

use std::time::Duration;

use agentiso_core::ports::network::{Network, NetworkBackend, NetworkLogFilter, NetworkStatus};
use agentiso_core::{Failure, NetworkEntry};
use async_trait::async_trait;

use crate::workspaces::Workspaces;

/// How often the log is looked at for new entries.
const LOOK: Duration = Duration::from_secs(1);

#[async_trait]
impl Network for Workspaces {
    async fn status(&self) -> Result<NetworkStatus, Failure> {
        Ok(NetworkStatus {
            backend: NetworkBackend::User,
            pool: "10.99.0.0/16".to_owned(),
            gateway: std::net::Ipv4Addr::new(10, 99, 0, 1),
            router: None,
            machines: 0,
            problem: None,
        })
    }

    async fn log(&self, filter: &NetworkLogFilter) -> Result<Vec<NetworkEntry>, Failure> {
        let filter = *filter;
        Ok(self.meta().read_async(move |read| read.network_log(&filter)).await?)
    }

    async fn logged_after(&self, sequence: u64) -> Result<(), Failure> {
        while self.meta().read(|read| read.newest_network_entry())? <= sequence {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}
