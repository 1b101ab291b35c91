//! TCP connections.

use std::time::Duration;

use agentiso_core::NetworkRules;
use agentiso_net::{Limits, LogEvent};
use agentiso_policy::egress::Policy;
use smoltcp::socket::tcp::State;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::*;

/// Bytes that show when one is missing or out of order.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[tokio::test]
async fn a_guest_talks_to_a_server_and_the_connection_is_logged() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 5];
        stream.read_exact(&mut request).await.unwrap();
        stream.write_all(b"answer").await.unwrap();
        request
    });
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    guest.send(connection, b"hello").await;
    assert_eq!(guest.receive_all(connection).await.as_deref(), Some(&b"answer"[..]));
    guest.tcp(connection).close();
    guest
        .until("the connection ends", |guest| (guest.tcp(connection).state() == State::Closed).then_some(()))
        .await;
    assert_eq!(&server.await.unwrap(), b"hello");

    let opened = net.logged(LogEvent::Opened).await;
    assert_eq!((opened.workspace, opened.address, opened.port), (workspace(2), Some(PUBLIC), 80));
    let closed = net.logged(LogEvent::Closed).await;
    assert_eq!((closed.bytes_sent, closed.bytes_received), (5, 6));
    assert_eq!(closed.rule, "allow_internet: true");
    let counters = &net.router.machines()[0].counters;
    assert_eq!((counters.bytes_sent, counters.bytes_received, counters.flows_open), (5, 6, 0));
}

async fn transfer(mtu: usize, length: usize) {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest_with(2, online(), Limits::default(), mtu);
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let sending = tokio::spawn(async move {
            writer.write_all(&pattern(length)).await.unwrap();
        });
        let mut received = Vec::new();
        reader.read_to_end(&mut received).await.unwrap();
        sending.await.unwrap();
        received
    });
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (outgoing, mut sent, mut received) = (pattern(length), 0, Vec::new());
    guest
        .until("both directions are done", |guest| {
            let socket = guest.tcp(connection);
            if sent < length && socket.can_send() {
                sent += socket.send_slice(&outgoing[sent..]).unwrap();
                if sent == length {
                    socket.close();
                }
            }
            while socket.can_recv() {
                received.extend(socket.recv(|bytes| (bytes.len(), bytes.to_vec())).unwrap());
            }
            (sent == length && received.len() >= length).then_some(())
        })
        .await;
    assert!(received == pattern(length), "the guest received something else");
    guest
        .until("the guest's end is acknowledged", |guest| {
            (!matches!(guest.tcp(connection).state(), State::FinWait1 | State::Closing | State::LastAck))
                .then_some(())
        })
        .await;
    assert!(server.await.unwrap() == pattern(length), "the server received something else");
}

#[tokio::test]
async fn large_transfers_in_both_directions_at_once_arrive_whole() {
    transfer(1500, 8 << 20).await;
}

#[tokio::test]
async fn large_frames_arrive_whole() {
    transfer(65_520, 16 << 20).await;
}

#[tokio::test]
async fn each_direction_ends_on_its_own() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    // The server answers only after the guest has ended its direction.
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        stream.read_to_end(&mut request).await.unwrap();
        stream.write_all(&pattern(300_000)).await.unwrap();
        request
    });
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    guest.send(connection, b"all of it").await;
    guest.tcp(connection).close();
    assert!(guest.receive_all(connection).await.unwrap() == pattern(300_000));
    assert_eq!(server.await.unwrap(), b"all of it");
}

#[tokio::test]
async fn a_server_that_ends_first_still_receives() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"greeting").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        rest
    });
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    assert_eq!(guest.receive_all(connection).await.as_deref(), Some(&b"greeting"[..]));
    guest.send(connection, &pattern(200_000)).await;
    guest.tcp(connection).close();
    guest
        .until("the connection ends", |guest| (guest.tcp(connection).state() == State::Closed).then_some(()))
        .await;
    assert!(server.await.unwrap() == pattern(200_000));
}

#[tokio::test]
async fn a_server_that_refuses_refuses_the_guest() {
    let net = Net::new();
    // The port is closed again before the guest connects.
    drop(net.uplink.listen(PUBLIC, 80).await);
    let mut guest = net.guest(2, online());
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
    let failed = net.logged(LogEvent::Failed).await;
    assert_eq!((failed.address, failed.port), (Some(PUBLIC), 80));
    assert_eq!(net.router.machines()[0].counters.flows_open, 0);
}

#[tokio::test]
async fn a_reset_of_the_server_resets_the_guest() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    stream.set_zero_linger().unwrap();
    drop(stream);
    assert_eq!(guest.receive_all(connection).await, None, "reset, not ended");
}

#[tokio::test]
async fn a_reset_of_the_guest_resets_the_server() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    guest.tcp(connection).abort();
    guest.until("the reset is sent", |guest| (!guest.tcp(connection).is_open()).then_some(())).await;
    let error = stream.read(&mut [0; 10]).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_server_that_does_not_read_stops_the_guest_and_costs_bounded_memory() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let chunk = pattern(1 << 16);
    let mut sent = 0usize;
    // The guest sends until a full second passes in which nothing more is taken.
    loop {
        let stuck = tokio::time::timeout(Duration::from_secs(1), async {
            guest
                .until("the guest can send", |guest| {
                    let socket = guest.tcp(connection);
                    socket
                        .can_send()
                        .then(|| sent += socket.send_slice(&chunk[sent % chunk.len()..]).unwrap())
                })
                .await;
        });
        if stuck.await.is_err() {
            break;
        }
        assert!(sent < 64 << 20, "the router buffers without limit");
    }
    // Once the server reads, everything arrives.
    let reading = tokio::spawn(async move {
        let mut received = Vec::new();
        stream.read_to_end(&mut received).await.unwrap();
        received
    });
    guest.tcp(connection).close();
    guest
        .until("the end is acknowledged", |guest| {
            (guest.tcp(connection).state() != State::FinWait1).then_some(())
        })
        .await;
    let received = reading.await.unwrap();
    assert_eq!(received.len(), sent);
    assert!(received.chunks(chunk.len()).all(|part| part == &chunk[..part.len()]));
}

