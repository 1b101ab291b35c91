//! Upper layers of overlays, made by the kernel.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use agentiso_store::{
    ChangeOptions, ImportOptions, Options, Root, Store, changes, import_directory, import_layer,
};

use crate::space::{in_namespace, inherited};
use crate::support::*;

#[test]
fn a_tree_with_its_upper_layer_is_what_the_overlay_shows() {
    let place = Place::new();
    fill(&place.path("lower"), 4, 4);
    write(&place.path("lower/keep/deep/file"), "untouched");
    symlink("keep", place.path("lower/link")).unwrap();
    for directory in ["upper", "work", "merged"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    let at = |name: &str| place.path(name).display().to_string();
    let options =
        format!("lowerdir={},upperdir={},workdir={},userxattr", at("lower"), at("upper"), at("work"));
    let prepare = format!("mount -t overlay overlay -o {options} {}", at("merged"));
    in_namespace(&prepare, &place, "layers::in_an_overlay");
}

#[test]
#[ignore = "another test runs it in a namespace of its own"]
fn in_an_overlay() {
    let place = inherited();
    let merged = place.join("merged");
    let store = Store::open(&place.join("store"), Options::default()).unwrap();
    let base = {
        let session = store.begin().unwrap();
        let imported = import_directory(&session, &merged, &ImportOptions::default()).unwrap();
        drop(session.commit(&[Root::Tree(imported.tree)]).unwrap());
        imported.tree
    };
    let same = |what: &str| {
        let session = store.begin().unwrap();
        let layer = import_layer(&session, base, &place.join("upper"), &ImportOptions::default()).unwrap();
        let shown = import_directory(&session, &merged, &ImportOptions::default()).unwrap();
        let options = ChangeOptions { times: true, renames: false, ..ChangeOptions::default() };
        let found = changes(&session, shown.tree, layer.tree, &options).unwrap();
        assert_eq!(found.list, [], "{what}");
        assert_eq!(shown.tree, layer.tree, "{what}");
        assert_eq!(layer.report.notice_count, 0, "{:?}", layer.report);
        let changed = changes(&session, base, layer.tree, &ChangeOptions::default()).unwrap().total;
        (changed, layer.report.files)
    };
    assert_eq!(same("nothing changed"), (0, 0));
    fs::write(merged.join("dir-0/file-0"), "changed").unwrap();
    fs::remove_file(merged.join("dir-0/file-1")).unwrap();
    fs::write(merged.join("dir-0/new"), "new").unwrap();
    assert_eq!(same("files"), (3, 2));
    fs::remove_dir_all(merged.join("dir-1")).unwrap();
    same("a directory removed");
    fs::create_dir(merged.join("dir-1")).unwrap();
    fs::write(merged.join("dir-1/only"), "only").unwrap();
    same("a directory made again is opaque");
    fs::remove_file(merged.join("link")).unwrap();
    fs::create_dir(merged.join("link")).unwrap();
    fs::remove_dir_all(merged.join("dir-2")).unwrap();
    fs::write(merged.join("dir-2"), "a file now").unwrap();
    same("kinds");
    fs::set_permissions(merged.join("dir-3"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::rename(merged.join("dir-3/file-3"), merged.join("renamed")).unwrap();
    fs::hard_link(merged.join("dir-0/new"), merged.join("linked")).unwrap();
    fs::create_dir_all(merged.join("a/b/c")).unwrap();
    same("modes, renames and links");
}
