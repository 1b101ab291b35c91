//! Moving workspaces between installations.

use std::fs;

use crate::image::busybox_root;
use crate::place::Place;

#[test]
fn a_workspace_can_be_moved_to_another_installation_with_its_files_size_and_labels() {
    let work = tempfile::tempdir().unwrap();
    let root = work.path().join("root");
    fs::create_dir(&root).unwrap();
    busybox_root(&root);
    let file = work.path().join("web.agentiso");
    let file = file.to_str().unwrap();
    let here = Place::without_images();
    here.text(&["image", "import", "--name", "tiny", root.to_str().unwrap()]);
    let create = ["create", "--name", "web", "--image", "tiny", "--disk", "2", "--memory", "256"];
    here.json(&[&create[..], &["--label", "team=blue"]].concat());
    here.sh("web", "echo work > /data/mine; busybox chmod 700 /data/mine; busybox chown 12:34 /data/mine");
    let written = here.json(&["workspace", "export", "web", file]);
    assert_eq!(written["bytes"], fs::metadata(file).unwrap().len());
    assert_eq!(here.sh("web", "cat /data/mine"), "work", "the workspace keeps running");
    here.refused(&["workspace", "import", file]).is("workspace_exists", &["web"]);
    let directory = work.path().to_str().unwrap();
    here.refused(&["workspace", "export", "web", directory]).is("file_exists", &["directory"]);

    let there = Place::without_images();
    let mut damaged = fs::read(file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    let broken = work.path().join("broken");
    fs::write(&broken, damaged).unwrap();
    there.refused(&["workspace", "import", broken.to_str().unwrap()]).is("image_rejected", &["checksum"]);
    assert!(there.names().is_empty());
    assert_eq!(fs::read_dir(there.path().join("images")).unwrap().count(), 0);

    let made = there.json(&["workspace", "import", file, "--name", "copy"]);
    assert_eq!((&made["name"], &made["base_image"]), (&"copy".into(), &"copy-import".into()));
    assert_eq!((&made["resources"]["memory_mb"], &made["resources"]["disk_gb"]), (&256.into(), &2.into()));
    assert_eq!(there.json(&["info", "copy"])["labels"]["team"], "blue");
    let look = "cat /data/mine /data/word; echo; stat -c '%a %u %g' /data/mine; stat -c %h /data/same";
    assert_eq!(there.sh("copy", look), "work\nfrom the image\n700 12 34\n2");
}
