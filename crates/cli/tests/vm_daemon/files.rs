//! Files in a workspace, and transfers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::http::Http;
use crate::place::Place;

/// A session and its workspace.
struct Desk {
    session: Http,
    place: Place,
}

impl Desk {
    fn new() -> Self {
        let place = Place::new();
        let session = place.session("files");
        session.act("workspace_create", json!({"name": "desk"}));
        Self { session, place }
    }

    fn act(&self, action: &str, mut arguments: Value) -> Value {
        arguments["workspace_id"] = json!("desk");
        self.session.act(action, arguments)
    }

    fn refused(&self, action: &str, mut arguments: Value, code: &str, words: &[&str]) {
        arguments["workspace_id"] = json!("desk");
        self.session.refused(action, arguments).is(code, words);
    }

    fn sh(&self, script: &str) -> String {
        self.session.sh("desk", script)
    }
}

#[test]
fn files_can_be_written_read_edited_found_moved_and_deleted() {
    let desk = Desk::new();
    reading_and_writing(&desk);
    editing(&desk);
    finding(&desk);
    moving_and_deleting(&desk);
}

fn reading_and_writing(desk: &Desk) {
    let text = "one\ntwo\nthree\nfour ä\nfive\n";
    desk.act("file_write", json!({"path": "/d/e/text", "content": text, "mode": "0640"}));
    assert_eq!(desk.sh("stat -c %a /d/e/text"), "640");
    let read = |arguments: Value| {
        let mut arguments = arguments;
        arguments["path"] = json!("/d/e/text");
        desk.act("file_read", arguments)
    };
    let whole = read(json!({}));
    assert_eq!((&whole["content"], &whole["truncated"]), (&json!(text), &json!(false)));
    let lines = read(json!({"start_line": 2, "end_line": 3}));
    assert_eq!((&lines["content"], &lines["start_line"]), (&json!("two\nthree\n"), &json!(2)));
    assert_eq!(read(json!({"start_line": 5}))["content"], "five\n");
    assert_eq!(read(json!({"start_line": 9}))["content"], "");
    let part = read(json!({"offset": 4, "limit": 3}));
    assert_eq!((&part["content"], &part["truncated"]), (&json!("two"), &json!(true)));
    assert_eq!(read(json!({"offset": 14, "limit": 6}))["content"], "four ", "no character is cut");
    assert_eq!(read(json!({"offset": 1000}))["content"], "");
    desk.act("file_write", json!({"path": "/d/e/text", "content": "six\n", "append": true}));
    assert_eq!(read(json!({"start_line": 6}))["content"], "six\n");
    for wrong in
        [json!({"start_line": 0}), json!({"start_line": 3, "end_line": 2}), json!({"encoding": "latin1"})]
    {
        let mut wrong = wrong;
        wrong["path"] = json!("/d/e/text");
        desk.refused("file_read", wrong, "invalid_argument", &[]);
    }

    desk.act("file_write", json!({"path": "/d/binary", "content": "AP8Q/w==", "encoding": "base64"}));
    assert_eq!(desk.sh("od -An -tx1 /d/binary"), " 00 ff 10 ff");
    desk.refused("file_read", json!({"path": "/d/binary"}), "file_not_text", &["base64"]);
    let binary = desk.act("file_read", json!({"path": "/d/binary", "encoding": "base64"}));
    assert_eq!((&binary["content"], &binary["size"]), (&json!("AP8Q/w=="), &json!(4)));
    let broken = json!({"path": "/d/binary", "content": "!", "encoding": "base64"});
    desk.refused("file_write", broken, "invalid_argument", &["base64"]);
    for path in ["relative", "", "/a\0b"] {
        desk.refused("file_read", json!({"path": path}), "invalid_argument", &["absolute"]);
    }
    desk.refused("file_read", json!({"path": "/d"}), "invalid_argument", &["/d"]);
    desk.refused("file_read", json!({"path": "/no/such"}), "file_not_found", &["/no/such"]);
    desk.refused(
        "file_write",
        json!({"path": "/d/x", "content": "", "mode": "9"}),
        "invalid_argument",
        &["mode"],
    );
    let large = "x".repeat((16 << 20) + 1);
    desk.refused(
        "file_write",
        json!({"path": "/d/x", "content": large}),
        "file_too_large",
        &["file_transfer"],
    );
    assert_eq!(desk.sh("ls /d"), "binary\ne", "rejected calls left nothing");
    // Files in /proc have no size and can be read anyway.
    let version = desk.act("file_read", json!({"path": "/proc/version"}));
    assert!(version["content"].as_str().unwrap().starts_with("Linux version"), "{version}");
}

