//! Short ways to run commands.

use agentiso_core::ports::link::{
    ErrorKind, Exec, Exit, ExitStatus, LinkError, Process, ProcessEvent, WorkspaceLink,
};

/// What a command did.
#[derive(Debug)]
pub(super) struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub exit: Exit,
}

/// A line for the shell that every image has.
pub(crate) fn shell_words(line: &str) -> Vec<Vec<u8>> {
    words(&["/bin/sh", "-c", line])
}

pub(super) fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// A command line as a request.
pub(super) fn line(line: &str) -> Exec {
    Exec { argv: shell_words(line), ..Exec::default() }
}

/// What a command line prints, which must succeed.
pub async fn shell(link: &dyn WorkspaceLink, text: &str) -> String {
    let ran = run(link, line(text)).await.expect("a command that starts");
    assert_eq!(ran.exit.status, ExitStatus::Code(0), "{text}: {}", ran.stderr);
    ran.stdout
}

/// Runs a command to its end.
pub(super) async fn run(link: &dyn WorkspaceLink, exec: Exec) -> Result<Ran, LinkError> {
    let mut process = link.exec(exec).await?;
    match process.next().await? {
        Some(ProcessEvent::Started { pid }) => assert!(pid > 0),
        other => panic!("a command began with {other:?}"),
    }
    finish(process.as_mut()).await
}

/// Waits for the end of a command that has started.
pub(super) async fn finish(process: &mut dyn Process) -> Result<Ran, LinkError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match process.next().await? {
            Some(ProcessEvent::Stdout(bytes)) => stdout.extend_from_slice(&bytes),
            Some(ProcessEvent::Stderr(bytes)) => stderr.extend_from_slice(&bytes),
            Some(ProcessEvent::Exited(exit)) => {
                assert_eq!(process.next().await?, None, "something came after the end");
                let text = |bytes| String::from_utf8(bytes).expect("text");
                return Ok(Ran { stdout: text(stdout), stderr: text(stderr), exit });
            }
            other => panic!("a command went on with {other:?}"),
        }
    }
}

/// Starts a command and waits until it runs.
pub(super) async fn start(link: &dyn WorkspaceLink, exec: Exec) -> Box<dyn Process> {
    let mut process = link.exec(exec).await.expect("a command");
    let first = process.next().await.expect("a command that starts");
    assert!(matches!(first, Some(ProcessEvent::Started { .. })), "{first:?}");
    process
}

/// Checks that the guest refused something.
#[track_caller]
pub(super) fn refused<T>(result: Result<T, LinkError>, kind: ErrorKind) -> String {
    match result {
        Ok(_) => panic!("it was not refused as {kind:?}"),
        Err(LinkError::Guest(error)) => {
            assert_eq!(error.kind, kind, "{}", error.message);
            error.message
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Waits until no command runs any more.
pub(super) async fn until_idle(link: &dyn WorkspaceLink) {
    while link.status().await.expect("a status").running > 0 {
        tokio::task::yield_now().await;
    }
}
