//! The router's side of the control protocol.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_core::{Code, Failure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::message::{Request, Response, VERSION};
use super::transport::{read, write};
use crate::router::Router;

/// The socket on which a router is controlled. Holding it means being the only router of the installation.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    _lock: File,
}

impl ControlSocket {
    /// Creates the socket, in a directory that is closed to other users. Fails with `AddrInUse` if a router has it; a
    /// socket that a dead router left is replaced.
    #[expect(clippy::disallowed_methods, reason = "runs once, before the router serves")]
    pub fn bind(path: &Path) -> io::Result<Self> {
        let lock = File::options().create(true).append(true).open(path.with_extension("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => {
                io::Error::new(io::ErrorKind::AddrInUse, "another router of this installation is running")
            }
            other => other.into(),
        })?;
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        Ok(Self { listener, path: path.to_owned(), _lock: lock })
    }
}

impl Drop for ControlSocket {
    #[expect(clippy::disallowed_methods, reason = "the router is ending")]
    fn drop(&mut self) {
        // Best effort: the next router replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Runs a router until a daemon asks it to stop. Its machines go on while no daemon is connected.
pub async fn run_router(socket: ControlSocket, router: Router) -> io::Result<()> {
    allow_many_files();
    let router = Arc::new(router);
    let stop = Arc::new(Notify::new());
    let mut clients = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.listener.accept() => {
                let (stream, _) = accepted?;
                let (router, stop) = (Arc::clone(&router), Arc::clone(&stop));
                clients.spawn(async move {
                    if let Err(error) = serve(stream, &router, &stop).await {
                        tracing::warn!(%error, "a client of the router was disconnected");
                    }
                });
            }
            Some(_) = clients.join_next() => {}
            () = stop.notified() => {
                clients.shutdown().await;
                return Ok(());
            }
        }
    }
}

/// Every flow has a socket; the usual limit is for programs with few.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}

async fn serve(mut stream: UnixStream, router: &Router, stop: &Notify) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    if user != 0 && user != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let greeting = match read(&mut stream).await? {
        Some(Request::Hello { oldest, newest }) => greet(oldest, newest),
        Some(_) => Err(Failure::new(Code::ProtocolViolation, "the first message must be a greeting")),
        None => return Ok(()),
    };
    let is_welcome = greeting.is_ok();
    write(&mut stream, &greeting.unwrap_or_else(refusal)).await?;
    if !is_welcome {
        return Ok(());
    }
    while let Some(request) = read(&mut stream).await? {
        if let Request::Subscribe { from } = request {
            return follow(&mut stream, router, from).await;
        }
        let is_stop = request == Request::Stop;
        let response = carry_out(router, request).unwrap_or_else(refusal);
        write(&mut stream, &response).await?;
        if is_stop {
            stop.notify_one();
            return Ok(());
        }
    }
    Ok(())
}

fn greet(oldest: u32, newest: u32) -> Result<Response, Failure> {
    if (oldest..=newest).contains(&VERSION) {
        return Ok(Response::Hello { version: VERSION, pid: std::process::id() });
    }
    let message =
        format!("the router speaks version {VERSION} of the protocol, the client {oldest} to {newest}");
    Err(Failure::new(Code::Unsupported, message).with_remedy("stop the router, then start it again"))
}

fn carry_out(router: &Router, request: Request) -> Result<Response, Failure> {
    match request {
        Request::Hello { .. } | Request::Subscribe { .. } => {
            return Err(Failure::new(Code::ProtocolViolation, "not a request at this point"));
        }
        Request::Machines => return Ok(Response::Machines { machines: router.machines() }),
        Request::Log { from, limit } => return Ok(Response::Log { entries: router.log(from, limit) }),
        Request::Attach { machine } => router.attach(*machine)?,
        Request::Detach { workspace } => router.detach(workspace)?,
        Request::SetPolicies { changes } => {
            router.set_policies(
                changes.into_iter().map(|change| (change.workspace, change.policy)).collect(),
            )?;
        }
        Request::SetProxy { workspace, proxy } => router.set_proxy(workspace, &proxy)?,
        Request::Stop => {}
    }
    Ok(Response::Done)
}

fn refusal(failure: Failure) -> Response {
    Response::Error {
        code: failure.code(),
        message: failure.message().to_owned(),
        remedy: failure.remedy().map(str::to_owned),
    }
}

/// Sends the log and everything that is added to it, until the subscriber is gone.
async fn follow(stream: &mut UnixStream, router: &Router, from: u64) -> io::Result<()> {
    let (past, mut live) = router.subscribe(from);
    for entry in past {
        write(stream, &Response::Entry { entry }).await?;
    }
    loop {
        tokio::select! {
            next = live.recv() => match next {
                Ok(entry) => write(stream, &Response::Entry { entry }).await?,
                Err(RecvError::Lagged(entries)) => write(stream, &Response::Missed { entries }).await?,
                Err(RecvError::Closed) => return Ok(()),
            },
            // A subscriber says nothing more: this is its end.
            gone = read::<Request>(stream) => return gone.map(|_| ()),
        }
    }
}
