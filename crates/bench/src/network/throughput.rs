//! How fast a guest sends and receives through the router, beside `passt`, which does the same without rules. The server
//! is a socket of this process on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, NetworkRules, WorkspaceId};
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::Pool;
use agentiso_net::{Connecting, Limits, MachineSpec, Router, Settings, Uplink};
use agentiso_policy::egress::Policy;
use agentiso_proto::Card;
use agentiso_vmm::Plug;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::aside::Aside;
use crate::report::{Measurement, median};

const GUEST: &str = "sender";
const MTU: u16 = 65_520;
const ROUNDS: usize = 3;
const SECONDS: u64 = 3;
const CHUNK: usize = 256 << 10;
/// A public address, which the router leads to the server.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
/// What the router has to reach of what `passt` does.
const PART: f64 = 0.5;

/// Leads every address to loopback.
struct ToLoopback;

impl Uplink for ToLoopback {
    fn is_own_address(&self, _: Ipv4Addr) -> io::Result<bool> {
        Ok(false)
    }

    fn connect(&self, to: SocketAddrV4) -> Connecting {
        Box::pin(TcpStream::connect(SocketAddrV4::new(Ipv4Addr::LOCALHOST, to.port())))
    }

    fn datagram(&self, _: SocketAddrV4) -> io::Result<UdpSocket> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn ping(&self, _: Ipv4Addr) -> io::Result<UdpSocket> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[derive(Clone, Copy)]
enum Way {
    Sends,
    Receives,
}

pub(super) async fn measure(
    aside: &Aside,
    pool: Pool,
    progress: &Arc<dyn Progress>,
) -> Result<Vec<Measurement>, Failure> {
    let id = aside.create(GUEST, false).await?.id;
    progress.step("Sending and receiving through the router and through passt", None);
    // By way: through the router, and through passt.
    let mut rates = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    let settings = Settings { pool, nameservers: Nameservers::Fixed(Vec::new()) };
    let router = Router::new(settings, Arc::new(ToLoopback));
    let mut has_passt = true;
    for _ in 0..ROUNDS {
        plug_router(aside, id, &router, pool).await?;
        for (way, rates) in [Way::Sends, Way::Receives].into_iter().zip(&mut rates) {
            rates[0].push(transfer(aside, PUBLIC, way).await?);
        }
        router.detach(id)?;
        has_passt = has_passt && plug_passt(aside, id, pool).await?;
        if has_passt {
            for (way, rates) in [Way::Sends, Way::Receives].into_iter().zip(&mut rates) {
                rates[1].push(transfer(aside, pool.gateway(), way).await?);
            }
        }
    }
    progress.done("");
    aside.remove(GUEST).await?;
    let mut rows = Vec::new();
    for (what, [router, passt]) in ["a guest sends", "a guest receives"].into_iter().zip(&rates) {
        rows.push(Measurement::new(format!("{what} through the router"), "Mbit/s", router));
        if has_passt {
            rows.push(Measurement::new("  through passt", "Mbit/s", passt));
            let part = median(router) / median(passt);
            rows.push(Measurement::one("  the router relative to passt", "times", part).at_least(PART));
        }
    }
    Ok(rows)
}

fn failed(error: impl Into<io::Error>) -> Failure {
    let error = error.into();
    Failure::new(Code::of_io(&error), format!("measuring the network: {error}"))
}

fn pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd), Failure> {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(failed)
}

async fn plug_router(aside: &Aside, id: WorkspaceId, router: &Router, pool: Pool) -> Result<(), Failure> {
    let (ours, theirs) = pair(SocketType::DGRAM)?;
    let rules = NetworkRules { allow_internet: true, ..NetworkRules::default() };
    let spec = MachineSpec {
        workspace: id,
        address: address(pool),
        mtu: MTU.into(),
        card: String::new(),
        limits: Limits { packets_per_second: 0, bytes_per_second: 0, ..Limits::default() },
        policy: Policy::check(&rules)?,
    };
    router.attach(spec, ours)?;
    plug(aside, id, pool, Plug::Datagrams(theirs)).await
}

/// Connects the machine to a `passt` of its own, which ends with the connection. Says whether there is one.
#[expect(clippy::disallowed_methods, reason = "starting a program takes no time that matters here")]
async fn plug_passt(aside: &Aside, id: WorkspaceId, pool: Pool) -> Result<bool, Failure> {
    let (ours, theirs) = pair(SocketType::STREAM)?;
    let mut command = Command::new("passt");
    command.args(["--foreground", "--quiet", "--fd", "0", "--ipv4-only", "--mtu", &MTU.to_string()]);
    command.args(["--address", &address(pool).to_string(), "--netmask", "16"]);
    command.args(["--gateway", &pool.gateway().to_string(), "-t", "none", "-u", "none"]);
    command.stdin(ours).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(error)),
        Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
    }
    plug(aside, id, pool, Plug::Stream(theirs)).await?;
    Ok(true)
}

fn address(pool: Pool) -> Ipv4Addr {
    Ipv4Addr::from_bits(pool.gateway().to_bits() + 1)
}

async fn plug(aside: &Aside, id: WorkspaceId, pool: Pool, plug: Plug) -> Result<(), Failure> {
    let gateway = pool.gateway().octets();
    let card = Card { mac: id.mac(), address: address(pool).octets(), gateway, resolver: gateway, mtu: MTU };
    let attached = aside.workspaces.attach(id).await?;
    let machine = attached.machine();
    let set = machine.guest().set_card(Some(card));
    machine.during("configuring its network card", crate::travel::LIMIT, set).await?;
    machine.plug_card(plug).await?;
    Ok(())
}

/// Transfers for some seconds. Returns the rate in Mbit/s.
async fn transfer(aside: &Aside, to: Ipv4Addr, way: Way) -> Result<f64, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let line = match way {
        Way::Sends => format!("exec 3>/dev/tcp/{to}/{port}; timeout {SECONDS} cat /dev/zero >&3"),
        Way::Receives => format!("cat </dev/tcp/{to}/{port} >/dev/null"),
    };
    let guest = async { aside.run(GUEST, &["/bin/bash", "-c", &line]).await };
    let server = async {
        let (stream, _) = listener.accept().await?;
        match way {
            Way::Sends => receive(stream).await,
            Way::Receives => send(stream).await,
        }
    };
    let limit = Duration::from_secs(60);
    let (ran, rate) = tokio::join!(guest, tokio::time::timeout(limit, server));
    ran?;
    rate.map_err(|_| failed(io::ErrorKind::TimedOut))?.map_err(failed)
}

fn rate(bytes: usize, began: Instant) -> f64 {
    bytes as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6
}

async fn receive(mut stream: TcpStream) -> io::Result<f64> {
    let (mut buffer, mut bytes, began) = (vec![0; CHUNK], 0, Instant::now());
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(rate(bytes, began)),
            count => bytes += count,
        }
    }
}

async fn send(mut stream: TcpStream) -> io::Result<f64> {
    let (buffer, mut bytes, began) = (vec![7; CHUNK], 0, Instant::now());
    while began.elapsed() < Duration::from_secs(SECONDS) {
        stream.write_all(&buffer).await?;
        bytes += buffer.len();
    }
    stream.shutdown().await?;
    // The end is there when everything before it has arrived.
    match stream.read(&mut [0]).await? {
        0 => Ok(rate(bytes, began)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
