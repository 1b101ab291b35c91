//! The daemon's side of the control protocol.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain, WorkspaceId};
use tokio::net::UnixStream;

use super::descriptor;
use super::message::{PolicyChange, Request, Response, VERSION};
use super::transport::{read, write};
use crate::egress::ProxySetup;
use crate::log::LogEntry;
use crate::router::{MachineSpec, MachineStatus};

/// Why a request to the router failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No router answers at this place.
    #[error("could not connect to the router at {path}")]
    Unreachable {
        /// Where its socket should be.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("lost the connection to the router")]
    Lost(#[source] io::Error),
    /// The router sent something else than an answer to the request.
    #[error("the router sent an unexpected answer")]
    Unexpected,
    /// The router refused the request. Nothing was changed.
    #[error("{message}")]
    Refused {
        /// The stable code.
        code: Code,
        /// What failed and why.
        message: String,
        /// What to do next.
        remedy: Option<String>,
    },
}

impl Explain for ControlError {
    fn code(&self) -> Code {
        match self {
            Self::Unreachable { .. } | Self::Lost(_) => Code::NetworkUnavailable,
            Self::Unexpected => Code::ProtocolViolation,
            Self::Refused { code, .. } => *code,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } | Self::Lost(_) => {
                Some("start the router, and attach the machines again".to_owned())
            }
            Self::Unexpected => None,
            Self::Refused { remedy, .. } => remedy.clone(),
        }
    }
}

/// A connection to a router.
#[derive(Debug)]
pub struct RouterClient {
    stream: UnixStream,
    pid: u32,
    instance: String,
    pool: String,
    backend: String,
}

impl RouterClient {
    /// Connects to the router that has its control socket at this path.
    pub async fn connect(path: &Path) -> Result<Self, ControlError> {
        let connected = UnixStream::connect(path).await;
        let stream =
            connected.map_err(|source| ControlError::Unreachable { path: path.to_owned(), source })?;
        let (instance, pool, backend) = Default::default();
        let mut client = Self { stream, pid: 0, instance, pool, backend };
        match client.request(&Request::Hello { oldest: VERSION, newest: VERSION }).await? {
            Response::Hello { pid, instance, pool, backend, .. } => {
                client.pid = pid;
                (client.instance, client.pool, client.backend) = (instance, pool, backend);
            }
            _ => return Err(ControlError::Unexpected),
        }
        Ok(client)
    }

    /// The router's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Identifies this run of the router.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The range that the router was started with.
    pub fn pool(&self) -> &str {
        &self.pool
    }

    /// The router's back end: `user` or `bridge`.
    pub fn backend(&self) -> &str {
        &self.backend
    }

    /// Attaches a machine with its policy; `socket` is the router's end of its card. A router with TAP devices returns
    /// the file of one, for QEMU, and closes the socket.
    pub async fn attach(
        &mut self,
        machine: MachineSpec,
        socket: OwnedFd,
    ) -> Result<Option<OwnedFd>, ControlError> {
        let request = Request::Attach { machine: Box::new(machine) };
        write(&mut self.stream, &request).await.map_err(ControlError::Lost)?;
        descriptor::send(&self.stream, &socket).await.map_err(ControlError::Lost)?;
        match self.answer().await? {
            Response::Done => Ok(None),
            Response::Device => descriptor::receive(&self.stream).await.map(Some).map_err(ControlError::Lost),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Ends the router at this path, whatever version it is of.
    pub async fn end(path: &Path) -> Result<(), ControlError> {
        let connected = UnixStream::connect(path).await;
        let mut stream =
            connected.map_err(|source| ControlError::Unreachable { path: path.to_owned(), source })?;
        write(&mut stream, &Request::Stop).await.map_err(ControlError::Lost)?;
        // The end of the stream is the end of the router.
        while read::<Response>(&mut stream).await.map_err(ControlError::Lost)?.is_some() {}
        Ok(())
    }

    /// Detaches a machine.
    pub async fn detach(&mut self, workspace: WorkspaceId) -> Result<(), ControlError> {
        self.done(&Request::Detach { workspace }).await
    }

    /// Sets policies, all at the same instant.
    pub async fn set_policies(&mut self, changes: Vec<PolicyChange>) -> Result<(), ControlError> {
        self.done(&Request::SetPolicies { changes }).await
    }

    /// Sets the authority and the secrets that the egress proxy uses for a workspace.
    pub async fn set_proxy(&mut self, workspace: WorkspaceId, proxy: ProxySetup) -> Result<(), ControlError> {
        self.done(&Request::SetProxy { workspace, proxy: Box::new(proxy) }).await
    }

    /// Lists the attached machines.
    pub async fn machines(&mut self) -> Result<Vec<MachineStatus>, ControlError> {
        match self.request(&Request::Machines).await? {
            Response::Machines { machines } => Ok(machines),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Reads the log.
    pub async fn log(&mut self, from: u64, limit: usize) -> Result<Vec<LogEntry>, ControlError> {
        match self.request(&Request::Log { from, limit }).await? {
            Response::Log { entries } => Ok(entries),
            _ => Err(ControlError::Unexpected),
        }
    }

    /// Reads the log and everything that is added to it.
    pub async fn subscribe(mut self, from: u64) -> Result<Subscription, ControlError> {
        write(&mut self.stream, &Request::Subscribe { from }).await.map_err(ControlError::Lost)?;
        Ok(Subscription { stream: self.stream })
    }

    /// Ends the router. All machines lose their network.
    pub async fn stop(mut self) -> Result<(), ControlError> {
        self.done(&Request::Stop).await
    }

    async fn done(&mut self, request: &Request) -> Result<(), ControlError> {
        match self.request(request).await? {
            Response::Done => Ok(()),
            _ => Err(ControlError::Unexpected),
        }
    }

    async fn request(&mut self, request: &Request) -> Result<Response, ControlError> {
        write(&mut self.stream, request).await.map_err(ControlError::Lost)?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Response, ControlError> {
        match read(&mut self.stream).await.map_err(ControlError::Lost)? {
            Some(Response::Error { code, message, remedy }) => {
                Err(ControlError::Refused { code, message, remedy })
            }
            Some(response) => Ok(response),
            None => Err(ControlError::Lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// The log as it grows.
#[derive(Debug)]
pub struct Subscription {
    stream: UnixStream,
}

impl Subscription {
    /// The next entry, or nothing when the router has ended. A gap in the numbers means that entries were left out because
    /// this subscriber was too slow.
    pub async fn next(&mut self) -> Result<Option<LogEntry>, ControlError> {
        loop {
            match read(&mut self.stream).await.map_err(ControlError::Lost)? {
                Some(Response::Entry { entry }) => return Ok(Some(entry)),
                Some(Response::Missed { .. }) => {}
                Some(_) => return Err(ControlError::Unexpected),
                None => return Ok(None),
            }
        }
    }
}
