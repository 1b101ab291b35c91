//! Ports of the host that lead into workspaces.

use agentiso_core::{Code, WorkspaceId};
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

/// Two workspaces that may reach each other, with a server in the second, and their ids.
async fn neighbours(world: &World) -> [WorkspaceId; 2] {
    let ids = [world.create(&user(), "one").await, world.create(&user(), "two").await];
    for name in ["one", "two"] {
        world.ok(&user(), "network_policy", json!({ "workspace_id": name, "allow_inter_vm": true })).await;
    }
    serve(world, "two").await;
    let address = world.workspace(ids[1]).await.network.address.unwrap();
    world.host.put_on_network(ids[1], address);
    ids
}

fn towards() -> Value {
    json!({ "workspace_id": "one", "guest_port": GUEST, "to": "two" })
}

#[tokio::test]
async fn a_forward_leads_on_to_another_workspace() {
    let mut world = World::new().await;
    let [_, two] = neighbours(&world).await;
    let made = world.ok(&user(), "port_forward_add", towards()).await;
    let port: u16 = made["host_port"].as_u64().unwrap().try_into().unwrap();
    assert_eq!(made["to"], two.to_string());
    assert_eq!(heard(port, b"hello").await, b"hello");
    let expected = json!([{ "host_port": port, "guest_port": GUEST, "to": two.to_string() }]);
    assert_eq!(listed(&world, "one").await, expected);
    assert_eq!(
        world.ok(&user(), "port_forward_add", towards()).await,
        made,
        "the same forward is there once"
    );
    assert_ne!(forward(&world, "one").await, port, "its own port is another one");

    world.engine.shut_down(agentiso_engine::Shutdown::LeaveMachines).await;
    world.reopen().await;
    assert_eq!(heard(port, b"hello").await, b"hello");
}

#[tokio::test]
async fn a_forward_ends_with_the_workspace_it_leads_to() {
    let world = World::new().await;
    neighbours(&world).await;
    let made = world.ok(&user(), "port_forward_add", towards()).await;
    let port: u16 = made["host_port"].as_u64().unwrap().try_into().unwrap();
    world.ok(&user(), "network_policy", json!({ "workspace_id": "two", "allow_inter_vm": false })).await;
    assert_eq!(heard(port, b"hello").await, b"", "it has no address any more");
    world.ok(&user(), "workspace_destroy", json!({ "workspace_id": "two" })).await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    assert_eq!(listed(&world, "one").await, json!([]));
}

#[tokio::test]
async fn what_the_rules_forbid_is_not_forwarded_and_the_refusal_names_the_call_that_allows_it() {
    let world = World::new().await;
    neighbours(&world).await;
    let policy = async |name: &str, change: Value| {
        let mut arguments = json!({ "workspace_id": name, "allow_inter_vm": true, "groups": ["default"] });
        arguments.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        world.ok(&user(), "network_policy", arguments).await;
    };
    for (name, change, remedy) in [
        (
            "one",
            json!({ "allow_inter_vm": false }),
            r#"{"allow_inter_vm":true,"workspace_id":"one"} would allow it"#,
        ),
        (
            "two",
            json!({ "allow_inter_vm": false }),
            r#"{"allow_inter_vm":true,"workspace_id":"two"} would allow it"#,
        ),
        ("one", json!({ "groups": ["blue"] }), r#"{"groups":["blue"],"workspace_id":"two"}"#),
        ("one", json!({ "deny_cidrs": ["10.99.0.0/16"] }), "do not contain 10.99.0.0/16"),
        ("two", json!({ "allowed_ports": [80] }), r#"{"allowed_ports":[80,7000],"workspace_id":"two"}"#),
    ] {
        policy(name, change.clone()).await;
        let refused = world.call(&user(), "port_forward_add", towards()).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotPermitted, "{change}");
        let text = refused.remedy().unwrap();
        assert!(text.contains("network_policy") && text.contains(remedy), "{change}: {text}");
        policy(name, json!({ "deny_cidrs": [] })).await;
    }
    let own = json!({ "workspace_id": "one", "guest_port": GUEST, "to": "one" });
    world.refused(&user(), "port_forward_add", own, Code::InvalidArgument).await;
    let nobody = json!({ "workspace_id": "one", "guest_port": GUEST, "to": "nobody" });
    world.refused(&user(), "port_forward_add", nobody, Code::WorkspaceNotFound).await;
    assert_eq!(listed(&world, "one").await, json!([]));
}

#[tokio::test]
async fn a_session_forwards_only_towards_workspaces_that_it_may_use() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    let other = world.session("other").await;
    world.create(&agent, "one").await;
    world.create(&other, "two").await;
    for (caller, name) in [(&agent, "one"), (&other, "two")] {
        world.ok(caller, "network_policy", json!({ "workspace_id": name, "allow_inter_vm": true })).await;
    }
    world.refused(&agent, "port_forward_add", towards(), Code::NotOwner).await;
    world.ok(&user(), "port_forward_add", towards()).await;
}
