//! Commands in a workspace.

use agentiso_client::{ExecEvent, ExecOutput};
use agentiso_core::Code;
use agentiso_core::wire::{ExecSpec, ExecWord, INPUT_PIECE, INPUT_WINDOW, Refused};

use crate::fake::{Fake, Script};
use crate::server::Server;

pub fn cat() -> ExecSpec {
    ExecSpec { argv: vec![b"cat".to_vec().into()], stdin: true, ..ExecSpec::default() }
}

/// Waits until the command runs.
pub async fn started(output: &mut ExecOutput) -> ExecWord {
    loop {
        match output.next().await.unwrap() {
            ExecEvent::Word(ExecWord::Progress(_)) => {}
            ExecEvent::Word(word @ ExecWord::Started { .. }) => return word,
            other => panic!("{other:?}"),
        }
    }
}

/// All output, and the last word.
pub async fn rest(output: &mut ExecOutput) -> (Vec<u8>, ExecWord) {
    let mut printed = Vec::new();
    loop {
        match output.next().await.unwrap() {
            ExecEvent::Stdout(bytes) | ExecEvent::Stderr(bytes) => printed.extend_from_slice(&bytes),
            ExecEvent::Word(word @ (ExecWord::Exit(_) | ExecWord::Error { .. })) => return (printed, word),
            ExecEvent::Word(_) => {}
        }
    }
}

#[tokio::test]
async fn input_reaches_the_command_and_output_its_client() {
    let server = Server::at_socket(Fake::default());
    let (mut input, mut output) = server.client().exec("web", &cat()).await.unwrap().split();
    let word = started(&mut output).await;
    assert!(
        matches!(word, ExecWord::Started { ref workspace, machine: None, .. } if workspace == "web"),
        "{word:?}"
    );
    input.write("hello").await;
    input.end().await;
    let (printed, word) = rest(&mut output).await;
    assert_eq!(printed, b"hello");
    assert!(matches!(word, ExecWord::Exit(exit) if exit.code == Some(0)), "{word:?}");
    server.log.wait_for("command ended").await;
}

#[tokio::test]
async fn much_input_and_much_output_do_not_wait_for_each_other() {
    const PIECES: usize = 16 * (INPUT_WINDOW / INPUT_PIECE);
    let server = Server::at_socket(Fake::default());
    let (mut input, mut output) = server.client().exec("web", &cat()).await.unwrap().split();
    started(&mut output).await;
    // As a client does that sends first and reads afterwards: never more than the window.
    let (mut room, mut sent, mut read) = (INPUT_WINDOW, 0, 0);
    let code = loop {
        while sent < PIECES && room >= INPUT_PIECE {
            input.write(vec![b'x'; INPUT_PIECE]).await;
            (room, sent) = (room - INPUT_PIECE, sent + 1);
            if sent == PIECES {
                input.end().await;
            }
        }
        match output.next().await.unwrap() {
            ExecEvent::Stdout(bytes) => read += bytes.len(),
            ExecEvent::Word(ExecWord::Taken(count)) => room += count,
            ExecEvent::Word(ExecWord::Exit(exit)) => break exit.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((code, read), (Some(0), PIECES * INPUT_PIECE));
}

#[tokio::test]
async fn signals_and_sizes_reach_the_command_even_if_they_come_before_it_runs() {
    let server = Server::at_socket(Fake::default());
    server.fake.run_script(Script::WaitsForSignal);
    let (mut input, mut output) = server.client().exec("web", &cat()).await.unwrap().split();
    input.resize(100, 30).await;
    input.signal(15).await;
    started(&mut output).await;
    let (_, word) = rest(&mut output).await;
    assert!(matches!(word, ExecWord::Exit(exit) if exit.signal == Some(15)), "{word:?}");
    let log = server.log.all();
    let at = |entry: &str| log.iter().position(|one| one == entry).unwrap_or_else(|| panic!("{log:?}"));
    assert!(at("resize 100 30") < at("signal 15"), "{log:?}");
}

#[tokio::test]
async fn a_command_whose_client_is_gone_is_ended() {
    let server = Server::at_socket(Fake::default());
    server.fake.run_script(Script::WaitsForSignal);
    let (input, mut output) = server.client().exec("web", &cat()).await.unwrap().split();
    started(&mut output).await;
    drop((input, output));
    server.log.wait_for("command dropped").await;
    assert!(!server.log.all().contains(&"command ended".to_owned()));
}

#[tokio::test]
async fn a_command_is_not_started_for_a_client_that_is_gone() {
    let server = Server::at_socket(Fake::default());
    server.fake.run_script(Script::NeverStarts);
    let stream = server.client().exec("web", &cat()).await.unwrap();
    server.log.wait_for("start hangs").await;
    drop(stream);
    server.log.wait_for("start dropped").await;
}

#[tokio::test]
async fn a_command_that_cannot_run_says_why() {
    let server = Server::at_socket(Fake::default());
    for (script, code, expected) in [
        (Script::NotFound, Code::GuestFailed, Some(Refused::NotFound)),
        (Script::Crashes, Code::VmCrashed, None),
    ] {
        server.fake.run_script(script);
        let (_input, mut output) = server.client().exec("web", &cat()).await.unwrap().split();
        let (_, word) = rest(&mut output).await;
        let ExecWord::Error { fields, refused } = word else { panic!("{word:?}") };
        assert_eq!((fields.code, refused), (code, expected));
    }
}
