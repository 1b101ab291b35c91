//! The image store on a real file system with the real tools.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use agentiso_core::{Code, Explain, ImageName, chain};
use agentiso_images::ext4;
use agentiso_images::store::{ImageMeta, ImageSource, ImageStore, SourceKind, StoreError};

const MIB: u64 = 1 << 20;

fn name(name: &str) -> ImageName {
    name.parse().unwrap()
}

fn meta(name: &ImageName, rootfs: &Path) -> ImageMeta {
    let superblock = ext4::superblock(rootfs).unwrap();
    ImageMeta {
        name: name.clone(),
        source: ImageSource { kind: SourceKind::Tar, reference: "x.tar".to_owned() },
        created: "2026-11-15T10:20:30Z".parse().unwrap(),
        digest: None,
        fs_bytes: superblock.bytes,
        content_bytes: 0,
        entries: 0,
        fs_uuid: superblock.uuid,
        defaults: None,
    }
}

fn debugfs(arguments: &[&str]) -> String {
    let output = Command::new("/usr/sbin/debugfs").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Creates an image of 256 MiB that contains `fill` bytes.
fn make(store: &ImageStore, image: &str, replace: bool, fill: usize) -> Result<(), StoreError> {
    let name = name(image);
    let pending = store.begin(&name, replace)?;
    ext4::make_blank(&pending.rootfs(), 256 * MIB).unwrap();
    let scratch = pending.scratch()?.join("content");
    fs::write(&scratch, vec![7; fill]).unwrap();
    let write = format!("write {} content", scratch.display());
    debugfs(&["-w", "-R", &write, pending.rootfs().to_str().unwrap()]);
    let meta = meta(&name, &pending.rootfs());
    pending.commit(&meta).map(|_| ())
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Asserts that nobody can write an image's disk and no other user can read it.
fn assert_closed(disk: &Path) {
    let mode = fs::metadata(disk).unwrap().permissions().mode();
    assert_eq!(mode & 0o727, 0o400, "{mode:o}");
}

#[test]
fn an_image_appears_only_when_it_is_complete() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path().join("images")).unwrap();
    let web = name("web");
    let pending = store.begin(&web, false).unwrap();
    ext4::make_blank(&pending.rootfs(), 64 * MIB).unwrap();
    assert!(store.list().unwrap().is_empty());
    let meta = meta(&web, &pending.rootfs());
    let image = pending.commit(&meta).unwrap();

    assert_eq!(store.list().unwrap().len(), 1);
    assert_eq!(store.get(&web).unwrap().meta, image.meta);
    assert_eq!(names(&image.directory), ["image.json", "rootfs.raw"]);
    assert_closed(&image.rootfs());
    ext4::check(&image.rootfs()).unwrap();
    store.remove(&web).unwrap();
    assert_eq!(names(&place.path().join("images")), [] as [&str; 0]);
}

#[test]
fn the_path_of_an_image_has_links_resolved() {
    let place = tempfile::tempdir().unwrap();
    let (real, link) = (place.path().canonicalize().unwrap().join("images"), place.path().join("link"));
    make(&ImageStore::open(&real).unwrap(), "web", false, 0).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let found = ImageStore::open(&link).unwrap().get(&name("web")).unwrap();
    fs::remove_file(&link).unwrap();
    assert_eq!(found.rootfs(), real.join("web/rootfs.raw"));
    assert!(found.rootfs().exists());
}

#[test]
fn a_dropped_image_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    let pending = store.begin(&name("web"), false).unwrap();
    ext4::make_blank(&pending.rootfs(), 64 * MIB).unwrap();
    drop(pending);
    assert_eq!(names(place.path()), [] as [&str; 0]);
}

#[test]
fn an_unknown_image_lists_the_known_ones_and_suggests_the_most_similar() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    let error = store.get(&name("debian")).unwrap_err();
    assert!(error.to_string().contains("none yet"), "{error}");
    make(&store, "debian", false, 0).unwrap();
    make(&store, "alpine", false, 0).unwrap();
    let error = store.get(&name("debain")).unwrap_err();
    assert_eq!(error.code(), Code::ImageNotFound);
    assert_eq!(error.to_string(), "there is no image \"debain\"; available images: alpine, debian");
    let remedy = error.remedy().unwrap();
    assert!(remedy.starts_with("did you mean \"debian\"? add it on the host"), "{remedy}");
    let remedy = store.get(&name("fedora")).unwrap_err().remedy().unwrap();
    assert!(remedy.contains("`agentiso image pull fedora`"), "{remedy}");
    let remedy = store.get(&name("debian-slim")).unwrap_err().remedy().unwrap();
    assert!(remedy.ends_with("on the host with `agentiso image build debian-slim`"), "{remedy}");
    assert_eq!(store.remove(&name("debain")).unwrap_err().code(), Code::ImageNotFound);
    let listed: Vec<String> = store.list().unwrap().iter().map(|image| image.meta.name.to_string()).collect();
    assert_eq!(listed, ["alpine", "debian"]);
}

