//! Sandboxes that stay.

use serde_json::{Value, json};

use crate::place::Place;

fn start(place: &Place) -> String {
    place.work("session", &["session", "start"])["session"].as_str().unwrap().to_owned()
}

fn exec(place: &Place, session: &str, words: &[&str]) -> (i32, Value) {
    let done = place.avfs(&[&["--json", "session", "exec", session], words].concat());
    (done.code, done.value("proxy_exec_result"))
}

#[test]
fn commands_share_a_sandbox_and_each_has_its_own_envelope() {
    let place = Place::with_vault();
    place.write("/a", "x");
    let session = start(&place);
    let (code, first) = exec(&place, &session, &["--shell", "echo y > b; echo t > /tmp/kept; cat a"]);
    assert_eq!((code, first["result"]["stdout"].as_str()), (0, Some("x")));
    assert_eq!(first["result"]["changed_files"], json!(["/b"]));
    assert!(first["result"]["checkpoint"].is_string());
    assert_eq!(place.cat("/b"), "y\n", "it is in the vault at once");
    let (code, second) = exec(&place, &session, &["--shell", "cat /tmp/kept; rm b; exit 4"]);
    assert_eq!((code, second["result"]["stdout"].as_str()), (4, Some("t\n")));
    assert_eq!(second["result"]["changed_files"], json!(["/b"]));
    assert_eq!(second["result"]["changes"][0]["kind"], "deleted");
    assert_eq!(place.json("session_list", &["session", "ls"])[0]["session"], session.as_str());
    assert_eq!(place.json("session", &["session", "end", &session])["state"], "ended");
    assert_eq!(place.json("session_list", &["session", "ls"]), json!([]));
    assert_eq!(place.json("vault_info", &["vault", "info", "work"])["uses"], 0);
}

#[test]
fn the_policy_holds_in_a_session() {
    let place = Place::with_vault();
    let session = start(&place);
    assert_eq!(exec(&place, &session, &["--", "cat", "/etc/passwd"]).0, 126);
    assert_eq!(exec(&place, &session, &["--", "no-such-program"]).0, 127);
    assert_eq!(exec(&place, &session, &["--timeout", "300", "--", "sleep", "100"]).0, 124);
    let (code, envelope) = exec(&place, &session, &["--", "curl", "https://example.com"]);
    assert_eq!((code, envelope["result"]["error"]["code"].as_str()), (125, Some("unsupported")));
    // It still works afterwards.
    assert_eq!(exec(&place, &session, &["--", "true"]).0, 0);
    place.json("session", &["session", "end", &session]);
}

#[test]
fn standard_input_reaches_a_command_in_a_session() {
    let place = Place::with_vault();
    let session = start(&place);
    let words = ["--json", "session", "exec", &session, "--stdin", "--", "wc", "-c"];
    let done = place.avfs_with_input(&words, b"12345");
    assert_eq!(done.value("proxy_exec_result")["result"]["stdout"].as_str().unwrap().trim(), "5");
    place.json("session", &["session", "end", &session]);
}

#[test]
fn a_session_that_does_not_run_is_an_error() {
    let place = Place::with_vault();
    for id in ["0190", "../x", ""] {
        let (code, envelope) = exec(&place, id, &["--", "true"]);
        assert_eq!(
            (code, envelope["result"]["error"]["code"].as_str()),
            (125, Some("session_not_found")),
            "{id:?}"
        );
        place.fails("session_not_found", &["session", "end", "--", id]);
    }
    // One whose server was killed is forgotten, and what was answered is kept.
    let session = start(&place);
    exec(&place, &session, &["--shell", "echo kept > f"]);
    let pid = place.json("session_list", &["session", "ls"])[0]["pid"].as_i64().unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // Its files are closed once it is a zombie, not when it has no program any more.
    let runs = |stat: &String| !stat.rsplit_once(") ").unwrap().1.starts_with('Z');
    while std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))
        .is_ok_and(|stat| runs(&stat))
    {
        std::thread::yield_now();
    }
    assert_eq!(place.json("session_list", &["session", "ls"]), json!([]));
    assert_eq!(place.cat("/f"), "kept\n");
}

#[test]
fn a_session_whose_command_kills_its_sandbox_ends_and_lets_go_of_its_vault() {
    let place = Place::with_vault();
    let session = start(&place);
    let (_, killed) = exec(&place, &session, &["--shell", "echo x > a; kill -9 -1; echo y > b"]);
    let mut last = killed;
    // The process that watches the sandbox may be found dead only by the next command.
    for _ in 0..2 {
        if last["result"]["error"]["code"] == "session_not_found" {
            break;
        }
        last = exec(&place, &session, &["--", "true"]).1;
    }
    assert_eq!(last["result"]["error"]["code"], "session_not_found", "{last}");
    assert_eq!(place.json("session_list", &["session", "ls"]), json!([]));
    assert_eq!(place.cat("/a"), "x\n");
}
