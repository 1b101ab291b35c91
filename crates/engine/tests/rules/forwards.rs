//! Ports of the host that lead into workspaces.

use agentiso_core::Code;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::{World, user};

const GUEST: u16 = 7000;

async fn forward(world: &World, name: &str) -> u16 {
    let made =
        world.ok(&user(), "port_forward_add", json!({ "workspace_id": name, "guest_port": GUEST })).await;
    made["host_port"].as_u64().unwrap().try_into().unwrap()
}

/// A workspace with a server that repeats what it hears.
async fn serving(world: &World, name: &str) {
    world.create(&user(), name).await;
    serve(world, name).await;
}

async fn serve(world: &World, name: &str) {
    let server = json!({ "workspace_id": name, "command": format!("serve {GUEST}") });
    world.ok(&user(), "exec_start", server).await;
}

/// What comes back through a port, until the connection ends.
async fn heard(port: u16, said: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let _ = stream.write_all(said).await;
    let _ = stream.shutdown().await;
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard).await;
    heard
}

async fn listed(world: &World, name: &str) -> Value {
    world.ok(&user(), "port_forward_list", json!({ "workspace_id": name })).await["forwards"].clone()
}

#[tokio::test]
async fn a_forward_leads_into_the_workspace() {
    let world = World::new().await;
    serving(&world, "one").await;
    let port = forward(&world, "one").await;
    assert_eq!(heard(port, b"hello").await, b"hello");
    assert_eq!(listed(&world, "one").await, json!([{ "host_port": port, "guest_port": GUEST }]));
    assert_eq!(forward(&world, "one").await, port, "the same forward is there once");
}

#[tokio::test]
async fn where_nothing_listens_a_connection_ends() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let port = forward(&world, "one").await;
    assert_eq!(heard(port, b"hello").await, b"");
}

#[tokio::test]
async fn a_forward_belongs_to_the_workspace_and_not_to_its_machine() {
    let world = World::new().await;
    serving(&world, "one").await;
    let port = forward(&world, "one").await;
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "one" })).await;
    assert_eq!(heard(port, b"hello").await, b"", "while no machine runs, connections are closed at once");
    world.ok(&user(), "workspace_start", json!({ "workspace_id": "one" })).await;
    serve(&world, "one").await;
    assert_eq!(heard(port, b"hello").await, b"hello");
}

#[tokio::test]
async fn a_forward_that_is_removed_is_closed() {
    let world = World::new().await;
    serving(&world, "one").await;
    let port = forward(&world, "one").await;
    let remove = json!({ "workspace_id": "one", "guest_port": GUEST });
    assert_eq!(world.ok(&user(), "port_forward_remove", remove.clone()).await["removed"], true);
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    assert_eq!(listed(&world, "one").await, json!([]));
    assert_eq!(world.ok(&user(), "port_forward_remove", remove).await["removed"], false);
}

#[tokio::test]
async fn forwards_go_with_their_workspace() {
    let world = World::new().await;
    serving(&world, "one").await;
    let port = forward(&world, "one").await;
    world.ok(&user(), "workspace_destroy", json!({ "workspace_id": "one" })).await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    world.create(&user(), "two").await;
    let again = json!({ "workspace_id": "two", "guest_port": GUEST, "host_port": port });
    world.ok(&user(), "port_forward_add", again).await;
}

#[tokio::test]
async fn forwards_are_open_again_after_a_restart() {
    let mut world = World::new().await;
    serving(&world, "one").await;
    let port = forward(&world, "one").await;
    world.engine.shut_down(agentiso_engine::Shutdown::LeaveMachines).await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    world.reopen().await;
    assert_eq!(heard(port, b"hello").await, b"hello");
}

#[tokio::test]
async fn ports_that_may_not_be_used_are_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().port();
    let blocked = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let blocked_port = blocked.local_addr().unwrap().port();
    let world = World::with(|settings| settings.own_ports = vec![taken]).await;
    world.create(&user(), "one").await;
    world.create(&user(), "two").await;
    let add = |name: &str, port: u16| json!({ "workspace_id": name, "guest_port": GUEST, "host_port": port });
    for port in [80, 1023, taken, blocked_port] {
        world.refused(&user(), "port_forward_add", add("one", port), Code::PortUnavailable).await;
    }
    let port = forward(&world, "one").await;
    world.refused(&user(), "port_forward_add", add("two", port), Code::PortUnavailable).await;
    let zero = json!({ "workspace_id": "one", "guest_port": 0 });
    world.refused(&user(), "port_forward_add", zero, Code::InvalidArgument).await;
    assert_eq!(listed(&world, "two").await, json!([]));
}

#[tokio::test]
async fn a_workspace_has_only_so_many_forwards() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let add = |port: u16| json!({ "workspace_id": "one", "guest_port": port });
    for port in 1..=32 {
        world.ok(&user(), "port_forward_add", add(port)).await;
    }
    world.refused(&user(), "port_forward_add", add(33), Code::QuotaExceeded).await;
    world.ok(&user(), "port_forward_remove", add(1)).await;
    world.ok(&user(), "port_forward_add", add(33)).await;
}

#[tokio::test]
async fn a_server_that_ends_takes_its_connections_with_it() {
    let world = World::new().await;
    serving(&world, "one").await;
    let port = forward(&world, "one").await;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"hi").await.unwrap();
    let mut word = [0; 2];
    stream.read_exact(&mut word).await.unwrap();
    world.ok(&user(), "exec_kill", json!({ "workspace_id": "one", "job_id": 1 })).await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
}
