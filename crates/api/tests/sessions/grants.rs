//! Granting workspaces to sessions.

use agentiso_core::Code;
use agentiso_engine::Caller;
use serde_json::json;

use crate::house::House;

const STRICT: &str = "[sessions]\nisolation = \"strict\"\nmax_workspaces = 1\n";

fn id(caller: &Caller) -> String {
    caller.session.unwrap().to_string()
}

#[tokio::test]
async fn only_the_owner_and_the_user_can_grant_a_workspace() {
    let house = House::configured(STRICT).await;
    let (user, one, two) = (Caller::operator("test"), house.session("one").await, house.session("two").await);
    let orphan = house.workspace("orphan", None);
    let grant = |to: &str| json!({ "workspace_id": "orphan", "session_id": to });
    let refused = house.call(&one, "workspace_grant", grant(&id(&one))).await.unwrap_err();
    assert_eq!(refused.code(), Code::WorkspaceNotFound, "a session cannot grant itself what it cannot see");

    // The user may use the beginning of an id, a session may not.
    let given = house.call(&user, "workspace_grant", grant(&id(&one)[..8])).await.unwrap();
    assert_eq!(
        (&given.structured["session_id"], &given.structured["client"]),
        (&json!(id(&one)), &json!("one"))
    );
    house.call(&one, "workspace_ip", json!({ "workspace_id": "orphan" })).await.unwrap();
    let listed = house.call(&one, "workspace_list", json!({})).await.unwrap();
    assert_eq!(listed.structured["workspaces"][0]["owned"], true);
    for unknown in [&id(&two)[..8], "", "nobody", "00000000-0000-0000-0000-000000000000"] {
        let refused = house.call(&one, "workspace_grant", grant(unknown)).await.unwrap_err();
        assert_eq!(refused.code(), Code::SessionNotFound, "{unknown}");
    }
    house.call(&one, "workspace_grant", grant(&id(&two))).await.unwrap();
    assert_eq!(house.owner(orphan.id), two.session);
    let gone = house.call(&one, "workspace_ip", json!({ "workspace_id": "orphan" })).await.unwrap_err();
    assert_eq!(gone.code(), Code::WorkspaceNotFound);

    // The new owner sees events of the user, but not those of the previous owner.
    let past = house.call(&two, "timeline", json!({ "workspace_id": "orphan" })).await.unwrap().structured;
    let actions: Vec<_> =
        past["events"].as_array().unwrap().iter().map(|event| event["client"].clone()).collect();
    assert_eq!(actions, ["test"], "{past}");

    // A grant cannot exceed the quota.
    house.workspace("mine", one.session);
    let full = house.call(&user, "workspace_grant", grant(&id(&one))).await.unwrap_err();
    assert_eq!(full.code(), Code::QuotaExceeded);
    assert_eq!(house.owner(orphan.id), two.session);
}

#[tokio::test]
async fn the_user_sees_all_sessions_and_a_session_only_itself() {
    let house = House::new().await;
    let (one, two) = (house.session("one").await, house.session("two").await);
    house.workspace("mine", one.session);
    let present = house.engine.attend(two.session.unwrap());
    let all = house.call(&Caller::operator("test"), "session_list", json!({})).await.unwrap().structured;
    let shown = |number: usize| {
        let session = &all["sessions"][number];
        (session["session_id"].clone(), session["workspaces"].clone(), session["connected"].clone())
    };
    assert_eq!(all["count"], 2);
    assert_eq!(shown(0), (json!(id(&one)), json!(1), json!(false)));
    assert_eq!(shown(1), (json!(id(&two)), json!(0), json!(true)));
    let own = house.call(&two, "session_list", json!({})).await.unwrap().structured;
    assert_eq!((&own["count"], &own["sessions"][0]["session_id"]), (&json!(1), &json!(id(&two))));
    present.keep();
}
