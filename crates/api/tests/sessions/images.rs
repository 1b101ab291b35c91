//! What agents may do with images.

use std::os::unix::fs::symlink;

use agentiso_core::Code;
use serde_json::{Value, json};

use crate::house::House;

/// Everything that changes images, with arguments that are right.
fn changes(workspace: &str) -> [(&'static str, Value); 5] {
    [
        ("image_pull", json!({ "reference": "127.0.0.1:1/team/app:1" })),
        ("image_import", json!({ "host_path": "/nonexistent/archive.tar" })),
        ("image_build", json!({ "recipe": "debian-slim" })),
        ("image_commit", json!({ "workspace_id": workspace, "name": "mine" })),
        ("image_remove", json!({ "name": "debian" })),
    ]
}

#[tokio::test]
async fn agents_list_images_and_change_none_unless_the_operator_lets_them() {
    let house = House::new().await;
    let agent = house.session("agent");
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
async fn agents_do_not_even_list_images_where_that_is_off() {
    let house = House::configured("[images]\nagents = \"off\"").await;
    let agent = house.session("agent");
    for (action, arguments) in [("image_list", json!({})), ("image_info", json!({ "name": "debian" }))] {
        let failure = house.call(&agent, action, arguments).await.unwrap_err();
        assert_eq!(failure.code(), Code::NotPermitted, "{action}: {failure}");
    }
}

#[tokio::test]
async fn agents_that_may_import_read_only_files_in_their_transfer_directory() {
    let house = House::configured("[images]\nagents = \"manage\"").await;
    let agent = house.session("agent");
    let transfers = house.engine.installation().paths.home.join("transfers");
    let own = transfers.join("sessions").join(agent.session.unwrap().to_string());
    std::fs::create_dir_all(own.join("directory")).unwrap();
    symlink("/etc/passwd", own.join("link.tar")).unwrap();
    // An archive of an image, as its first member says, and nothing else is right about it.
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
    let left = std::fs::read_dir(house.engine.installation().paths.images_dir()).unwrap().count();
    assert_eq!(left, 0);
}
