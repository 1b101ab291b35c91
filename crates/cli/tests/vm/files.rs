//! Copying files to and from real machines.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::common::{text, with_input};
use crate::place::Place;

#[test]
fn files_can_be_read_written_and_edited() {
    let place = Place::with("web");
    let write = |flags: &[&str], input: &[u8]| {
        let output = with_input(place.command(&[&["write", "web"], flags].concat()), input);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    write(&["/srv/new/script", "--mode", "750"], b"echo one\necho two\n");
    write(&["/srv/new/script", "--append"], b"echo two\n");
    assert_eq!(place.sh("web", "stat -c %a /srv/new/script; sh /srv/new/script"), "750\none\ntwo\ntwo");

    place.refused(&["edit", "web", "/srv/new/script", "echo two", "x"]).is("edit_mismatch", &[]);
    assert_eq!(place.json(&["edit", "web", "/srv/new/script", "two", "2", "--all"])["replacements"], 2);
    place.text(&["edit", "web", "/srv/new/script", "echo one", "--flag"]);
    assert_eq!(place.text(&["read", "web", "/srv/new/script"]), "--flag\necho 2\necho 2");

    // Several chunks of binary data.
    let bytes: Vec<u8> = (0..9_000_001_u32).map(|number| (number % 251) as u8).collect();
    write(&["/srv/bytes"], &bytes);
    assert!(place.output(&["read", "web", "/srv/bytes"]).stdout == bytes, "the bytes came back changed");
    assert_eq!(place.json(&["read", "web", "/srv/bytes"])["encoding"], "base64");
    place.refused(&["read", "web", "/srv/missing"]).is("file_not_found", &["/srv/missing"]);
    let output = with_input(place.command(&["write", "web", "relative"]), b"x");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn files_and_directories_are_copied_both_ways_like_cp() {
    let place = Place::with("web");
    let here = tempfile::tempdir().unwrap();
    let path = |name: &str| here.path().join(name).to_str().unwrap().to_owned();
    fs::create_dir_all(here.path().join("tree/below")).unwrap();
    fs::write(path("tree/below/file"), "deep").unwrap();
    fs::set_permissions(path("tree/below/file"), fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("below/file", path("tree/link")).unwrap();
    fs::write(path("large"), vec![b'x'; 5 << 20]).unwrap();

    place.text(&["cp", &path("tree"), "web:/srv/tree"]);
    place.text(&["cp", &path("tree"), "web:/srv/tree"]);
    place.refused(&["cp", &path("tree"), "web:/srv/none/"]).is("file_not_found", &["/srv/none/"]);
    let look = "cd /srv/tree && find . | sort && cat link && stat -c ' %a' below/file && ls tree";
    assert_eq!(
        place.sh("web", look),
        ".\n./below\n./below/file\n./link\n./tree\n./tree/below\n./tree/below/file\n./tree/link\n\
         deep 640\nbelow\nlink"
    );
    let copied = place.json(&["cp", &path("large"), "web:/root/"]);
    assert_eq!((&copied["guest_path"], &copied["bytes"]), (&"/root/large".into(), &(5 << 20).into()));

    place.text(&["cp", "web:/root/large", &path("again")]);
    assert!(fs::read(path("again")).unwrap() == fs::read(path("large")).unwrap());
    let mut command = place.command(&["cp", "web:/srv/tree/below", "."]);
    assert!(command.current_dir(here.path()).status().unwrap().success());
    assert_eq!(fs::read_to_string(path("below/file")).unwrap(), "deep");
    place.refused(&["cp", "web:/srv/missing", &path("x")]).is("file_not_found", &["/srv/missing"]);
    place.refused(&["cp", &path("missing"), "web:/srv/x"]).is("file_not_found", &["missing"]);
    place.refused(&["cp", &path("large"), &path("x")]).is("invalid_argument", &["workspace"]);
    place.refused(&["cp", &path("large"), "web:"]).is("invalid_argument", &["path"]);
}
