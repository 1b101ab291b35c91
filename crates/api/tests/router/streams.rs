//! Actions and events as streams.

use agentiso_api::Watched;
use agentiso_client::{JobEvent, Watched as Seen};
use agentiso_core::action::WorkspaceList;
use agentiso_core::progress::Progress;
use agentiso_core::wire::{EventKind, WorkspaceEvent};
use agentiso_core::{Code, Failure};
use futures_util::StreamExt;
use serde_json::{Map, json};
use std::sync::Mutex;
use tokio::sync::mpsc;

use crate::fake::{Fake, Reply, fails};
use crate::server::Server;

#[derive(Default)]
struct Steps(Mutex<Vec<String>>);

impl Progress for Steps {
    fn step(&self, what: &str, _: Option<u64>) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    fn advance(&self, _: u64) {}

    fn done(&self, _: &str) {}
}

#[tokio::test]
async fn an_action_reports_its_progress_and_then_its_result() {
    let server = Server::at_socket(Fake::default());
    server.fake.reply("workspace_list", Reply::Reports(json!({ "a": 1 })));
    let steps = Steps::default();
    let outcome = server.client().call("workspace_list", &Map::new(), &steps).await.unwrap();
    assert_eq!((outcome, steps.0.into_inner().unwrap()), (json!({ "a": 1 }), vec!["copying".to_owned()]));
    let failure = fails(|| Failure::new(Code::DiskFull, "full").with_remedy("remove files"));
    server.fake.reply("workspace_list", failure);
    let told = server.client().act(&WorkspaceList::default()).await.unwrap_err();
    assert_eq!((told.code(), told.remedy()), (Code::DiskFull, Some("remove files")));
}

#[tokio::test]
async fn an_action_whose_client_is_gone_is_cancelled() {
    let server = Server::at_socket(Fake::default());
    server.fake.reply("workspace_list", Reply::Hangs);
    let (client, list) = (server.client(), WorkspaceList::default());
    tokio::select! {
        _ = client.act(&list) => panic!("it hangs"),
        () = server.log.wait_for("call hangs") => {}
    }
    server.log.wait_for("call dropped").await;
}

#[tokio::test]
async fn events_are_passed_on_until_the_daemon_ends() {
    let (tell, events) = mpsc::unbounded_channel();
    let fake = Fake::default();
    *fake.events.lock().unwrap() = Some(events);
    let server = Server::at_socket(fake);
    let mut watched = std::pin::pin!(server.client().watch().await.unwrap());
    let event = WorkspaceEvent {
        kind: EventKind::Created,
        workspace_id: "1".to_owned(),
        name: "web".to_owned(),
        at: "2026-01-01T00:00:00Z".to_owned(),
        note: None,
    };
    tell.send(Watched::Event(event.clone())).unwrap();
    assert_eq!(watched.next().await.unwrap().unwrap(), Seen::Event(event));
    tell.send(Watched::Missed(9)).unwrap();
    assert_eq!(watched.next().await.unwrap().unwrap(), Seen::Missed(9));
    server.end.send(true).unwrap();
    assert!(watched.next().await.is_none());
}

#[tokio::test]
async fn the_output_of_a_job_is_followed_to_its_end() {
    let server = Server::at_socket(Fake::default());
    let polled = |stdout: &str, running: bool, next: u64| {
        json!({ "job_id": 7, "running": running, "exit_code": (!running).then_some(3), "timed_out": false,
                "stdout": stdout, "stderr": "", "stdout_offset": 0, "stderr_offset": 0,
                "next_stdout_offset": next, "next_stderr_offset": 0, "more": false })
    };
    server.fake.reply("exec_poll", Reply::Outcomes(vec![polled("one", true, 3), polled("two", false, 6)]));
    let mut followed = std::pin::pin!(server.client().job_output("web", 7).await.unwrap());
    let mut printed = String::new();
    let exit_code = loop {
        match followed.next().await.unwrap().unwrap() {
            JobEvent::Output(output) => printed += &output.stdout,
            JobEvent::Exit { exit_code } => break exit_code,
        }
    };
    assert_eq!((printed.as_str(), exit_code), ("onetwo", Some(3)));
    assert!(followed.next().await.is_none());
    assert!(server.log.all()[1].contains("\"stdout_offset\":3"), "{:?}", server.log.all());
    server.fake.reply("exec_poll", fails(|| Failure::new(Code::JobNotFound, "no such job")));
    let mut followed = std::pin::pin!(server.client().job_output("web", 8).await.unwrap());
    assert_eq!(followed.next().await.unwrap().unwrap_err().code(), Code::JobNotFound);
}