fn editing(desk: &Desk) {
    let path = "/d/edit";
    let content = || desk.act("file_read", json!({"path": path}))["content"].clone();
    desk.act("file_write", json!({"path": path, "content": "a b a c\n", "mode": "755"}));
    let edit = |old: &str, new: &str| json!({"path": path, "old_string": old, "new_string": new});
    let unique = json!({"path": path, "old_string": "a", "new_string": "x", "expect_unique": true});
    desk.refused("file_edit", unique, "edit_mismatch", &["2 times", "replace_all"]);
    let first = desk.act("file_edit", edit("a", "x"));
    assert_eq!((&first["replacements"], &first["matches"]), (&json!(1), &json!(2)));
    assert_eq!(content(), "x b a c\n");
    desk.act("file_edit", edit("x", "a"));
    desk.refused("file_edit", edit("z", "x"), "edit_mismatch", &["not in"]);
    desk.refused("file_edit", edit("", "x"), "invalid_argument", &["empty"]);
    desk.refused("file_edit", edit("b", "b"), "invalid_argument", &["same"]);
    desk.refused("file_edit", json!({"path": path, "old_string": "b"}), "invalid_argument", &["new_string"]);
    let several = json!([{"old_string": "b", "new_string": "B"}, {"old_string": "z", "new_string": "Z"}]);
    desk.refused("file_edit", json!({"path": path, "edits": several}), "edit_mismatch", &["edit 2"]);
    assert_eq!(content(), "a b a c\n", "all or nothing");
    let several = json!([
        {"old_string": "b", "new_string": "B"},
        {"old_string": "B a", "new_string": "!"},
        {"old_string": "a", "new_string": "A", "replace_all": true},
    ]);
    assert_eq!(desk.act("file_edit", json!({"path": path, "edits": several}))["replacements"], 3);
    assert_eq!(content(), "A ! c\n");
    let mut all = edit(" ", "  ");
    all["replace_all"] = json!(true);
    assert_eq!(desk.act("file_edit", all)["replacements"], 2);
    assert_eq!((content(), desk.sh("stat -c %a /d/edit")), (json!("A  !  c\n"), "755".to_owned()));
    desk.refused(
        "file_edit",
        json!({"path": "/d/none", "old_string": "a", "new_string": "b"}),
        "file_not_found",
        &[],
    );
}

