//! What remains of an ended session, and workspaces without an owner.

use agentiso_core::Code;
use serde_json::json;

use crate::house::House;

#[tokio::test]
async fn the_files_of_a_session_are_removed_with_it() {
    let house = House::new().await;
    let (one, two) =
        (house.session("one").await.session.unwrap(), house.session("two").await.session.unwrap());
    let transfers = house.installation.paths.home.join("transfers");
    let own = |session: agentiso_core::SessionId| transfers.join("sessions").join(session.to_string());
    for session in [one, two] {
        std::fs::create_dir_all(own(session).join("deep")).unwrap();
        std::fs::write(own(session).join("deep/result"), "x").unwrap();
    }
    std::fs::write(transfers.join("operators"), "x").unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("precious"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), own(one).join("deep/link")).unwrap();

    house.engine.end_session(one).await.unwrap();
    assert!(!own(one).exists());
    assert!(own(two).join("deep/result").exists());
    assert!(transfers.join("operators").exists() && outside.path().join("precious").exists());
    assert!(house.meta.read(|read| read.ended_sessions()).unwrap().is_empty());
}

#[tokio::test]
async fn a_session_at_its_quota_can_destroy_a_workspace_without_an_owner() {
    let house = House::configured("[sessions]\nmax_workspaces = 1\n").await;
    let (one, two) = (house.session("one").await, house.session("two").await);
    house.workspace("mine", one.session);
    let theirs = house.workspace("theirs", two.session);
    let orphan = house.workspace("orphan", None);
    let full = house.call(&one, "workspace_ip", json!({ "workspace_id": "orphan" })).await.unwrap_err();
    assert_eq!(full.code(), Code::QuotaExceeded);
    let refused =
        house.call(&one, "workspace_destroy", json!({ "workspace_id": "theirs" })).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotOwner);
    assert_eq!(house.owner(theirs.id), two.session);
    house.call(&one, "workspace_destroy", json!({ "workspace_id": "orphan" })).await.unwrap();
    assert!(house.meta.read(|read| read.workspace_if_known(orphan.id)).unwrap().is_none());
}

#[tokio::test]
async fn with_strict_isolation_no_session_sees_a_workspace_without_an_owner() {
    let house = House::configured("[sessions]\nisolation = \"strict\"\n").await;
    let one = house.session("one").await;
    let orphan = house.workspace("orphan", None);
    let refused =
        house.call(&one, "workspace_destroy", json!({ "workspace_id": "orphan" })).await.unwrap_err();
    assert_eq!(refused.code(), Code::WorkspaceNotFound);
    assert!(house.meta.read(|read| read.workspace_if_known(orphan.id)).unwrap().is_some());
}