#[tokio::test]
async fn a_guest_that_does_not_read_stops_the_server() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let total = 64 << 20;
    let writing = tokio::spawn(async move {
        let chunk = pattern(1 << 16);
        let mut written = 0;
        while written < total {
            match tokio::time::timeout(Duration::from_secs(1), stream.write(&chunk)).await {
                Ok(count) => written += count.unwrap(),
                Err(_) => return written,
            }
        }
        written
    });
    // The guest's stack runs, but its program reads nothing.
    tokio::select! {
        () = guest.serve() => {}
        written = writing => assert!(written.unwrap() < total, "the router buffers without limit"),
    }
    assert!(guest.tcp(connection).recv_queue() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_connections_work_at_once() {
    const COUNT: usize = 1000;
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = [0; 8];
                stream.read_exact(&mut request).await.unwrap();
                request.reverse();
                stream.write_all(&request).await.unwrap();
                stream.shutdown().await.unwrap();
            });
        }
    });
    let connections: Vec<_> = (0..COUNT).map(|_| guest.dial(PUBLIC, 80, 512)).collect();
    let mut waiting = connections.clone();
    guest
        .until("all are connected", |guest| {
            waiting.retain(|&handle| guest.tcp(handle).state() != State::Established);
            waiting.is_empty().then_some(())
        })
        .await;
    assert_eq!(net.router.machines()[0].counters.flows_open, COUNT as u64, "all are open at the same time");
    for (index, &handle) in connections.iter().enumerate() {
        let request = (index as u64).to_be_bytes();
        assert_eq!(guest.tcp(handle).send_slice(&request).unwrap(), 8);
    }
    for (index, &handle) in connections.iter().enumerate() {
        let mut expected = (index as u64).to_be_bytes();
        expected.reverse();
        assert_eq!(guest.receive_all(handle).await.as_deref(), Some(&expected[..]), "connection {index}");
    }
}

#[tokio::test]
async fn connections_are_limited_and_the_limit_is_logged() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut guest = net.guest_with(2, online(), limits, 1500);
    let first = guest.connect(PUBLIC, 80).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    guest.connect(PUBLIC, 80).await.unwrap();
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
    assert_eq!(net.logged(LogEvent::Refused).await.rule, "limit: connections");

    guest.tcp(first).close();
    drop(stream);
    guest.until("the first ends", |guest| (guest.tcp(first).state() == State::TimeWait).then_some(())).await;
    net.logged(LogEvent::Closed).await;
    guest.connect(PUBLIC, 80).await.unwrap();
}

#[tokio::test]
async fn a_connection_the_router_does_not_know_is_reset() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let _stream = listener.accept().await.unwrap();
    let spec = net.spec(2, online());
    net.router.detach(workspace(2)).unwrap();
    assert_eq!(net.logged(LogEvent::Cut).await.port, 80);
    // The machine goes on, with a new router: as after a restart of the router.
    net.router.attach(spec, guest.replug()).unwrap();
    guest.tcp(connection).send_slice(b"still there?").unwrap();
    guest.until("the connection is reset", |guest| (!guest.tcp(connection).is_open()).then_some(())).await;
    guest.connect(PUBLIC, 80).await.unwrap();
}

#[tokio::test]
async fn a_tightened_policy_cuts_what_it_no_longer_allows_and_nothing_else() {
    let net = Net::new();
    let first = net.uplink.listen(PUBLIC, 80).await;
    let second = net.uplink.listen(OTHER_PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let cut = guest.connect(PUBLIC, 80).await.unwrap();
    let kept = guest.connect(OTHER_PUBLIC, 80).await.unwrap();
    let (mut cut_stream, _) = first.accept().await.unwrap();
    let (mut kept_stream, _) = second.accept().await.unwrap();

    let tight = NetworkRules { deny_cidrs: strings(&["93.184.216.34"]), ..online() };
    net.router.set_policies(vec![(workspace(2), Policy::check(&tight).unwrap())]).unwrap();
    guest.until("the connection is cut", |guest| (!guest.tcp(cut).is_open()).then_some(())).await;
    assert!(cut_stream.read(&mut [0; 1]).await.is_err(), "the server is reset too");
    let entry = net.logged(LogEvent::Cut).await;
    assert_eq!((entry.address, entry.port), (Some(PUBLIC), 80));

    guest.send(kept, b"on").await;
    let mut received = [0; 2];
    kept_stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"on");
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
}

#[tokio::test]
async fn bandwidth_is_limited_and_everything_still_arrives() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let limits = Limits { bytes_per_second: 2_000_000, ..Limits::default() };
    let mut guest = net.guest_with(2, online(), limits, 1500);
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    tokio::spawn(async move { stream.write_all(&pattern(1_000_000)).await.unwrap() });
    let started = std::time::Instant::now();
    let received = guest.receive_all(connection).await.unwrap();
    assert!(received == pattern(1_000_000));
    // Less the burst, it takes at least this long; a slow machine takes longer.
    assert!(started.elapsed() > Duration::from_millis(300), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_connection_on_which_nothing_moves_is_closed() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let limits = Limits { tcp_idle_seconds: 1, ..Limits::default() };
    let mut guest = net.guest_with(2, online(), limits, 1500);
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    assert_eq!(guest.receive_all(connection).await, None, "reset");
    assert!(stream.read(&mut [0; 1]).await.is_err());
}