#[test]
fn an_existing_image_is_replaced_only_on_request() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    make(&store, "web", false, 0).unwrap();
    let before = store.get(&name("web")).unwrap().meta.fs_uuid;
    assert_eq!(make(&store, "web", false, 0).unwrap_err().code(), Code::ImageExists);
    make(&store, "web", true, 0).unwrap();
    assert_ne!(store.get(&name("web")).unwrap().meta.fs_uuid, before);
    assert_eq!(names(place.path()), ["web"]);
}

#[test]
fn concurrent_creations_of_the_same_image_do_not_mix() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    let web = name("web");
    let (first, second) = (store.begin(&web, false).unwrap(), store.begin(&web, false).unwrap());
    for pending in [&first, &second] {
        ext4::make_blank(&pending.rootfs(), 64 * MIB).unwrap();
    }
    let (one, two) = (meta(&web, &first.rootfs()), meta(&web, &second.rootfs()));
    second.commit(&two).unwrap();
    assert_eq!(first.commit(&one).unwrap_err().code(), Code::ImageExists);
    assert_eq!(store.get(&web).unwrap().meta, two);
    assert_eq!(names(place.path()), ["web"]);
}

#[test]
fn leftovers_of_dead_processes_are_removed_and_work_in_progress_is_not() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    make(&store, "web", false, 0).unwrap();
    let living = store.begin(&name("alive"), false).unwrap();
    // A lock ends with its process, so a killed process leaves a directory without a lock.
    fs::create_dir_all(place.path().join(".dead.0123.partial/scratch")).unwrap();
    fs::write(place.path().join("web/.rootfs-1.77.partial"), "half").unwrap();

    ImageStore::open(place.path()).unwrap();

    assert!(living.rootfs().parent().unwrap().exists());
    drop(living);
    assert_eq!(names(place.path()), ["web"]);
    assert_eq!(names(&place.path().join("web")), ["image.json", "rootfs.raw"]);
}

#[test]
fn a_damaged_image_is_reported_hides_no_other_and_can_be_removed() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    make(&store, "good", false, 0).unwrap();
    make(&store, "bad", false, 0).unwrap();
    let rootfs = place.path().join("bad/rootfs.raw");
    fs::remove_file(&rootfs).unwrap();
    let error = store.get(&name("bad")).unwrap_err();
    assert_eq!(error.code(), Code::ImageRejected);
    assert!(error.to_string().contains("rootfs.raw"), "{error}");
    fs::write(&rootfs, "short").unwrap();
    assert!(store.get(&name("bad")).unwrap_err().to_string().contains("5 bytes"));
    fs::remove_file(place.path().join("bad/image.json")).unwrap();
    assert!(store.get(&name("bad")).unwrap_err().to_string().contains("no image.json"));
    assert_eq!(store.list().unwrap().len(), 1);
    store.remove(&name("bad")).unwrap();
    assert_eq!(names(place.path()), ["good"]);
}

#[test]
fn other_sizes_are_created_once_and_are_valid() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    make(&store, "web", false, 3 << 20).unwrap();
    let web = name("web");
    let original = store.get(&web).unwrap().rootfs();
    assert_eq!(store.sized_base(&web, 256 * MIB).unwrap(), original);
    for bytes in [2048 * MIB, 128 * MIB] {
        let base = store.sized_base(&web, bytes).unwrap();
        assert_eq!(ext4::superblock(&base).unwrap().bytes, bytes);
        assert_eq!(fs::metadata(&base).unwrap().len(), bytes);
        assert_closed(&base);
        assert!(fs::metadata(&base).unwrap().blocks() * 512 < 64 * MIB);
        ext4::check(&base).unwrap();
        let content = debugfs(&["-R", "stat content", base.to_str().unwrap()]);
        assert!(content.contains("Size: 3145728"), "{content}");
        let made = fs::metadata(&base).unwrap().ino();
        assert_eq!(fs::metadata(store.sized_base(&web, bytes).unwrap()).unwrap().ino(), made);
    }
    assert_eq!(
        names(original.parent().unwrap()),
        ["image.json", "rootfs-134217728.raw", "rootfs-2147483648.raw", "rootfs.raw"]
    );
}

#[test]
fn a_size_too_small_for_the_content_is_rejected_with_the_required_size() {
    let place = tempfile::tempdir().unwrap();
    let store = ImageStore::open(place.path()).unwrap();
    make(&store, "web", false, 100 << 20).unwrap();
    let web = name("web");
    let error = store.sized_base(&web, 64 * MIB).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(chain(&error).contains("do not fit"), "{}", chain(&error));
    let remedy = error.remedy().unwrap();
    let least: u64 = remedy.split_whitespace().find_map(|word| word.parse().ok()).unwrap();
    assert!((100..200).contains(&least), "{remedy}");
    store.sized_base(&web, (least + 1) * MIB).unwrap();
    assert_eq!(store.sized_base(&web, 64 * MIB + 1).unwrap_err().code(), Code::InvalidArgument);
    assert!(names(&place.path().join("web")).iter().all(|name| !name.starts_with('.')));
}
