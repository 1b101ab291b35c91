//! What agents may do with images.

use std::os::unix::fs::symlink;

use agentiso_core::Code;
use serde_json::{Value, json};

use crate::house::House;

/// All actions that change images, with valid arguments.
fn changes(workspace: &str) -> [(&'static str, Value); 7] {
    [
        ("image_pull", json!({ "reference": "127.0.0.1:1/team/app:1" })),
        ("image_import", json!({ "host_path": "/nonexistent/archive.tar" })),
        ("image_build", json!({ "recipe": "debian-slim" })),
        ("image_commit", json!({ "workspace_id": workspace, "name": "mine" })),
        ("image_remove", json!({ "name": "debian" })),
        ("workspace_export", json!({ "workspace_id": workspace, "host_path": "/nonexistent/web" })),
        ("workspace_import", json!({ "host_path": "/nonexistent/web" })),
    ]
}

#[tokio::test]
async fn agents_can_list_images_and_change_them_only_with_permission() {
    let house = House::new().await;
    let agent = house.session("agent").await;
    let workspace = house.workspace("web", agent.session).id.to_string();
    let listed = house.call(&agent, "image_list", json!({})).await.unwrap().structured;
    assert_eq!((&listed["default_image"], &listed["may_change"]), (&json!("debian"), &json!(false)));
    assert_eq!(listed["images"], json!([]));
    assert!(listed["recipes"].as_array().unwrap().len() >= 2, "{listed}");
    let unknown = house.call(&agent, "image_info", json!({ "name": "none" })).await.unwrap_err();
    assert_eq!(unknown.code(), Code::ImageNotFound);
    for (action, arguments) in changes(&workspace) {
        let failure = house.call(&agent, action, arguments).await.unwrap_err();
        assert_eq!(failure.code(), Code::NotPermitted, "{action}: {failure}");
        assert!(failure.remedy().unwrap().contains("agents = \"manage\""), "{action}");
    }
    let operator = agentiso_engine::Caller::operator("test");
    let failure = house.call(&operator, "image_remove", json!({ "name": "debian" })).await.unwrap_err();
    assert_eq!(failure.code(), Code::ImageNotFound);
}

#[tokio::test]
async fn agents_cannot_list_images_if_that_is_off() {
    let house = House::configured("[images]\nagents = \"off\"").await;
    let agent = house.session("agent").await;
    for (action, arguments) in [("image_list", json!({})), ("image_info", json!({ "name": "debian" }))] {
        let failure = house.call(&agent, action, arguments).await.unwrap_err();
        assert_eq!(failure.code(), Code::NotPermitted, "{action}: {failure}");
    }
}

#[tokio::test]
async fn agents_can_import_only_from_their_transfer_directory() {
    let house = House::configured("[images]\nagents = \"manage\"").await;
    let agent = house.session("agent").await;
    let transfers = house.installation.paths.home.join("transfers");
    let own = transfers.join("sessions").join(agent.session.unwrap().to_string());
    std::fs::create_dir_all(own.join("directory")).unwrap();
    symlink("/etc/passwd", own.join("link.tar")).unwrap();
    // The first member looks like an image archive, and nothing else is valid.
    let mut archive = vec![0; 1024];
    archive[..13].copy_from_slice(b"manifest.json");
    archive[124..135].copy_from_slice(b"00000000000");
    archive[156] = b'0';
    archive[148..156].fill(b' ');
    let sum: u32 = archive[..512].iter().map(|byte| u32::from(*byte)).sum();
    archive[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    std::fs::write(own.join("bad.tar"), archive).unwrap();
    let cases = [
        ("/etc/passwd".to_owned(), Code::PathNotAllowed),
        (transfers.join("../config.toml").display().to_string(), Code::PathNotAllowed),
        (transfers.join("link.tar").display().to_string(), Code::PathNotAllowed),
        (transfers.join("directory").display().to_string(), Code::InvalidArgument),
        (transfers.join("none.tar").display().to_string(), Code::FileNotFound),
        (transfers.join("bad.tar").display().to_string(), Code::ImageRejected),
    ];
    for (host_path, code) in cases {
        let arguments = json!({ "host_path": host_path, "name": "mine" });
        let failure = house.call(&agent, "image_import", arguments).await.unwrap_err();
        assert_eq!(failure.code(), code, "{host_path}: {failure}");
        assert!(!failure.message().contains("/proc/"), "{failure}");
    }
    let left = std::fs::read_dir(house.installation.paths.images_dir()).unwrap().count();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_suspended_workspace_cannot_be_committed_without_its_memory() {
    let house = House::new().await;
    let workspace = house.workspace("web", None);
    let written = house.meta.write(|tx| {
        let snapshot = tx.snapshots(workspace.id)?[0].id;
        let mut settings = tx.settings(workspace.id)?;
        settings.suspended = Some(snapshot);
        tx.set_settings(workspace.id, &settings)
    });
    written.unwrap();
    let operator = agentiso_engine::Caller::operator("test");
    let place = tempfile::tempdir().unwrap();
    let calls = [
        ("image_commit", json!({ "workspace_id": "web", "name": "mine" })),
        ("workspace_export", json!({ "workspace_id": "web", "host_path": place.path().join("web") })),
    ];
    for (action, arguments) in calls {
        let failure = house.call(&operator, action, arguments).await.unwrap_err();
        assert_eq!(failure.code(), Code::WorkspaceNotRunning, "{action}: {failure}");
        assert!(failure.message().contains("suspended"), "{failure}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_pull_ends_and_leaves_nothing_when_its_client_disconnects() {
    let house = House::configured("[images]\nagents = \"manage\"").await;
    let agent = house.session("agent").await;
    let registry = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let reference = format!("{}/team/app:1", registry.local_addr().unwrap());
    let images = house.installation.paths.images_dir();
    let arguments = json!({ "reference": reference, "name": "app" });
    let mut asked = tokio::select! {
        ended = house.call(&agent, "image_pull", arguments) => panic!("it ended: {:?}", ended.err()),
        // The registry never answers the request.
        asked = registry.accept() => asked.unwrap().0,
    };
    assert_eq!(std::fs::read_dir(&images).unwrap().count(), 0);
    // The client disconnects.
    let mut rest = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut asked, &mut rest).await.unwrap();
    house.installation.images().unwrap().begin(&"app".parse().unwrap(), false).unwrap();
}

#[tokio::test]
async fn workspace_archives_are_checked_before_anything_is_created() {
    let house = House::configured("[images]\nagents = \"manage\"\n[limits]\nmax_vcpus = 4").await;
    let agent = house.session("agent").await;
    house.workspace("taken", None);
    let home = house.installation.paths.home.clone();
    let own = home.join("transfers/sessions").join(agent.session.unwrap().to_string());
    std::fs::create_dir_all(&own).unwrap();
    let archive = |name: &str, vcpus: u32| {
        let description = json!({
            "name": name, "image": "debian", "vcpus": vcpus, "memory_mb": 512, "disk_gb": 10,
            "created": "2026-11-15T10:20:30Z", "exported": "2026-11-15T10:20:30Z",
        });
        let text = description.to_string();
        let mut bytes = b"agentiso-wspace\n".to_vec();
        bytes.extend_from_slice(&1_u32.to_le_bytes());
        bytes.extend_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    };
    let cases = [
        ("taken", archive("taken", 1), Code::WorkspaceExists),
        ("large", archive("large", 5), Code::InvalidArgument),
        ("climbs", archive("../../etc", 1), Code::ImageRejected),
        ("short", archive("web", 1)[..60].to_vec(), Code::ImageRejected),
        ("text", b"hello".to_vec(), Code::ImageRejected),
    ];
    for (name, bytes, code) in cases {
        std::fs::write(own.join(name), bytes).unwrap();
        let arguments = json!({ "host_path": home.join("transfers").join(name) });
        let failure = house.call(&agent, "workspace_import", arguments).await.unwrap_err();
        assert_eq!(failure.code(), code, "{name}: {failure}");
        assert!(!failure.message().contains("/proc/"), "{failure}");
    }
    let outside = json!({ "workspace_id": "taken", "host_path": "/etc/agentiso-export" });
    let failure = house.call(&agent, "workspace_export", outside).await.unwrap_err();
    assert_eq!(failure.code(), Code::PathNotAllowed, "{failure}");
    assert_eq!(std::fs::read_dir(house.installation.paths.images_dir()).unwrap().count(), 0);
}
