//! Each HTTP client has its own session, although all use the same token.

use agentiso_core::SessionId;
use agentiso_engine::Identity;
use agentiso_meta::SessionKind;
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::house::House;
use crate::http::{Client, Network, text};

const STRICT: &str = "[sessions]\nisolation = \"strict\"\nadopt_idle_secs = 0\n";
const AT_ONCE: &str = "[sessions]\nadopt_idle_secs = 0\n";

/// Two clients of each kind.
async fn pairs(network: &Network) -> [(Client, Client); 4] {
    let secret = |letter: &str| letter.repeat(32);
    [
        (Client::Rest(secret("a")), Client::Rest(secret("b"))),
        (Client::Secret(secret("c")), Client::Secret(secret("d"))),
        (Client::Named("one".to_owned()), Client::Named("two".to_owned())),
        (Client::older(network).await, Client::older(network).await),
    ]
}

fn id(session: &str) -> SessionId {
    SessionId::from_uuid(session.parse().unwrap())
}

#[tokio::test]
async fn clients_with_the_same_token_do_not_see_each_others_workspaces() {
    let house = House::configured(STRICT).await;
    let network = Network::of(&house);
    for (number, (one, two)) in pairs(&network).await.into_iter().enumerate() {
        let (mine, theirs) = (one.session(&network).await, two.session(&network).await);
        assert_ne!(mine, theirs, "{one:?}");
        assert_eq!(one.session(&network).await, mine, "{one:?} returns to its own session");
        let name = format!("mine-{number}");
        let workspace = house.workspace(&name, Some(id(&mine)));
        assert_eq!(one.names(&network).await, [name.as_str()], "{one:?}");
        assert_eq!(two.names(&network).await, [""; 0], "{two:?}");
        let asked = json!({ "workspace_id": name });
        assert_eq!(
            two.act(&network, "workspace_info", asked.clone()).await.unwrap_err(),
            "workspace_not_found"
        );
        let force = json!({ "workspace_id": name, "force": true });
        assert_eq!(two.act(&network, "workspace_adopt", force).await.unwrap_err(), "workspace_not_found");
        assert_eq!(two.act(&network, "workspace_destroy", asked).await.unwrap_err(), "workspace_not_found");
        assert_eq!(house.owner(workspace.id), Some(id(&mine)));
        let metrics = match &two {
            Client::Rest(secret) => {
                network.send("GET", "/metrics", &[("agentiso-session", secret)], None).await
            }
            _ => continue,
        };
        assert_eq!(metrics.status(), StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn workspaces_of_a_connected_client_cannot_be_adopted_by_force() {
    let house = House::configured(AT_ONCE).await;
    let network = Network::of(&house);
    let (one, two) = (Client::older(&network).await, Client::older(&network).await);
    let owner = id(&one.session(&network).await);
    let workspace = house.workspace("mine", Some(owner));
    let Client::Older(conversation) = &one else { unreachable!() };
    let listening = network.send("GET", "/mcp", &[("mcp-session-id", conversation)], None).await;
    assert_eq!(listening.status(), StatusCode::OK);
    let force = json!({ "workspace_id": "mine", "force": true });
    assert_eq!(two.act(&network, "workspace_adopt", force.clone()).await.unwrap_err(), "not_owner");
    assert_eq!(house.owner(workspace.id), Some(owner));
    drop(listening);
    two.act(&network, "workspace_adopt", force).await.unwrap();
    assert_eq!(house.owner(workspace.id), Some(id(&two.session(&network).await)));
}

#[tokio::test]
async fn a_session_ends_with_its_conversation_and_its_workspaces_stay() {
    let house = House::new().await;
    let network = Network::of(&house);
    let one = Client::older(&network).await;
    let session = id(&one.session(&network).await);
    let workspace = house.workspace("mine", Some(session));
    let Client::Older(conversation) = &one else { unreachable!() };
    let ended = network.send("DELETE", "/mcp", &[("mcp-session-id", conversation)], None).await;
    assert_eq!(ended.status(), StatusCode::NO_CONTENT);
    let gone = async {
        while house.engine.has_session(session).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone).await.unwrap();
    assert_eq!(house.owner(workspace.id), None);
    let two = Client::older(&network).await;
    two.act(&network, "workspace_ip", json!({ "workspace_id": "mine" })).await.unwrap();
    assert_eq!(house.owner(workspace.id), Some(id(&two.session(&network).await)));
}

#[tokio::test]
async fn a_handshake_alone_creates_no_session() {
    let house = House::new().await;
    let network = Network::of(&house);
    for _ in 0..5 {
        Client::older(&network).await;
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "looks", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}}}});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let listed = text(network.send("POST", "/mcp", &headers, Some(list)).await).await;
    assert!(listed.contains("workspace_create"), "{listed}");
    assert_eq!(house.meta.read(|read| read.session_count()).unwrap(), 0);
}

