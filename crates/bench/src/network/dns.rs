//! How long an answer from the cache of the resolver takes: from the frame of the query to the frame of the answer.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

use agentiso_core::{Code, Failure, NetworkRules, WorkspaceId};
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::{GATEWAY_MAC, Pool};
use agentiso_net::{HostUplink, Limits, MachineSpec, Router, Settings};
use agentiso_policy::egress::Policy;
use tokio::net::{UdpSocket, UnixDatagram};
use uuid::Uuid;

use crate::report::Measurement;
use crate::starts::ms;

const QUERIES: usize = 200;
/// `a.example`, an address, in the Internet.
const QUESTION: &[u8] = b"\x01a\x07example\0\0\x01\0\x01";

pub(super) async fn measure(pool: Pool) -> Result<Vec<Measurement>, Failure> {
    let failed = |error: std::io::Error| Failure::new(Code::of_io(&error), format!("measuring DNS: {error}"));
    let server = UdpSocket::bind("127.0.0.1:0").await.map_err(failed)?;
    let settings =
        Settings { pool, nameservers: Nameservers::Fixed(vec![server.local_addr().map_err(failed)?]) };
    let serving = tokio::spawn(serve(server));
    let router = Router::new(settings, Arc::new(HostUplink));
    let (card, theirs) = UnixDatagram::pair().map_err(failed)?;
    let workspace = WorkspaceId::from_uuid(Uuid::now_v7());
    let address = Ipv4Addr::from_bits(pool.gateway().to_bits() + 1);
    let rules = NetworkRules { allow_internet: true, ..NetworkRules::default() };
    let spec = MachineSpec {
        workspace,
        address,
        mtu: 1500,
        card: String::new(),
        limits: Limits { queries_per_second: 0, ..Limits::default() },
        policy: Policy::check(&rules)?,
    };
    router.attach(spec, theirs.into_std().map_err(failed)?.into())?;
    let frame = query(workspace.mac(), address, pool.gateway());
    let (mut times, mut answer) = (Vec::new(), [0; 1600]);
    // The first one fills the cache.
    for _ in 0..=QUERIES {
        let began = Instant::now();
        card.send(&frame).await.map_err(failed)?;
        card.recv(&mut answer).await.map_err(failed)?;
        times.push(ms(began.elapsed()));
    }
    serving.abort();
    Ok(vec![Measurement::new("a DNS answer from the cache", "ms", &times[1..]).at_most(2.0)])
}

/// Answers every question with an address.
async fn serve(socket: UdpSocket) {
    let mut buffer = [0; 512];
    while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
        let question = buffer.get(12..length).unwrap_or_default();
        // The question again, and one answer whose name is that of the question.
        let head = [buffer[0], buffer[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 2, 0x58, 0, 4, 93, 184, 216, 34];
        let answer = [&head[..], question, &record].concat();
        // If it is lost, it is asked for again.
        let _: Result<usize, _> = socket.send_to(&answer, from).await;
    }
}

/// A frame with a query to the gateway.
fn query(mac: [u8; 6], from: Ipv4Addr, gateway: Ipv4Addr) -> Vec<u8> {
    let message = [&[0x12, 0x67, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], QUESTION].concat();
    let udp_length = (8 + message.len()) as u16;
    let udp = [40_000_u16, 53, udp_length, 0].map(u16::to_be_bytes).concat();
    let mut ip = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, 17, 0, 0];
    ip[2..4].copy_from_slice(&(20 + udp_length).to_be_bytes());
    ip.extend(from.octets());
    ip.extend(gateway.octets());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&GATEWAY_MAC[..], &mac, &[8, 0], &ip, &udp, &message].concat()
}
