//! Throughput and latency of the router, with a guest in the same process: `cargo bench -p agentiso-net`.
//!
//! The guest is a TCP/IP stack in a thread of its own, on the machine's end of the card's socket, so its cost is part of
//! every figure. The server is a socket on loopback; `direct` is the same transfer without router and guest.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

#[path = "../tests/packets/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the tests use the rest")]
mod support;

use std::time::{Duration, Instant};

use agentiso_net::Limits;
use agentiso_policy::egress::Policy;
use hickory_proto::op::{Message, MessageType, OpCode, Query};
use hickory_proto::rr::{Name, RecordType};
use smoltcp::socket::tcp::State;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use support::*;

const TRANSFER: usize = 512 << 20;
const CHUNK: usize = 256 << 10;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let unlimited = Limits { bytes_per_second: 0, packets_per_second: 0, ..Limits::default() };
    runtime.block_on(async {
        // First, while the process is small.
        println!("50 idle machines: {}", idle().await);
        println!("DNS answer from the cache {:?} (median of 500)", cached_name().await);
        println!("direct over loopback     {}", rate(TRANSFER, direct().await));
        for mtu in [1500, 9000, 65_520] {
            println!("MTU {mtu:5}  guest sends    {}", rate(TRANSFER, upload(mtu, unlimited).await));
            println!("MTU {mtu:5}  guest receives {}", rate(TRANSFER, download(mtu, unlimited).await));
        }
        let (connect, exchange) = latency().await;
        println!("connect {connect:?}, exchange of one byte {exchange:?} (median of 500)");
        println!("policy change for 1 of 100 workspaces {:?} (median of 500)", policy_change().await);
    });
}

fn rate(bytes: usize, elapsed: Duration) -> String {
    format!("{:6.2} Gbit/s", bytes as f64 * 8.0 / elapsed.as_secs_f64() / 1e9)
}

async fn sink(listener: TcpListener) -> Instant {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut buffer = vec![0; CHUNK];
    while stream.read(&mut buffer).await.unwrap() > 0 {}
    Instant::now()
}

async fn source(listener: TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let buffer = vec![7; CHUNK];
    for _ in 0..TRANSFER / CHUNK {
        stream.write_all(&buffer).await.unwrap();
    }
}

async fn direct() -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let server = tokio::spawn(sink(listener));
    let started = Instant::now();
    let buffer = vec![7; CHUNK];
    for _ in 0..TRANSFER / CHUNK {
        stream.write_all(&buffer).await.unwrap();
    }
    drop(stream);
    server.await.unwrap() - started
}

async fn upload(mtu: usize, limits: Limits) -> Duration {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest_with(2, online(), limits, mtu);
    let server = tokio::spawn(sink(listener));
    let connection = guest.dial(PUBLIC, 80, 1 << 20);
    guest.settled(connection).await.unwrap();
    let started = Instant::now();
    let buffer = vec![7; CHUNK];
    let mut left = TRANSFER;
    guest
        .until("everything is sent", |guest| {
            let socket = guest.tcp(connection);
            while left > 0 && socket.can_send() {
                left -= socket.send_slice(&buffer[..CHUNK.min(left)]).unwrap();
            }
            if left == 0 && socket.state() == State::Established {
                socket.close();
            }
            (left == 0 && !matches!(socket.state(), State::FinWait1)).then_some(())
        })
        .await;
    server.await.unwrap() - started
}

async fn download(mtu: usize, limits: Limits) -> Duration {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest_with(2, online(), limits, mtu);
    tokio::spawn(source(listener));
    let connection = guest.dial(PUBLIC, 80, 1 << 20);
    guest.settled(connection).await.unwrap();
    let started = Instant::now();
    let mut left = TRANSFER;
    guest
        .until("everything is received", |guest| {
            let socket = guest.tcp(connection);
            while socket.can_recv() {
                left -= socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap();
            }
            (left == 0).then_some(())
        })
        .await;
    started.elapsed()
}

async fn latency() -> (Duration, Duration) {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut byte = [0; 1];
                while stream.read_exact(&mut byte).await.is_ok() {
                    stream.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    let mut guest = net.guest(2, online());
    let (mut connects, mut exchanges) = (Vec::new(), Vec::new());
    for _ in 0..500 {
        let started = Instant::now();
        let connection = guest.connect(PUBLIC, 80).await.unwrap();
        connects.push(started.elapsed());
        let started = Instant::now();
        guest.send(connection, b"x").await;
        guest.receive(connection, 1).await;
        exchanges.push(started.elapsed());
        guest.tcp(connection).abort();
        guest.until("the reset is sent", |guest| (!guest.tcp(connection).is_open()).then_some(())).await;
        guest.sockets.remove(connection);
    }
    (median(connects), median(exchanges))
}

async fn cached_name() -> Duration {
    let server = Nameserver::start(vec![("www.example.com", vec![a("www.example.com", 600, PUBLIC)])]).await;
    let net = Net::with_nameservers(vec![server.address]);
    let limits = Limits { queries_per_second: 0, ..Limits::default() };
    let mut guest = net.guest_with(2, online(), limits, 1500);
    let mut query = Message::new(1, MessageType::Query, OpCode::Query);
    query.add_query(Query::query(Name::from_ascii("www.example.com").unwrap(), RecordType::A));
    let query = query.to_vec().unwrap();
    let socket = guest.udp();
    let mut times = Vec::new();
    for _ in 0..501 {
        let started = Instant::now();
        guest.send_udp(socket, GATEWAY, 53, &query);
        guest.receive_udp(socket).await;
        times.push(started.elapsed());
    }
    assert_eq!(server.asked().len(), 1, "the rest came from the cache");
    median(times)
}

/// What machines cost that do nothing.
async fn idle() -> String {
    const SECONDS: u64 = 10;
    let before = usage();
    let net = Net::new();
    let guests: Vec<Guest> = (2..52).map(|last| net.guest(last, online())).collect();
    let attached = usage();
    tokio::time::sleep(Duration::from_secs(SECONDS)).await;
    let after = usage();
    drop(guests);
    format!(
        "{} KiB, {} ms of CPU time in {SECONDS} s",
        attached.0.saturating_sub(before.0),
        after.1 - attached.1
    )
}

/// Resident memory in KiB and CPU time in milliseconds of this process.
fn usage() -> (u64, u64) {
    let memory = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = memory.split(' ').nth(1).unwrap().parse().unwrap();
    let schedule = std::fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds = schedule.map(|task| {
        let text = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        text.split(' ').next().unwrap().parse::<u64>().unwrap()
    });
    (pages * 4, nanoseconds.sum::<u64>() / 1_000_000)
}

async fn policy_change() -> Duration {
    let net = Net::new();
    let _guests: Vec<_> = (2..102).map(|last| net.guest(last, online())).collect();
    let policies = [Policy::default(), Policy::check(&online()).unwrap()];
    let mut times = Vec::new();
    for round in 0..500 {
        let started = Instant::now();
        net.router.set_policies(vec![(workspace(50), policies[round % 2].clone())]).unwrap();
        times.push(started.elapsed());
    }
    median(times)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
