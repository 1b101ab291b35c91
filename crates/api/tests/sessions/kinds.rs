//! Snapshots of other kinds than those that users take.

use agentiso_core::Code;
use agentiso_core::action::SnapshotKind;
use serde_json::{Value, json};

use crate::house::{House, SNAPSHOT};

fn names(listed: &Value) -> Vec<&str> {
    listed["snapshots"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_has_the_snapshots_of_users_unless_another_kind_is_asked_for() {
    let house = House::new().await;
    let agent = house.session("agent").await;
    let id = house.workspace("web", agent.session).id;
    house.set_kind(id, SNAPSHOT, SnapshotKind::Suspend);
    house.make_disk_files(id);
    let list =
        async |arguments: Value| house.call(&agent, "snapshot_list", arguments).await.unwrap().structured;
    let listed = list(json!({ "workspace_id": "web" })).await;
    assert_eq!((names(&listed), &listed["snapshots"][0]["kind"]), (vec!["web-only"], &json!("user")));
    let listed = list(json!({ "workspace_id": "web", "kind": "suspend" })).await;
    assert_eq!((names(&listed), &listed["snapshots"][0]["kind"]), (vec![SNAPSHOT], &json!("suspend")));
    let listed = list(json!({ "workspace_id": "web", "kind": "checkpoint" })).await;
    assert_eq!(names(&listed), Vec::<&str>::new());
    let shown = house.call(&agent, "workspace_info", json!({ "workspace_id": "web" })).await.unwrap();
    assert_eq!(names(&shown.structured), ["web-only"]);
    let unknown = json!({ "workspace_id": "web", "kind": "backup" });
    let refused = house.call(&agent, "snapshot_list", unknown).await.unwrap_err();
    assert!(refused.message().contains(r#""user", "suspend", "checkpoint""#), "{refused}");
}

#[tokio::test]
async fn a_snapshot_that_a_workspace_was_suspended_to_can_be_neither_restored_nor_deleted_nor_forked() {
    let house = House::new().await;
    let agent = house.session("agent").await;
    let id = house.workspace("web", agent.session).id;
    house.set_kind(id, SNAPSHOT, SnapshotKind::Suspend);
    let before = house.stored(id);
    for action in ["snapshot_restore", "snapshot_delete", "workspace_fork"] {
        let arguments = json!({ "workspace_id": "web", "snapshot_name": SNAPSHOT });
        let refused = house.call(&agent, action, arguments).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{action}: {refused}");
        assert!(refused.message().contains("suspended"), "{action}: {refused}");
        assert!(refused.remedy().unwrap().contains("workspace_resume"), "{action}");
    }
    assert_eq!(house.stored(id), before);
}
