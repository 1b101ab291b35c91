use agentiso_core::SessionId;
use agentiso_meta::{Session, SessionKind};
use agentiso_runtime::workspaces::{CreateRequest, ForkRequest, ForkSource};
use jiff::Timestamp;
use uuid::Uuid;

use crate::common::{Home, request, silent};

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_and_forks_have_an_owner_as_soon_as_they_exist() {
    let home = Home::new().await;
    let owner = SessionId::from_uuid(Uuid::new_v4());
    let now = Timestamp::now();
    let session = Session {
        id: owner,
        kind: SessionKind::Mcp,
        client: "test".to_owned(),
        token_hash: [7; 32],
        created: now,
        last_active: now,
    };
    home.workspaces.meta().write(|tx| tx.insert_session(&session)).unwrap();
    let owner_of = |name: &str| {
        let id = home.id(name);
        home.workspaces.meta().read(|read| read.settings(id)).unwrap().owner
    };

    home.create_as(&CreateRequest { owner: Some(owner), ..request("source") }).await.unwrap();
    assert_eq!(owner_of("source"), Some(owner));
    let fork = |owner, name: &str| ForkRequest {
        workspace: home.id("source"),
        source: ForkSource::Now,
        name: Some(name.parse().unwrap()),
        count: 2,
        all_or_nothing: true,
        owner,
    };
    home.workspaces.fork(&fork(Some(owner), "mine"), &silent()).await.unwrap();
    assert_eq!([owner_of("mine-1"), owner_of("mine-2")], [Some(owner); 2]);

    // A session that has ended cannot own a workspace, and no workspace is left for others to adopt.
    let gone = SessionId::from_uuid(Uuid::new_v4());
    home.workspaces.fork(&fork(Some(gone), "lost"), &silent()).await.unwrap_err();
    let names = home.workspaces.list().unwrap();
    assert!(!names.iter().any(|workspace| workspace.name.as_str().starts_with("lost")), "{names:?}");
}
