//! What sessions can see and take over from each other.

use agentiso_core::Code;
use agentiso_engine::{Caller, Delivered};
use futures_util::FutureExt;
use serde_json::json;

use crate::house::House;

const STRICT: &str = "[sessions]\nisolation = \"strict\"\nadopt_idle_secs = 0\n";
const AT_ONCE: &str = "[sessions]\nadopt_idle_secs = 0\n";

#[tokio::test]
async fn force_does_not_adopt_workspaces_of_a_connected_client() {
    let house = House::configured(AT_ONCE).await;
    let (one, two) = (house.session("one").await, house.session("two").await);
    let workspace = house.workspace("mine", one.session);
    let adopt = json!({ "workspace_id": "mine", "force": true });

    let present = house.engine.attend(one.session.unwrap());
    let refused = house.call(&two, "workspace_adopt", adopt.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotOwner);
    assert!(refused.message().contains("connected"), "{refused:?}");
    let all = house.call(&two, "workspace_adopt", json!({ "force": true })).await.unwrap();
    assert_eq!((&all.structured["adopted_count"], &all.structured["error_count"]), (&json!(0), &json!(1)));
    assert_eq!(house.owner(workspace.id), one.session);

    present.keep();
    house.call(&two, "workspace_adopt", adopt).await.unwrap();
    assert_eq!(house.owner(workspace.id), two.session);
}

#[tokio::test]
async fn strict_isolation_hides_workspaces_of_other_sessions() {
    let house = House::configured(STRICT).await;
    let (one, two) = (house.session("one").await, house.session("two").await);
    let orphan = house.workspace("orphan", None);
    house.workspace("mine", one.session);
    house.workspace("theirs", two.session);
    let list = |caller: Caller| {
        let house = &house;
        async move { house.call(&caller, "workspace_list", json!({})).await.unwrap().structured["count"].clone() }
    };
    assert_eq!(list(one.clone()).await, 1);
    assert_eq!(list(Caller::operator("test")).await, 3);
    let status = house.call(&one, "server_status", json!({})).await.unwrap();
    assert_eq!(status.structured["workspaces"], json!({ "stopped": 1 }));
    // Workspaces of others look as if they did not exist, and are not suggested.
    let unknown = house.call(&one, "workspace_ip", json!({ "workspace_id": "thei" })).await.unwrap_err();
    for (name, action) in
        [("theirs", "workspace_ip"), ("orphan", "workspace_ip"), ("orphan", "workspace_adopt")]
    {
        let refused = house.call(&one, action, json!({ "workspace_id": name })).await.unwrap_err();
        assert_eq!((refused.code(), refused.remedy()), (unknown.code(), unknown.remedy()), "{action} {name}");
        assert_eq!(refused.message(), unknown.message().replace("thei", name));
    }
    let all = house.call(&one, "workspace_adopt", json!({ "force": true })).await.unwrap();
    assert_eq!((&all.structured["adopted_count"], &all.structured["error_count"]), (&json!(0), &json!(0)));
    assert_eq!(house.owner(orphan.id), None);
    house.call(&one, "workspace_ip", json!({ "workspace_id": "mine" })).await.unwrap();
}

#[tokio::test]
async fn a_session_receives_only_events_of_its_own_workspaces() {
    for (config, orphans) in [(AT_ONCE, true), (STRICT, false)] {
        let house = House::configured(config).await;
        let (one, two) = (house.session("one").await, house.session("two").await);
        house.workspace("mine", one.session);
        house.workspace("orphan", None);
        let operator = Caller::operator("test");
        let mut events = [&operator, &one, &two].map(|caller| house.engine.subscribe(caller));
        for name in ["mine", "orphan"] {
            let rename = json!({ "workspace_id": name, "new_name": format!("{name}-2") });
            house.call(&operator, "workspace_rename", rename).await.unwrap();
            house
                .call(&operator, "workspace_destroy", json!({ "workspace_id": format!("{name}-2") }))
                .await
                .unwrap();
        }
        let (mine, orphan) =
            (["renamed mine-2", "destroyed mine-2"], ["renamed orphan-2", "destroyed orphan-2"]);
        let unowned: &[&str] = if orphans { &orphan } else { &[] };
        let expected = [[&mine[..], &orphan].concat(), [&mine, unowned].concat(), unowned.to_vec()];
        for (events, expected) in events.iter_mut().zip(expected) {
            let mut seen = Vec::new();
            // All were sent before this looks.
            while let Some(Delivered::Event(event)) = events.next().now_or_never() {
                seen.push(format!("{} {}", event.kind.as_str(), event.name));
            }
            assert_eq!(seen, expected);
        }
    }
}

#[tokio::test]
async fn a_rejected_call_reveals_nothing_about_the_workspace() {
    let house = House::configured(STRICT).await;
    let (one, two) = (house.session("one").await, house.session("two").await);
    house.workspace("theirs", two.session);
    let secret = json!({ "workspace_id": "theirs", "vars": { "DB_PASSWORD": "blauwal77" } });
    house.call(&two, "set_env", secret).await.unwrap();
    for guess in ["echo blauwal76", "echo blauwal77"] {
        let exec = json!({ "workspace_id": "theirs", "command": guess });
        house.call(&one, "exec", exec).await.unwrap_err();
    }
    let seen = house.call(&one, "timeline", json!({})).await.unwrap().structured;
    let events = seen["events"].as_array().unwrap();
    let guesses: Vec<_> = events.iter().filter(|event| event["action"] == "exec").collect();
    assert_eq!(guesses.len(), 2);
    for event in guesses {
        assert_eq!((&event["workspace_id"], &event["workspace_name"]), (&json!(null), &json!(null)));
        let command = event["detail"]["command"].as_str().unwrap();
        assert!(command.starts_with("echo blauwal7"), "a right guess must look like a wrong one: {command}");
    }
}

#[tokio::test]
async fn a_timeline_page_is_filled_with_the_callers_own_events() {
    let house = House::new().await;
    let (one, two) = (house.session("one").await, house.session("two").await);
    for _ in 0..3 {
        house.call(&one, "server_status", json!({})).await.unwrap();
    }
    for _ in 0..10 {
        house.call(&two, "server_status", json!({})).await.unwrap();
    }
    let page = house.call(&one, "timeline", json!({ "limit": 3 })).await.unwrap().structured;
    assert_eq!(page["events"].as_array().unwrap().len(), 3);
}
