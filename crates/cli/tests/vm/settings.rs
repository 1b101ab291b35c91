//! Settings of workspaces: names, labels, variables, ports, suspension.

use std::io::Read;
use std::net::TcpStream;

use crate::common::{Started, text};
use crate::place::{Counter, Place};

#[test]
fn a_workspace_can_be_renamed_and_labelled() {
    let place = Place::with("web");
    place.json(&["rename", "web", "shop"]);
    assert_eq!((place.names(), place.sh("shop", "hostname")), (vec!["shop".to_owned()], "shop".to_owned()));
    place.refused(&["rename", "shop", "a_b"]).is("invalid_argument", &["a_b"]);
    assert_eq!(place.text(&["label", "shop", "team=blue", "stage=test"]), "stage=test, team=blue");
    assert_eq!(place.text(&["label", "shop", "stage-"]), "team=blue");
    assert_eq!(place.json(&["label", "shop"])["labels"]["team"], "blue");
    place.refused(&["label", "shop", "team"]).is("invalid_argument", &["KEY=VALUE"]);
}

#[test]
fn variables_reach_every_command_and_are_never_shown() {
    let place = Place::with("web");
    let mut command = place.command(&["env", "web", "STAGE=test one", "TOKEN"]);
    let output = command.env("TOKEN", "hush-hush").output().unwrap();
    assert_eq!(text(&output.stdout), "STAGE\nTOKEN");
    assert_eq!(place.sh("web", "echo $STAGE $TOKEN"), "test one hush-hush");
    assert_eq!(place.text(&["env", "web", "STAGE-"]), "TOKEN");
    assert_eq!(place.sh("web", "echo ${STAGE:-none}"), "none");
    place
        .refused(&["env", "web", "NO_SUCH_VARIABLE_HERE"])
        .is("invalid_argument", &["not set in this environment"]);
    for words in [&["info", "web"][..], &["timeline"], &["env", "web"]] {
        assert!(!place.text(words).contains("hush"), "{words:?}");
        assert!(!place.json(words).to_string().contains("hush"), "{words:?}");
    }
}

#[test]
fn a_port_is_forwarded_until_it_is_removed() {
    let place = Place::with("web");
    let server = "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(LocalPort => 7777, Listen => 5); \
                  $| = 1; print \"up\\n\"; while ($c = $s->accept) { print $c \"hello\\n\"; close $c }'";
    place.text(&["jobs", "web", "start", "--", server]);
    drop(Started::until(place.command(&["jobs", "web", "logs", "1", "-f"]), "up\n"));
    let port = place.json(&["forward", "web", "7777"])["host_port"].as_u64().unwrap();
    let mut said = String::new();
    let mut stream = TcpStream::connect(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello\n");
    assert_eq!(place.text(&["forward", "web", "--ls"]), format!("HOST\tPORT\n127.0.0.1:{port}\t7777"));
    place.refused(&["forward", "web", "7778", "80"]).is("port_unavailable", &["80"]);
    assert_eq!(place.json(&["forward", "web", "--rm", "7777"])["removed"], true);
    assert_eq!(place.json(&["forward", "web", "--rm", "7777"])["removed"], false);
    assert_eq!(place.json(&["forward", "web", "--ls"])["forwards"].as_array().unwrap().len(), 0);
}

#[test]
fn a_suspended_workspace_has_no_process_and_resumes_where_it_was() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    let (before, pid) = (counter.beyond(3), counter.pid());
    assert_eq!(place.json(&["suspend", "web"])["state"], "suspended");
    assert!(place.processes().is_empty());
    assert!(place.text(&["ls", "--state", "suspended"]).contains("web\tsuspended\t"));
    // It resumes when it is used.
    counter.beyond(before);
    assert_eq!(place.json(&["info", "web"])["state"], "running");
    counter.is_gapless();
    assert_eq!(counter.pid(), pid);
}

#[test]
fn a_suspended_workspace_can_be_forked_resumed_and_suspended_again() {
    let place = Place::with("web");
    place.sh("web", "echo kept > /dev/shm/file");
    place.json(&["suspend", "web"]);
    place.json(&["fork", "web", "--name", "twin"]);
    place.json(&["resume", "web"]);
    for one in ["web", "twin"] {
        assert_eq!(place.sh(one, "cat /dev/shm/file"), "kept");
    }
    place.json(&["suspend", "web"]);
    place.json(&["start", "web"]);
    assert_eq!(place.sh("web", "cat /dev/shm/file"), "kept");
    // The suspend snapshot is internal and not listed.
    assert_eq!(place.json(&["snapshot", "ls", "web"])["snapshots"].as_array().unwrap().len(), 0);
    // Its name is none that users could want.
    place.json(&["snapshot", "create", "web", "suspended"]);
    place.json(&["snapshot", "rm", "web", "suspended"]);
    place.refused(&["fork", "web", "suspended"]).is("snapshot_not_found", &["suspended"]);
}
