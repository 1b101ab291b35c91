//! What a fork of a running workspace inherits from its source, and what it does not share.

use std::io::{Read, Write};
use std::net::Shutdown;

use serde_json::{Value, json};

use crate::echo::{connect, port_of};
use crate::http::Http;
use crate::place::Place;

/// Echoes every line of its input.
const PARROT: &str = "echo begun; while read line; do echo \"heard $line\"; done; echo over; exit 5";

/// Reports how each of its connections ended.
const WITNESS: &str = r#"exec perl -MIO::Socket::INET -e '
$| = 1;
$l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 7002, Listen => 9, ReuseAddr => 1) or die;
print "ready\n";
while ($c = $l->accept) {
  while ($n = sysread $c, $b, 65536) { print "heard $b\n"; syswrite $c, $b }
  print defined $n ? "ended\n" : "reset\n";
  close $c;
}'"#;

/// A session with a workspace and a fork of it.
struct Pair {
    session: Http,
}

impl Pair {
    fn fork(&self) {
        let forked =
            self.session.act("workspace_fork", json!({"workspace_id": "source", "new_name": "fork"}));
        assert_eq!((&forked["name"], &forked["state"]), (&json!("fork"), &json!("running")), "{forked}");
    }

    fn start(&self, command: &str) -> Value {
        let start = json!({"workspace_id": "source", "command": command, "stdin": true});
        self.session.act("exec_start", start)["job_id"].clone()
    }

    /// Waits until the output of a job is exactly this.
    fn says(&self, workspace: &str, job: &Value, said: &str) {
        let mut heard = String::new();
        while heard.len() < said.len() {
            let poll = json!({
                "workspace_id": workspace, "job_id": job, "wait": "output", "wait_secs": 300, "stdout_offset": heard.len(),
            });
            let polled = self.session.act("exec_poll", poll);
            let more = polled["stdout"].as_str().unwrap();
            assert!(!more.is_empty(), "{workspace} said {heard:?} and no more: {polled}");
            heard.push_str(more);
        }
        assert_eq!(heard, said, "{workspace}");
    }

    fn tell(&self, workspace: &str, job: &Value, words: Value) {
        let mut arguments = words;
        arguments["workspace_id"] = json!(workspace);
        arguments["job_id"] = job.clone();
        self.session.act("exec_write", arguments);
    }

    fn end(&self, workspace: &str, job: &Value) -> Value {
        let wait = json!({"workspace_id": workspace, "job_id": job, "wait": "exit", "wait_secs": 300});
        self.session.act("exec_poll", wait)
    }

    fn jobs(&self, workspace: &str) -> Vec<(Value, Value)> {
        let listed = self.session.act("exec_list", json!({"workspace_id": workspace}));
        let jobs = listed["jobs"].as_array().unwrap().iter();
        jobs.map(|job| (job["job_id"].clone(), job["running"].clone())).collect()
    }
}

fn pair(place: &Place) -> Pair {
    let session = place.session("forks");
    session.act("workspace_create", json!({"name": "source"}));
    Pair { session }
}

#[test]
fn a_running_job_continues_independently_in_a_fork_and_its_source() {
    let place = Place::new();
    let pair = pair(&place);
    let job = pair.start(PARROT);
    let ended = pair.start("echo short; exit 3");
    assert_eq!(pair.end("source", &ended)["exit_code"], 3);
    pair.tell("source", &job, json!({"data": "both\n"}));
    pair.says("source", &job, "begun\nheard both\n");
    pair.fork();

    // Its id, its output so far and its open input are inherited, and so is the job that had ended.
    assert_eq!(pair.jobs("fork"), [(job.clone(), json!(true)), (ended.clone(), json!(false))]);
    pair.says("fork", &job, "begun\nheard both\n");
    let short = pair.end("fork", &ended);
    assert_eq!((&short["stdout"], &short["exit_code"]), (&json!("short\n"), &json!(3)));

    pair.tell("fork", &job, json!({"data": "fork\n"}));
    pair.tell("source", &job, json!({"data": "source\n"}));
    pair.says("fork", &job, "begun\nheard both\nheard fork\n");
    pair.says("source", &job, "begun\nheard both\nheard source\n");

    // Ending one does not end the other.
    pair.session.act("exec_kill", json!({"workspace_id": "fork", "job_id": job, "signal": 9}));
    assert_eq!(pair.end("fork", &job)["running"], false);
    assert_eq!(pair.jobs("source")[0], (job.clone(), json!(true)));
    pair.session.act("workspace_destroy", json!({"workspace_id": "fork"}));
    pair.tell("source", &job, json!({"close": true}));
    let over = pair.end("source", &job);
    assert_eq!((&over["exit_code"], &over["running"]), (&json!(5), &json!(false)), "{over}");
    pair.says("source", &job, "begun\nheard both\nheard source\nover\n");
}

#[test]
fn an_open_connection_continues_in_the_source_and_is_reset_in_the_fork() {
    let place = Place::new();
    let pair = pair(&place);
    let job = pair.start(WITNESS);
    pair.says("source", &job, "ready\n");
    let add = json!({"workspace_id": "source", "guest_port": 7002});
    let port = port_of(&pair.session.act("port_forward_add", add));
    let mut open = connect(port);
    open.write_all(b"half a").unwrap();
    open.read_exact(&mut [0; 6]).unwrap();
    pair.fork();

    // Nothing in the fork takes half a request for a complete one.
    pair.says("fork", &job, "ready\nheard half a\nreset\n");
    assert_eq!(
        pair.session.act("port_forward_list", json!({"workspace_id": "fork"}))["forwards"],
        json!([]),
        "a host port belongs to one workspace"
    );
    open.write_all(b"request").unwrap();
    let mut answer = [0; 7];
    open.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"request");
    open.shutdown(Shutdown::Write).unwrap();
    assert_eq!(open.read(&mut [0; 1]).unwrap(), 0);
    pair.says("source", &job, "ready\nheard half a\nheard request\nended\n");

    // With its own forward, the fork's server accepts new connections.
    let add = json!({"workspace_id": "fork", "guest_port": 7002});
    let own = port_of(&pair.session.act("port_forward_add", add));
    let mut new = connect(own);
    new.write_all(b"new").unwrap();
    new.read_exact(&mut [0; 3]).unwrap();
    pair.says("fork", &job, "ready\nheard half a\nreset\nheard new\n");
}
