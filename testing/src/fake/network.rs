//! A network without machines: a log that tests write, and a status that they set.

use std::sync::{Arc, Mutex};

use agentiso_core::ports::network::{Network, NetworkBackend, NetworkLogFilter, NetworkStatus};
use agentiso_core::{Code, Failure, NetworkEntry};
use async_trait::async_trait;
use tokio::sync::watch;

use super::faults::Faults;
use super::machine::locked;

/// Calls of a network that can be told to fail or to hang.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "each is the method of the port that has its name")]
pub enum NetworkCall {
    Status,
    Log,
    LoggedAfter,
}

/// A network in memory. Cheap to clone: clones are the same network.
#[derive(Clone)]
pub struct FakeNetwork {
    inner: Arc<Inner>,
}

struct Inner {
    status: Mutex<NetworkStatus>,
    log: Mutex<Vec<NetworkEntry>>,
    newest: watch::Sender<u64>,
    faults: Faults<NetworkCall, Code>,
}

impl Default for FakeNetwork {
    fn default() -> Self {
        let status = NetworkStatus {
            backend: NetworkBackend::User,
            pool: "10.99.0.0/16".to_owned(),
            gateway: std::net::Ipv4Addr::new(10, 99, 0, 1),
            router: None,
            machines: 0,
            problem: None,
        };
        let inner = Inner {
            status: Mutex::new(status),
            log: Mutex::default(),
            newest: watch::Sender::new(0),
            faults: Faults::default(),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl FakeNetwork {
    /// What calls are told to do.
    pub fn faults(&self) -> &Faults<NetworkCall, Code> {
        &self.inner.faults
    }

    /// Changes the status.
    pub fn set_status(&self, status: NetworkStatus) {
        *locked(&self.inner.status) = status;
    }

    /// Adds an entry to the log, with the next number.
    pub fn append(&self, entry: NetworkEntry) {
        let mut log = locked(&self.inner.log);
        let sequence = log.len() as u64 + 1;
        log.push(NetworkEntry { sequence, ..entry });
        self.inner.newest.send_replace(sequence);
    }

    async fn pass(&self, call: NetworkCall) -> Result<(), Failure> {
        let passed = self.inner.faults.pass(call).await;
        passed.map_err(|code| Failure::new(code, format!("{call:?} was made to fail")))
    }
}

#[async_trait]
impl Network for FakeNetwork {
    async fn status(&self) -> Result<NetworkStatus, Failure> {
        self.pass(NetworkCall::Status).await?;
        Ok(locked(&self.inner.status).clone())
    }

    async fn log(&self, filter: &NetworkLogFilter) -> Result<Vec<NetworkEntry>, Failure> {
        self.pass(NetworkCall::Log).await?;
        let log = locked(&self.inner.log);
        let wanted = log.iter().filter(|entry| filter.workspace.is_none_or(|id| entry.workspace == id));
        Ok(match filter.after {
            Some(after) => {
                wanted.filter(|entry| entry.sequence > after).take(filter.limit).cloned().collect()
            }
            None => {
                let all: Vec<NetworkEntry> = wanted.cloned().collect();
                all[all.len().saturating_sub(filter.limit)..].to_vec()
            }
        })
    }

    async fn logged_after(&self, sequence: u64) -> Result<(), Failure> {
        self.pass(NetworkCall::LoggedAfter).await?;
        // The sender is part of the network, so it is there as long as somebody waits.
        let _ = self.inner.newest.subscribe().wait_for(|&newest| newest > sequence).await;
        Ok(())
    }
}
