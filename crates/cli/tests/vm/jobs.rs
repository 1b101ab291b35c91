//! Background jobs in real machines.

use crate::common::Started;
use crate::place::Place;

#[test]
fn a_job_outlives_its_client_and_can_be_listed_read_and_waited_for() {
    let place = Place::with("web");
    let script = "echo out; echo err >&2; until [ -e /run/go ]; do sleep 0.02; done; echo last; exit 3";
    let mut command = place.command(&["--json", "jobs", "web", "start", "--", script]);
    let started: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let id = started["job_id"].to_string();
    assert!(place.text(&["jobs", "web"]).contains("\trunning\t"));
    let mut follow = Started::until(place.command(&["jobs", "web", "logs", &id, "--follow"]), "out\n");
    place.sh("web", "touch /run/go");
    let mut rest = String::new();
    std::io::Read::read_to_string(follow.0.stdout.as_mut().unwrap(), &mut rest).unwrap();
    assert_eq!((rest.as_str(), follow.finish()), ("last\n", (Some(0), "err\n".to_owned())));
    assert_eq!(place.output(&["jobs", "web", "wait", &id]).status.code(), Some(3));
    assert_eq!(place.text(&["jobs", "web", "logs", &id]), "out\nlast");
    assert!(place.text(&["jobs", "web"]).contains("\texit 3\t"));
}

#[test]
fn a_job_can_be_signalled_and_its_arguments_are_kept_separate() {
    let place = Place::with("web");
    let flags = ["jobs", "web", "start", "-e", "WORD=a b", "-w", "/tmp", "--"];
    let script = r#"trap "exit 9" USR1; echo "$PWD|$WORD|$1|$2"; while :; do sleep 0.02; done"#;
    place.text(&[&flags[..], &["sh", "-c", script, "sh", "it's", "$HOME"]].concat());
    let follow = Started::until(place.command(&["jobs", "web", "logs", "1", "-f"]), "/tmp|a b|it's|$HOME\n");
    place.refused(&["jobs", "web", "kill", "1", "NONE"]).is("invalid_argument", &["TERM"]);
    assert_eq!(place.json(&["jobs", "web", "kill", "1", "USR1"])["status"], "signalled");
    assert_eq!(follow.finish().0, Some(0));
    assert_eq!(place.output(&["jobs", "web", "wait", "1"]).status.code(), Some(9));
    assert!(place.text(&["jobs", "web", "kill", "1"]).contains("already"));
    place.refused(&["jobs", "web", "logs", "7"]).is("job_not_found", &["7"]);
}
