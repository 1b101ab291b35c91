//! Secrets: only the operator handles them, and their values are nowhere.

use agentiso_core::Code;
use agentiso_testing::fake::HostCall;
use serde_json::{Value, json};

use crate::world::{World, user};

const VALUE: &str = "sk-real-value-42";

fn secret() -> Value {
    json!({ "name": "API_TOKEN", "value": VALUE, "hosts": ["api.example.com"] })
}

#[tokio::test]
async fn a_secret_is_stored_granted_and_removed_and_its_value_is_never_shown() {
    let world = World::new().await;
    world.create(&user(), "web").await;
    assert_eq!(world.ok(&user(), "secret_set", secret()).await["replaced"], false);
    assert_eq!(world.ok(&user(), "secret_set", secret()).await["replaced"], true);
    let granted = json!({ "workspace_id": "web", "secrets": ["API_TOKEN"] });
    assert_eq!(world.ok(&user(), "secret_grant", granted).await["secrets"], json!(["API_TOKEN"]));
    let listed = world.ok(&user(), "secret_list", json!({})).await;
    assert_eq!(
        listed["secrets"],
        json!([{ "name": "API_TOKEN", "hosts": ["api.example.com"], "workspaces": 1 }])
    );
    let shown = world.sh(&user(), "web", "echo $API_TOKEN").await;
    assert_eq!(shown.trim(), "placeholder_of_API_TOKEN", "commands get the placeholder");

    let timeline = serde_json::to_string(&world.timeline().await).unwrap();
    assert!(timeline.contains("secret_set") && !timeline.contains(VALUE), "{timeline}");
    assert_eq!(world.ok(&user(), "secret_remove", json!({ "name": "API_TOKEN" })).await["removed"], true);
    assert_eq!(world.ok(&user(), "secret_remove", json!({ "name": "API_TOKEN" })).await["removed"], false);
    assert_eq!(world.sh(&user(), "web", "echo [$API_TOKEN]").await.trim(), "[]");
}

#[tokio::test]
async fn a_session_can_neither_see_nor_change_nor_grant_secrets() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    world.create(&agent, "web").await;
    world.ok(&user(), "secret_set", secret()).await;
    for (action, arguments) in [
        ("secret_set", secret()),
        ("secret_list", json!({})),
        ("secret_remove", json!({ "name": "API_TOKEN" })),
        ("secret_grant", json!({ "workspace_id": "web", "secrets": ["API_TOKEN"] })),
    ] {
        let failure = world.call(&agent, action, arguments).await.unwrap_err();
        assert_eq!(failure.code(), Code::NotPermitted, "{action}");
    }
    let listed = world.ok(&user(), "secret_list", json!({})).await;
    assert_eq!((&listed["count"], &listed["secrets"][0]["workspaces"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn wrong_names_are_refused_and_forks_have_no_secrets() {
    let world = World::new().await;
    world.create(&user(), "web").await;
    for name in ["", "1A", "A-B", "PATH", "LD_PRELOAD"] {
        let arguments = json!({ "name": name, "value": VALUE, "hosts": ["a.example"] });
        let failure = world.call(&user(), "secret_set", arguments).await.unwrap_err();
        assert_eq!(failure.code(), Code::InvalidArgument, "{name}");
    }
    let unknown = json!({ "workspace_id": "web", "secrets": ["NOPE"] });
    let failure = world.call(&user(), "secret_grant", unknown).await.unwrap_err();
    assert_eq!(failure.code(), Code::SecretNotFound);

    world.ok(&user(), "secret_set", secret()).await;
    world.ok(&user(), "secret_grant", json!({ "workspace_id": "web", "secrets": ["API_TOKEN"] })).await;
    world.ok(&user(), "workspace_fork", json!({ "workspace_id": "web", "new_name": "copy" })).await;
    assert_eq!(world.sh(&user(), "copy", "echo [$API_TOKEN]").await.trim(), "[]");
}

#[tokio::test]
async fn forks_inherit_secrets_only_if_the_operator_asks_for_it() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    world.create(&agent, "web").await;
    world.ok(&user(), "secret_set", secret()).await;
    world.ok(&user(), "secret_grant", json!({ "workspace_id": "web", "secrets": ["API_TOKEN"] })).await;
    let fork = |name: &str| json!({ "workspace_id": "web", "new_name": name, "secrets": true });
    world.refused(&agent, "workspace_fork", fork("stolen"), Code::NotPermitted).await;
    assert_eq!(world.names().await, ["web"], "nothing was made");

    world.ok(&user(), "workspace_fork", fork("copy")).await;
    assert_eq!(world.sh(&user(), "copy", "echo $API_TOKEN").await.trim(), "placeholder_of_API_TOKEN");
    let listed = world.ok(&user(), "secret_list", json!({})).await;
    assert_eq!(listed["secrets"][0]["workspaces"], 2);

    world.create(&user(), "plain").await;
    world.ok(&user(), "workspace_fork", json!({ "workspace_id": "plain", "secrets": true })).await;
    let listed = world.ok(&user(), "secret_list", json!({})).await;
    assert_eq!(listed["secrets"][0]["workspaces"], 2, "a source without secrets gives none");
}

#[tokio::test]
async fn a_fork_that_cannot_have_the_secrets_is_not_made() {
    let world = World::new().await;
    world.create(&user(), "web").await;
    world.ok(&user(), "secret_set", secret()).await;
    world.ok(&user(), "secret_grant", json!({ "workspace_id": "web", "secrets": ["API_TOKEN"] })).await;
    world.host.faults().fail(HostCall::GrantSecrets, Code::Io);
    let fork = json!({ "workspace_id": "web", "new_name": "copy", "secrets": true });
    world.refused(&user(), "workspace_fork", fork, Code::Io).await;
    assert_eq!(world.names().await, ["web"]);
}
