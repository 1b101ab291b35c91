//! The router's side of the control protocol.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::{Code, Failure};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::ControlSocket;
use super::descriptor;
use super::message::{Request, Response, VERSION};
use super::transport::{read, write};
use crate::backend::Backend;

/// How long a router without machines waits for one.
const UNUSED: Duration = Duration::from_secs(60);
/// How often it looks whether it is still needed.
const LOOK: Duration = Duration::from_secs(5);
/// The pause after a failed accept: the next one would fail at once, too.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs a router until a daemon asks it to stop, until it has had no machine for a minute, or until the installation is
/// removed. Its machines go on while no daemon is connected.
pub async fn run_router(socket: ControlSocket, router: impl Into<Backend>) -> io::Result<()> {
    allow_many_files();
    let listener = UnixListener::from_std(socket.listener.try_clone()?)?;
    let router = Arc::new(router.into());
    let stop = Arc::new(Notify::new());
    let mut clients = JoinSet::new();
    let mut look = tokio::time::interval(LOOK);
    let mut used = Instant::now();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let stream = match accepted {
                    Ok((stream, _)) => stream,
                    // Without a free descriptor nobody can connect for a while, but the guests' connections go on.
                    Err(error) => {
                        tracing::warn!(%error, "the router could not accept a client");
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                };
                let (router, stop) = (Arc::clone(&router), Arc::clone(&stop));
                clients.spawn(async move {
                    if let Err(error) = serve(stream, &router, &stop).await {
                        tracing::warn!(%error, "a client of the router was disconnected");
                    }
                });
            }
            Some(_) = clients.join_next() => {}
            () = stop.notified() => break,
            _ = look.tick() => {
                if router.has_machines() {
                    used = Instant::now();
                }
                if used.elapsed() > UNUSED || socket.is_abandoned()? {
                    break;
                }
            }
        }
    }
    clients.shutdown().await;
    Ok(())
}

/// Every flow has a socket; the usual limit is for programs with few.
fn allow_many_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}

async fn serve(mut stream: UnixStream, router: &Arc<Backend>, stop: &Notify) -> io::Result<()> {
    let user = stream.peer_cred()?.uid();
    if user != 0 && user != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let greeting = match read(&mut stream).await? {
        Some(Request::Hello { oldest, newest }) => greet(router, oldest, newest),
        Some(Request::Stop) => {
            stop.notify_one();
            // Nothing is answered: the caller waits for the end.
            return std::future::pending().await;
        }
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
        let response = match request {
            Request::Attach { machine } => {
                let card = descriptor::receive(&stream).await?;
                let attached = aside(router, move |router| router.attach(*machine, card)).await?;
                if let Ok(Some(device)) = attached {
                    write(&mut stream, &Response::Device).await?;
                    descriptor::send(&stream, &device).await?;
                    continue;
                }
                attached.map(|_| Response::Done).map_err(Failure::from)
            }
            request => aside(router, move |router| carry_out(router, request)).await?,
        };
        let response = response.unwrap_or_else(refusal);
        write(&mut stream, &response).await?;
        if is_stop {
            stop.notify_one();
            return Ok(());
        }
    }
    Ok(())
}

fn greet(router: &Backend, oldest: u32, newest: u32) -> Result<Response, Failure> {
    if (oldest..=newest).contains(&VERSION) {
        return Ok(Response::Hello {
            version: VERSION,
            pid: std::process::id(),
            instance: router.instance().to_owned(),
            pool: router.pool().range().to_string(),
            backend: router.name().to_owned(),
        });
    }
    let message =
        format!("the router speaks version {VERSION} of the protocol, the client {oldest} to {newest}");
    Err(Failure::new(Code::Unsupported, message).with_remedy("stop the router, then start it again"))
}

/// Does something with the back end, in a thread that may wait if it has to.
async fn aside<T: Send + 'static>(
    router: &Arc<Backend>,
    change: impl FnOnce(&Backend) -> T + Send + 'static,
) -> io::Result<T> {
    if !router.waits() {
        return Ok(change(router));
    }
    let router = Arc::clone(router);
    tokio::task::spawn_blocking(move || change(&router)).await.map_err(io::Error::other)
}

fn carry_out(router: &Backend, request: Request) -> Result<Response, Failure> {
    match request {
        Request::Hello { .. } | Request::Subscribe { .. } | Request::Attach { .. } => {
            return Err(Failure::new(Code::ProtocolViolation, "not a request at this point"));
        }
        Request::Machines => return Ok(Response::Machines { machines: router.machines() }),
        Request::Log { from, limit } => return Ok(Response::Log { entries: router.log(from, limit) }),
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
async fn follow(stream: &mut UnixStream, router: &Backend, from: u64) -> io::Result<()> {
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