fn finding(desk: &Desk) {
    desk.sh(
        "mkdir -p /s/src/deep /s/.git; cd /s; echo 'fn main() {}' > src/main.rs; echo 'fn Deep() {}' > src/deep/a.rs; \
         echo 'int main;' > src/x.c; echo 'main secret' > .git/config; ln -s /s/src loop; printf 'main\\0' > src/bin",
    );
    let found = |arguments: Value| {
        let mut arguments = arguments;
        arguments["path"] = json!("/s");
        let found = desk.act("file_glob", arguments);
        let names = found["files"].as_array().unwrap().iter();
        names.map(|file| file["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(json!({"pattern": "**/*.rs"})), ["/s/src/deep/a.rs", "/s/src/main.rs"]);
    assert_eq!(found(json!({"pattern": "src/*.{c,rs}"})), ["/s/src/main.rs", "/s/src/x.c"]);
    assert!(found(json!({"pattern": "**/config"})).is_empty());
    assert_eq!(found(json!({"pattern": "**/config", "hidden": true})), ["/s/.git/config"]);
    let one = desk.act("file_glob", json!({"path": "/s", "pattern": "**/*.rs", "max_results": 1}));
    assert_eq!((one["files"].as_array().unwrap().len(), &one["truncated"]), (1, &json!(true)));
    desk.refused("file_glob", json!({"path": "/s", "pattern": "[a"}), "invalid_argument", &[]);

    let matches = |arguments: Value| {
        let mut arguments = arguments;
        arguments["path"] = json!("/s");
        let found = desk.act("file_grep", arguments);
        let lines = found["matches"].as_array().unwrap().iter();
        lines
            .map(|one| format!("{}:{}", one["path"].as_str().unwrap(), one["line_number"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(matches(json!({"pattern": "main"})), ["/s/src/main.rs:1", "/s/src/x.c:1"]);
    assert_eq!(matches(json!({"pattern": "^fn [A-Z]"})), ["/s/src/deep/a.rs:1"]);
    assert_eq!(matches(json!({"pattern": "DEEP", "ignore_case": true})), ["/s/src/deep/a.rs:1"]);
    assert_eq!(
        matches(json!({"pattern": "() {}", "fixed": true, "glob": "**/main.*"})),
        ["/s/src/main.rs:1"]
    );
    let found = desk.act("file_grep", json!({"path": "/s/src/x.c", "pattern": "main"}));
    assert_eq!(found["matches"][0]["path"], "/s/src/x.c", "a file may be searched itself: {found}");
    desk.refused("file_grep", json!({"path": "/s", "pattern": "("}), "invalid_argument", &[]);
    desk.refused(
        "file_grep",
        json!({"path": "/s", "pattern": "x", "context": 11}),
        "invalid_argument",
        &["context"],
    );
    let listed = desk.act("file_list", json!({"path": "/s", "limit": 1}));
    assert_eq!((&listed["entries"][0]["name"], &listed["total"]), (&json!(".git"), &json!(3)));
    assert_eq!(listed["truncated"], true);
    let link = desk.act("file_stat", json!({"path": "/s/loop"}));
    assert_eq!((&link["entry"]["kind"], &link["entry"]["target"]), (&json!("symlink"), &json!("/s/src")));
    assert_eq!(desk.act("file_stat", json!({"path": "/s/none"}))["exists"], false);
}

fn moving_and_deleting(desk: &Desk) {
    desk.act("file_mkdir", json!({"path": "/m/a/b", "mode": "0700"}));
    desk.act("file_mkdir", json!({"path": "/m/a/b"}));
    assert_eq!(desk.sh("stat -c %a /m/a/b"), "700");
    desk.sh("echo 1 > /m/one; echo 2 > /m/two");
    let to_two = json!({"path": "/m/one", "new_path": "/m/two"});
    desk.refused("file_move", to_two.clone(), "file_exists", &["/m/two"]);
    assert_eq!(desk.sh("cat /m/one /m/two"), "1\n2");
    let mut over = to_two;
    over["overwrite"] = json!(true);
    desk.act("file_move", over);
    assert_eq!(desk.sh("ls /m; cat /m/two"), "a\ntwo\n1");
    desk.refused("file_move", json!({"path": "/m/none", "new_path": "/m/x"}), "file_not_found", &[]);
    desk.refused("file_mkdir", json!({"path": "/m/two/x"}), "not_a_directory", &["/m/two/x"]);
    desk.refused("file_delete", json!({"path": "/m/a"}), "invalid_argument", &["/m/a"]);
    desk.act("file_delete", json!({"path": "/m/a", "recursive": true}));
    desk.act("file_delete", json!({"path": "/m/two"}));
    desk.refused("file_delete", json!({"path": "/m/two"}), "file_not_found", &[]);
    desk.refused("file_delete", json!({"path": "/", "recursive": true}), "invalid_argument", &[]);
    desk.sh("mkdir /m/target; touch /m/target/kept; ln -s /m/target /m/link");
    desk.act("file_delete", json!({"path": "/m/link", "recursive": true}));
    assert_eq!(desk.sh("ls /m /m/target"), "/m:\ntarget\n\n/m/target:\nkept");
}

#[test]
fn transfers_stay_within_the_transfer_directory() {
    let desk = Desk::new();
    let transfers = desk.place.path().join("transfers");
    let outside = desk.place.path().join("outside");
    fs::create_dir_all(transfers.join("in/sub")).unwrap();
    fs::create_dir_all(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let large: Vec<u8> = (0..3_000_000u32).map(|index| index.to_le_bytes()[0]).collect();
    fs::write(transfers.join("in/large"), &large).unwrap();
    fs::write(transfers.join("in/sub/run"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(transfers.join("in/sub/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("sub/run", transfers.join("in/link")).unwrap();
    symlink(&outside, transfers.join("in/way-out")).unwrap();
    let transfer = |direction: &str, host: &str, guest: &str| json!({"direction": direction, "host_path": transfers.join(host), "guest_path": guest});
    let sent = desk.act("file_transfer", transfer("upload", "in", "/up"));
    assert_eq!(sent["bytes"], 3_000_010, "links are sent as links: {sent}");
    let seen =
        "cd /up; find . -type f -o -type l | sort; stat -c %a sub/run; readlink link; readlink way-out";
    let links = format!("sub/run\n{}", outside.display());
    assert_eq!(desk.sh(seen), format!("./large\n./link\n./sub/run\n./way-out\n755\n{links}"));
    desk.sh("chmod 4755 /up/sub/run; mkfifo /up/pipe");
    // An agent's downloads go to a directory of its session.
    let received = desk.act("file_transfer", transfer("download", "out", "/up"));
    let out = std::path::PathBuf::from(received["host_path"].as_str().unwrap());
    let own = out.parent().unwrap();
    assert!(own.starts_with(transfers.join("sessions")), "{}", out.display());
    assert!(fs::read(out.join("large")).unwrap() == large);
    assert_eq!(fs::read_link(out.join("link")).unwrap().to_str(), Some("sub/run"));
    let mode = fs::metadata(out.join("sub/run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no special bits come out");
    assert!(!out.join("pipe").exists());
    desk.refused("file_transfer", transfer("download", "out", "/up"), "file_exists", &["out"]);

    // All escapes are blocked, in both directions.
    for path in
        ["../outside/secret", "in/../../outside/secret", "in/way-out/secret", "out/way-out/new", "in/way-out"]
    {
        for direction in ["upload", "download"] {
            // The operator's files do not affect what an agent writes.
            if path.starts_with("in/way-out") && direction == "download" {
                continue;
            }
            desk.refused("file_transfer", transfer(direction, path, "/up/link"), "path_not_allowed", &[]);
        }
    }
    for path in ["/etc/passwd", "/etc", "/"] {
        let absolute = json!({"direction": "upload", "host_path": path, "guest_path": "/stolen"});
        desk.refused("file_transfer", absolute, "path_not_allowed", &[]);
    }
    desk.refused("file_transfer", transfer("sideways", "in", "/up"), "invalid_argument", &["direction"]);
    desk.refused("file_transfer", transfer("upload", "none", "/up"), "file_not_found", &["none"]);
    desk.refused("file_transfer", transfer("download", "x", "/none"), "file_not_found", &["/none"]);
    assert_eq!(desk.sh("ls /stolen 2>/dev/null || echo none"), "none");
    // A link at the destination is replaced and not followed.
    desk.act("file_transfer", transfer("download", "out/way-out", "/etc/hostname"));
    assert!(fs::symlink_metadata(out.join("way-out")).unwrap().is_file());
    assert!(fs::symlink_metadata(transfers.join("in/way-out")).unwrap().is_symlink());
    let left: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["secret"]);
    let mut here: Vec<_> = fs::read_dir(own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    here.sort();
    assert_eq!(here, ["out"], "nothing incomplete is left");
}