#[tokio::test]
async fn a_weak_session_secret_is_rejected_and_none_means_the_user() {
    let house = House::new().await;
    let network = Network::of(&house);
    house.workspace("web", None);
    let status = network.send("GET", "/v1/status", &[], None).await;
    let status: Value = serde_json::from_str(&text(status).await).unwrap();
    assert_eq!(status["session_id"], Value::Null);
    for secret in [
        "",
        "short",
        &"x".repeat(129),
        "with a space in it",
        "\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}",
    ] {
        let refused = network.send("GET", "/v1/status", &[("agentiso-session", secret)], None).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{secret:?}");
    }
    let begun = network.send("POST", "/v1/sessions", &[], Some(json!({ "client": "a" }))).await;
    let begun: Value = serde_json::from_str(&text(begun).await).unwrap();
    let token = format!("Bearer {}", begun["token"].as_str().unwrap());
    let both = [("authorization", token.as_str()), ("agentiso-session", "0123456789abcdef")];
    assert_eq!(network.send("GET", "/v1/status", &both, None).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(network.send("GET", "/v1/status", &both[..1], None).await.status(), StatusCode::OK);
    // A secret does not replace the token.
    let secret = "0123456789abcdef";
    assert_eq!(
        network.send("GET", "/v1/status", &[("agentiso-session", secret)], None).await.status(),
        StatusCode::OK
    );
    for alone in ["Bearer 0123456789abcdef", "Basic x"] {
        let headers = [("authorization", alone), ("agentiso-session", secret)];
        let refused = network.send("GET", "/v1/status", &headers, None).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{alone}");
    }
}

#[tokio::test]
async fn events_of_one_client_are_not_sent_to_another() {
    let house = House::configured(STRICT).await;
    let network = Network::of(&house);
    let (one, two) = (Client::Rest("a".repeat(32)), Client::Rest("b".repeat(32)));
    let mine = id(&one.session(&network).await);
    let theirs = id(&two.session(&network).await);
    house.workspace("mine", Some(mine));
    house.workspace("theirs", Some(theirs));
    let secret = "b".repeat(32);
    let watching = network.send("GET", "/v1/events", &[("agentiso-session", &secret)], None).await;
    for (client, name) in [(&one, "mine"), (&two, "theirs")] {
        client.act(&network, "workspace_destroy", json!({ "workspace_id": name })).await.unwrap();
    }
    let first = watching.into_body().into_data_stream().next().await.unwrap().unwrap();
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(first.contains("theirs") && !first.contains("mine"), "{first}");
}

#[tokio::test]
async fn the_least_recently_active_session_without_workspaces_makes_room() {
    let house = House::new().await;
    let named = async |name: &str| {
        house.engine.client_known_by(Identity::Name(name), name).await.unwrap().session.unwrap()
    };
    let (owner, present, silent) = (named("owner").await, named("present").await, named("silent").await);
    house.workspace("mine", Some(owner));
    let _present = house.engine.attend(present);
    for number in 3..1000 {
        named(&number.to_string()).await;
    }
    for known in [owner, present, silent] {
        assert!(house.engine.has_session(known).await);
    }
    named("one more").await;
    assert_eq!(house.meta.read(|read| read.session_count()).unwrap(), 1000);
    assert!(!house.engine.has_session(silent).await);
    assert!(house.engine.has_session(owner).await && house.engine.has_session(present).await);
    assert_ne!(named("silent").await, silent, "who comes back begins anew");
}

#[tokio::test]
async fn only_sessions_of_conversations_end_with_the_daemon() {
    let house = House::new().await;
    let fleeting = house.engine.begin_session(SessionKind::Fleeting, "a").await.unwrap().id;
    let lasting = house.engine.begin_session(SessionKind::Mcp, "b").await.unwrap().id;
    let workspace = house.workspace("mine", Some(fleeting));
    let next = crate::house::open(&house.installation).await;
    assert!(!next.has_session(fleeting).await && next.has_session(lasting).await);
    assert_eq!(house.owner(workspace.id), None);
}
