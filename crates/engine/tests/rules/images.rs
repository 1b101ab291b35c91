//! What agents may do with images.

use agentiso_core::{Code, ImageAccess};
use serde_json::{Value, json};

use crate::world::{World, user};

/// The actions that need access to images, the access they need, and arguments.
fn actions() -> [(&'static str, ImageAccess, Value); 9] {
    use ImageAccess::{List, Manage};
    [
        ("image_list", List, json!({})),
        ("image_info", List, json!({ "name": "debian" })),
        ("image_pull", Manage, json!({ "reference": "example.org/a:1" })),
        ("image_import", Manage, json!({ "host_path": "image.tar" })),
        ("image_build", Manage, json!({ "recipe": "debian" })),
        ("image_commit", Manage, json!({ "workspace_id": "one", "name": "committed" })),
        ("image_remove", Manage, json!({ "name": "spare" })),
        ("workspace_export", Manage, json!({ "workspace_id": "one", "host_path": "one.archive" })),
        ("workspace_import", Manage, json!({ "host_path": "one.archive" })),
    ]
}

#[tokio::test]
async fn agents_do_with_images_what_the_operator_lets_them() {
    for access in [ImageAccess::Off, ImageAccess::List, ImageAccess::Manage] {
        let world = World::with(|settings| settings.image_access = access).await;
        let session = world.session("agent").await;
        world.create(&session, "one").await;
        world.host.add_image("spare", Default::default());
        for (action, needed, arguments) in actions() {
            let called = world.call(&session, action, arguments).await;
            let permitted = !matches!(&called, Err(failure) if failure.code() == Code::NotPermitted);
            assert_eq!(permitted, access >= needed, "{action} with {access:?}: {called:?}");
        }
    }
}

#[tokio::test]
async fn a_workspace_starts_from_a_known_image_whatever_agents_may_do() {
    let world = World::with(|settings| settings.image_access = ImageAccess::Off).await;
    let session = world.session("agent").await;
    world.ok(&session, "workspace_create", json!({ "base_image": "debian" })).await;
    world
        .refused(&session, "workspace_create", json!({ "base_image": "unknown" }), Code::ImageNotFound)
        .await;
}

#[tokio::test]
async fn an_image_that_workspaces_need_stays() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.refused(&user(), "image_remove", json!({ "name": "debian" }), Code::ImageInUse).await;
    world.ok(&user(), "workspace_destroy", json!({ "workspace_id": "one" })).await;
    world.ok(&user(), "image_remove", json!({ "name": "debian" })).await;
    world.refused(&user(), "workspace_create", json!({}), Code::ImageNotFound).await;
}

#[tokio::test]
async fn a_committed_image_has_the_files_of_its_workspace() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.sh(&user(), "one", "echo kept > /root/kept").await;
    let commit = json!({ "workspace_id": "one", "name": "committed" });
    world.ok(&user(), "image_commit", commit.clone()).await;
    world.refused(&user(), "image_commit", commit, Code::ImageExists).await;
    world.ok(&user(), "workspace_create", json!({ "name": "two", "base_image": "committed" })).await;
    assert_eq!(world.sh(&user(), "two", "cat /root/kept").await, "kept\n");
}

#[tokio::test]
async fn a_suspended_workspace_is_not_copied_without_what_is_in_its_memory() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "workspace_suspend", json!({ "workspace_id": "one" })).await;
    let commit = json!({ "workspace_id": "one", "name": "committed" });
    world.refused(&user(), "image_commit", commit, Code::WorkspaceNotRunning).await;
    let export =
        json!({ "workspace_id": "one", "host_path": world.records.dir().join("one").to_str().unwrap() });
    world.refused(&user(), "workspace_export", export, Code::WorkspaceNotRunning).await;
}

#[tokio::test]
async fn an_archive_brings_files_size_and_labels_back() {
    let world = World::new().await;
    let create = json!({ "name": "one", "memory_mb": 256, "disk_gb": 5, "labels": { "team": "blue" } });
    world.ok(&user(), "workspace_create", create).await;
    world.sh(&user(), "one", "echo kept > /root/kept").await;
    let path = world.records.dir().join("one.archive");
    let path = path.to_str().unwrap();
    world.ok(&user(), "workspace_export", json!({ "workspace_id": "one", "host_path": path })).await;
    world.refused(&user(), "workspace_import", json!({ "host_path": path }), Code::WorkspaceExists).await;
    let imported = world.ok(&user(), "workspace_import", json!({ "host_path": path, "name": "two" })).await;
    assert_eq!(
        (&imported["resources"]["memory_mb"], &imported["labels"]["team"]),
        (&json!(256), &json!("blue"))
    );
    assert_eq!(world.sh(&user(), "two", "cat /root/kept").await, "kept\n");
}

#[tokio::test]
async fn an_import_that_fails_leaves_no_image() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let path = world.records.dir().join("one.archive");
    let path = path.to_str().unwrap();
    world.ok(&user(), "workspace_export", json!({ "workspace_id": "one", "host_path": path })).await;
    let images = world.ok(&user(), "image_list", json!({})).await;
    world.host.faults().fail_once(agentiso_testing::fake::HostCall::Create, Code::DiskFull);
    let import = json!({ "host_path": path, "name": "two" });
    world.refused(&user(), "workspace_import", import, Code::DiskFull).await;
    world.until(async |world| world.ok(&user(), "image_list", json!({})).await == images).await;
    std::fs::write(path, "no archive").unwrap();
    let import = json!({ "host_path": path, "name": "two" });
    world.refused(&user(), "workspace_import", import, Code::ImageRejected).await;
    assert_eq!(world.names().await, ["one"]);
}
