//! The router as a process of its own: controlled over its socket, found again, replaced.

use std::path::Path;
use std::sync::Arc;

use agentiso_core::NetworkRules;
use agentiso_core::{Code, Explain};
use agentiso_net::control::{ControlSocket, PolicyChange, RouterClient, run_router};
use agentiso_net::{LogEvent, Router};
use agentiso_policy::egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use crate::support::*;

fn start(path: &Path, uplink: &Arc<MappedUplink>) -> JoinHandle<std::io::Result<()>> {
    let socket = ControlSocket::bind(path, &path.with_extension("lock")).unwrap();
    let router = Router::new(settings(Vec::new()), Arc::clone(uplink) as _);
    tokio::spawn(run_router(socket, router))
}

#[tokio::test]
async fn the_next_daemon_finds_the_router_with_its_machines_and_connections() {
    let net = Net::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.sock");
    let running = start(&path, &net.uplink);
    let listener = net.uplink.listen(PUBLIC, 80).await;

    let mut first = RouterClient::connect(&path).await.unwrap();
    assert_eq!(first.pid(), std::process::id());
    let spec = net.spec(2, online());
    let (mut guest, card) = Guest::new(&spec);
    first.attach(spec.clone(), card).await.unwrap();
    let connection = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(first);

    // The daemon is gone; the connection goes on.
    stream.write_all(b"hello").await.unwrap();
    assert_eq!(guest.receive(connection, 5).await, b"hello");

    let mut second = RouterClient::connect(&path).await.unwrap();
    let machines = second.machines().await.unwrap();
    assert_eq!(machines.len(), 1);
    assert_eq!(machines[0].spec, spec);
    assert_eq!((machines[0].counters.flows_open, machines[0].counters.bytes_received), (1, 5));
    let log = second.log(0, 10).await.unwrap();
    assert_eq!((log.len(), log[0].event, log[0].sequence), (1, LogEvent::Opened, 0));

    let mut subscription = RouterClient::connect(&path).await.unwrap().subscribe(0).await.unwrap();
    assert_eq!(subscription.next().await.unwrap().unwrap().event, LogEvent::Opened);
    second
        .set_policies(vec![PolicyChange { workspace: workspace(2), policy: Policy::default() }])
        .await
        .unwrap();
    let cut = subscription.next().await.unwrap().unwrap();
    assert_eq!((cut.event, cut.sequence, cut.bytes_received), (LogEvent::Cut, 1, 5));

    second.detach(workspace(2)).await.unwrap();
    assert!(second.machines().await.unwrap().is_empty());
    second.stop().await.unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(subscription.next().await.unwrap(), None, "the router has ended");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_request_that_fails_says_why_and_the_router_goes_on() {
    let net = Net::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.sock");
    let error = RouterClient::connect(&path).await.unwrap_err();
    assert_eq!(error.code(), Code::NetworkUnavailable);
    assert!(error.remedy().unwrap().contains("start the router"));

    let _running = start(&path, &net.uplink);
    let mut client = RouterClient::connect(&path).await.unwrap();
    let error = client.detach(workspace(2)).await.unwrap_err();
    assert_eq!(error.code(), Code::WorkspaceNotRunning);
    assert!(error.to_string().contains("is not attached"));
    assert!(error.remedy().unwrap().contains("start the workspace"));
    assert!(client.machines().await.unwrap().is_empty());
}

async fn raw(path: &Path, message: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_u32(message.len() as u32).await.unwrap();
    stream.write_all(message.as_bytes()).await.unwrap();
    let length = stream.read_u32().await.unwrap();
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_daemon_of_another_version_is_told_so_and_can_end_the_router() {
    let net = Net::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.sock");
    let running = start(&path, &net.uplink);
    let answer = raw(&path, r#"{"request":"hello","oldest":7,"newest":9}"#).await;
    assert!(answer.contains("unsupported") && answer.contains("the client 7 to 9"), "{answer}");
    let answer = raw(&path, r#"{"request":"machines"}"#).await;
    assert!(answer.contains("protocol_violation"), "{answer}");
    let answer = raw(&path, r#"{"request":"hello","oldest":1,"newest":9}"#).await;
    assert!(answer.contains(r#""version":1"#), "a newer daemon that still speaks version 1: {answer}");
    RouterClient::end(&path).await.unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn there_is_one_router_and_a_dead_ones_socket_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.sock");
    std::fs::write(&path, "left behind").unwrap();
    let socket = ControlSocket::bind(&path, &path.with_extension("lock")).unwrap();
    let error = ControlSocket::bind(&path, &path.with_extension("lock")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    drop(socket);
    ControlSocket::bind(&path, &path.with_extension("lock")).unwrap();
}

#[tokio::test]
async fn a_new_router_passes_nothing_until_its_machines_are_attached() {
    let net = Net::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.sock");
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let first = start(&path, &net.uplink);
    let spec = net.spec(2, NetworkRules { allow_inter_vm: true, ..online() });
    let (mut guest, card) = Guest::new(&spec);
    RouterClient::connect(&path).await.unwrap().attach(spec.clone(), card).await.unwrap();
    let old = guest.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();

    // The router dies without a word.
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "its connections are gone");
    let _second = start(&path, &net.uplink);
    let mut client = RouterClient::connect(&path).await.unwrap();
    assert!(client.machines().await.unwrap().is_empty());
    client.attach(spec, guest.replug()).await.unwrap();
    guest.tcp(old).send_slice(b"x").unwrap();
    guest.until("the old connection is reset", |guest| (!guest.tcp(old).is_open()).then_some(())).await;
    guest.connect(PUBLIC, 80).await.unwrap();
}

/// Runs in a process of its own, whose descriptors it uses up.
#[tokio::test]
async fn a_router_without_free_descriptors_goes_on_and_can_be_controlled_later() {
    let net = Net::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("net.sock");
    let _running = start(&path, &net.uplink);
    drop(RouterClient::connect(&path).await.unwrap());
    let limit = rustix::process::Rlimit { current: Some(100), maximum: Some(100) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    // Its own end is there before the descriptors are used up; the router's is not, because nothing waits here.
    let waiting = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    drop(waiting);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    taken.truncate(10);
    let mut client = RouterClient::connect(&path).await.unwrap();
    assert_eq!(client.machines().await.unwrap(), []);
}

/// Runs in a process of its own, whose descriptors are few.
#[tokio::test]
async fn a_workspace_with_very_many_connections_leaves_descriptors_for_others() {
    let net = Net::new();
    let limit = rustix::process::Rlimit { current: Some(800), maximum: Some(800) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let server = net.uplink.receive(PUBLIC, 7).await;
    let (mut greedy, mut other) = (net.guest(2, online()), net.guest(3, online()));
    for _ in 0..400 {
        let socket = greedy.udp();
        greedy.send_udp(socket, PUBLIC, 7, b"hello");
        greedy.until("the datagram is sent", |_| Some(())).await;
        greedy.sockets.remove(socket);
    }
    let refused = net.logged(LogEvent::Refused).await;
    assert_eq!((refused.workspace, refused.rule.as_str()), (workspace(2), "limit: connections"));
    let socket = other.udp();
    other.send_udp(socket, PUBLIC, 7, b"me too");
    other.until("the datagram is sent", |_| Some(())).await;
    let mut buffer = [0; 10];
    while server.recv(&mut buffer).await.unwrap() != 6 {}
    let open: Vec<u64> = net.router.machines().iter().map(|one| one.counters.flows_open).collect();
    assert!(open[0] < 200 && open[1] == 1, "{open:?}");
}
