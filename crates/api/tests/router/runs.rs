//! Commands with a workspace of their own: it is destroyed whatever happens.

use agentiso_client::{ExecEvent, ExecStream};
use agentiso_core::action::Tier;
use agentiso_core::wire::{ExecWord, ProgressWord, RunSpec, RunWorkspace};
use agentiso_core::{Code, Failure};

use crate::commands::{cat, rest, started};
use crate::fake::{Fake, Reply, Script, fails};
use crate::server::Server;

async fn run(server: &Server) -> ExecStream {
    let workspace = RunWorkspace { base_image: Some("alpine".to_owned()), ..RunWorkspace::default() };
    server.client().run(&RunSpec { workspace, command: cat() }).await.unwrap()
}

/// Checks that the workspace was created and destroyed once.
fn destroyed_once(server: &Server) {
    let log = server.log.all();
    assert_eq!(log[0], "operator tests/1 create Some(\"alpine\")");
    assert_eq!(log.iter().filter(|entry| *entry == "workspace destroyed").count(), 1, "{log:?}");
}

#[tokio::test]
async fn the_workspace_is_gone_when_the_last_word_is_heard() {
    let server = Server::at_socket(Fake::default());
    let (mut input, mut output) = run(&server).await.split();
    let ExecWord::Started { machine: Some(machine), .. } = started(&mut output).await else { panic!() };
    assert_eq!((machine.tier, machine.base_image.as_str()), (Tier::Pool, "debian"));
    input.write("hello").await;
    input.end().await;
    let (printed, word) = rest(&mut output).await;
    destroyed_once(&server);
    assert_eq!(printed, b"hello");
    assert!(matches!(word, ExecWord::Exit(exit) if exit.code == Some(0)), "{word:?}");
    assert!(server.log.all().contains(&"operator tests/1 exec one-shot cat".to_owned()));
}

#[tokio::test]
async fn the_workspace_is_destroyed_if_the_command_cannot_run_or_its_machine_crashes() {
    for (script, code) in [(Script::NotFound, Code::GuestFailed), (Script::Crashes, Code::VmCrashed)] {
        let server = Server::at_socket(Fake::default());
        server.fake.run_script(script);
        let (_input, mut output) = run(&server).await.split();
        let (_, word) = rest(&mut output).await;
        destroyed_once(&server);
        assert!(matches!(word, ExecWord::Error { ref fields, .. } if fields.code == code), "{word:?}");
    }
}

#[tokio::test]
async fn the_workspace_is_destroyed_if_the_client_is_gone() {
    let server = Server::at_socket(Fake::default());
    server.fake.run_script(Script::WaitsForSignal);
    let (input, mut output) = run(&server).await.split();
    started(&mut output).await;
    drop((input, output));
    server.log.wait_for("workspace destroyed").await;
    destroyed_once(&server);
    // Before the command runs.
    let server = Server::at_socket(Fake::default());
    server.fake.run_script(Script::NeverStarts);
    let stream = run(&server).await;
    server.log.wait_for("start hangs").await;
    drop(stream);
    server.log.wait_for("workspace destroyed").await;
    destroyed_once(&server);
}

#[tokio::test]
async fn a_client_that_closes_the_stream_waits_until_the_workspace_is_gone() {
    let server = Server::at_socket(Fake::default());
    server.fake.run_script(Script::WaitsForSignal);
    let (mut input, mut output) = run(&server).await.split();
    started(&mut output).await;
    input.close().await;
    output.closed().await;
    destroyed_once(&server);
}

#[tokio::test]
async fn a_creation_is_given_up_with_its_client_and_reports_its_progress_until_then() {
    let server = Server::at_socket(Fake::default());
    *server.fake.creates.lock().unwrap() = Some(Reply::Hangs);
    let (input, mut output) = run(&server).await.split();
    let step = ProgressWord::Step { step: "booting".to_owned(), total: None };
    assert_eq!(output.next().await.unwrap(), ExecEvent::Word(ExecWord::Progress(step)));
    drop((input, output));
    server.log.wait_for("creation dropped").await;
    assert!(!server.log.all().iter().any(|entry| entry.contains("exec")), "{:?}", server.log.all());
}

#[tokio::test]
async fn a_workspace_that_cannot_be_created_is_reported() {
    let server = Server::at_socket(Fake::default());
    let failure = fails(|| Failure::new(Code::QuotaExceeded, "too many").with_remedy("remove some"));
    *server.fake.creates.lock().unwrap() = Some(failure);
    let (_input, mut output) = run(&server).await.split();
    let (_, word) = rest(&mut output).await;
    let ExecWord::Error { fields, refused: None } = word else { panic!("{word:?}") };
    assert_eq!((fields.code, fields.remedy.as_deref()), (Code::QuotaExceeded, Some("remove some")));
}
