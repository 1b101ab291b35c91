//! Imports from and exports to the host.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use agentiso_core::Code;
use agentiso_vfs::{ExportRequest, FileOp, ImportMode, ImportRequest, NodeKind, SaveCheckpoint, StateRef};

use crate::support::*;

fn with_directory() -> Place {
    let place = Place::with_vault();
    let root = place.path("in");
    fs::create_dir_all(root.join("sub/deep")).unwrap();
    fs::write(root.join("a"), "a").unwrap();
    fs::write(root.join("sub/run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(root.join("sub/run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("sub/deep/x"), "x").unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    place
}

fn mode(mode: ImportMode) -> ImportRequest {
    ImportRequest { mode, ..ImportRequest::default() }
}

#[test]
fn a_directory_is_imported_with_modes_and_links() {
    let place = with_directory();
    let done = place.vaults.import("v", &place.path("in"), &path("d/e"), &ImportRequest::default()).unwrap();
    assert_eq!((done.totals.files, done.totals.directories, done.totals.bytes), (4, 2, 12));
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    assert_eq!(view.stat(&path("d/e/sub/run.sh"), false).unwrap().mode, 0o755);
    assert_eq!(view.stat(&path("d/e/link"), false).unwrap().kind, NodeKind::Symlink);
    assert_eq!(code(view.read(&path("d/e/link"), None, 10)), Code::FileNotFound);
    assert_eq!(place.vaults.info("v").unwrap().totals, view.totals().unwrap());
}

#[test]
fn an_import_merges_replaces_or_refuses() {
    let place = with_directory();
    place.write("v", "d/a", "mine");
    place.write("v", "d/other", "mine");
    let import = |how| place.vaults.import("v", &place.path("in"), &path("d"), &mode(how));
    assert_eq!(code(import(ImportMode::New)), Code::FileExists);
    import(ImportMode::Merge).unwrap();
    assert_eq!((place.read("v", "d/a").as_str(), place.read("v", "d/other").as_str()), ("a", "mine"));
    import(ImportMode::Replace).unwrap();
    assert!(!place.texts("v").contains_key("/d/other"));
    place.vaults.undo("v", 2).unwrap();
    assert_eq!(place.read("v", "d/a"), "mine");
    place.write("v", "file", "x");
    let below = place.vaults.import("v", &place.path("in"), &path("file/x"), &mode(ImportMode::Merge));
    assert_eq!(code(below), Code::NotADirectory);
}

#[test]
fn the_root_can_be_imported_and_depth_is_limited() {
    let place = with_directory();
    place.vaults.import("v", &place.path("in"), &path(""), &mode(ImportMode::New)).unwrap();
    assert_eq!(place.read("v", "sub/deep/x"), "x");
    let flat = ImportRequest { max_depth: Some(1), ..ImportRequest::default() };
    let done = place.vaults.import("v", &place.path("in"), &path("flat"), &flat).unwrap();
    assert_eq!((done.totals.files, done.totals.directories), (2, 1));
}

#[test]
fn single_files_are_imported_and_special_ones_refused() {
    let place = with_directory();
    let import =
        |name: &str| place.vaults.import("v", &place.path(name), &path("f"), &ImportRequest::default());
    import("in/sub/run.sh").unwrap();
    assert_eq!(place.vaults.view("v", &StateRef::Now).unwrap().stat(&path("f"), false).unwrap().mode, 0o755);
    assert_eq!(code(import("in/link")), Code::InvalidArgument);
    assert_eq!(code(import("none")), Code::FileNotFound);
}

#[test]
fn an_export_is_what_was_imported() {
    let place = with_directory();
    place.vaults.import("v", &place.path("in"), &path("d"), &ImportRequest::default()).unwrap();
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    let export = |at: &str, to: &str, overwrite| {
        let request = ExportRequest { overwrite, ..ExportRequest::default() };
        place.vaults.export(&view, &path(at), &place.path(to), &request)
    };
    let done = export("d", "out", false).unwrap();
    assert_eq!((done.totals.files, done.totals.directories), (4, 2));
    assert_eq!(fs::read_link(place.path("out/link")).unwrap().to_str().unwrap(), "/etc/passwd");
    assert_eq!(code(export("d", "out", false)), Code::FileExists);
    fs::write(place.path("out/a"), "changed").unwrap();
    fs::write(place.path("out/mine"), "kept").unwrap();
    export("d", "out", true).unwrap();
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    assert_eq!(
        (read("out/a"), read("out/mine"), read("out/sub/deep/x")),
        ("a".into(), "kept".into(), "x".into())
    );
    export("d/a", "single", false).unwrap();
    assert_eq!(read("single"), "a");
    assert_eq!(code(export("d/a", "single", false)), Code::FileExists);
    let names: Vec<_> = fs::read_dir(place.dir.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
}

#[test]
fn overwriting_does_not_follow_links_of_the_destination() {
    let place = with_directory();
    place.vaults.import("v", &place.path("in"), &path(""), &ImportRequest::default()).unwrap();
    fs::create_dir_all(place.path("victim")).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    symlink(place.path("victim"), place.path("out/sub")).unwrap();
    fs::write(place.path("out/x"), "").unwrap();
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    let request = ExportRequest { overwrite: true, ..ExportRequest::default() };
    let done = place.vaults.export(&view, &path(""), &place.path("out"), &request);
    assert!(done.is_err());
    assert_eq!(fs::read_dir(place.path("victim")).unwrap().count(), 0);
}

#[test]
fn archives_go_in_and_out() {
    let place = with_directory();
    place.vaults.import("v", &place.path("in"), &path("d"), &ImportRequest::default()).unwrap();
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    let mut archive = Vec::new();
    place.vaults.export_tar(&view, &path("d"), &mut archive).unwrap();
    place.vaults.import_tar("v", archive.as_slice(), &path("again"), ImportMode::New).unwrap();
    let diff = place.vaults.view("v", &StateRef::Now).unwrap();
    let texts = place.texts("v");
    assert_eq!(texts.get("/again/sub/deep/x"), texts.get("/d/sub/deep/x"));
    assert_eq!(diff.stat(&path("again/sub/run.sh"), false).unwrap().mode, 0o755);
    assert_eq!(
        code(place.vaults.import_tar("v", b"junk".as_slice(), &path("x"), ImportMode::New)),
        Code::InvalidArgument
    );
}

#[test]
fn checkpoints_become_commits_and_commits_vaults() {
    let place = Place::with_vault();
    for text in ["1", "2"] {
        place.write("v", "f", text);
        let request = SaveCheckpoint { name: Some(format!("c{text}")), ..SaveCheckpoint::default() };
        place.vaults.save_checkpoint("v", &request).unwrap();
    }
    place.vaults.change("v", &[FileOp::write(&path("f"), "3")]).unwrap();
    let repository = place.path("repository");
    let exported = place.vaults.export_git("v", &repository, "main").unwrap();
    assert_eq!(exported.commits, 3);
    place.create("w");
    let done = place.vaults.import_git("w", &repository, "main~1", &path(""), ImportMode::New).unwrap();
    assert_eq!(place.texts("w"), map(&[("/f", "2")]));
    assert_eq!(done.commit.unwrap().len(), 40);
    assert!(place.vaults.import_git("w", &repository, "none", &path(""), ImportMode::Replace).is_err());
}
