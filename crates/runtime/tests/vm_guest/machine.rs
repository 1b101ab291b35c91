//! A machine for a test, and helpers to use it.

use std::sync::Arc;

use agentiso_config::paths::{Environment, Paths};
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{ImageName, Resources, WorkspaceId};
use agentiso_proto::{ErrorKind, Exec, Exit, ExitStatus, GuestError};
use agentiso_runtime::{Installation, Running, StartRequest};
use agentiso_testing::TestHome;
use agentiso_vmm::link::{Guest, LinkError, Process, ProcessEvent, WriteOptions};
use uuid::Uuid;

/// Longer than any wait in a guest, shorter than the time limit of a test.
const WAIT_MS: u64 = 60_000;

/// A started machine in its own home.
pub struct TestMachine {
    pub running: Running,
    pub id: WorkspaceId,
    _home: TestHome,
}

impl TestMachine {
    pub async fn start() -> Self {
        Self::start_with(Resources::default()).await
    }

    pub async fn start_with(resources: Resources) -> Self {
        let home = TestHome::new();
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let request = StartRequest { id, image: image(), resources, cold: false };
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        let running = installation(&home).start(&request, &silent).await.unwrap();
        Self { running, id, _home: home }
    }

    pub fn guest(&self) -> &Guest {
        self.running.machine.guest()
    }

    /// Runs a shell script that must succeed, and returns its output without the final newline.
    pub async fn sh(&self, script: &str) -> String {
        sh(self.guest(), script).await
    }
}

/// The installation in a test's home.
pub fn installation(home: &TestHome) -> Installation {
    let environment = Environment { agentiso_home: Some(home.path().to_owned()), ..Environment::default() };
    let config = home.path().join("config.toml");
    Installation::open(Paths::resolve(&environment, Some(&config), &|path| path.exists()).unwrap()).unwrap()
}

/// The image that is prepared for tests.
pub fn image() -> ImageName {
    "debian".parse().unwrap()
}

/// A command line.
pub fn command(argv: &[&str]) -> Exec {
    let argv = argv.iter().map(|argument| argument.as_bytes().to_vec()).collect();
    Exec { argv, ..Exec::default() }
}

/// A shell script.
pub fn script(script: &str) -> Exec {
    command(&["sh", "-c", script])
}

/// A shell script that reads its input.
pub fn script_with_input(text: &str) -> Exec {
    Exec { stdin: true, ..script(text) }
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Runs a command to completion.
pub async fn run(guest: &Guest, exec: Exec) -> Result<Ran, LinkError> {
    finish(guest.exec(exec).await?).await
}

/// Waits for a command to exit.
pub async fn finish(mut process: Process) -> Result<Ran, LinkError> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match process.next().await? {
            Some(ProcessEvent::Started { .. } | ProcessEvent::InputRead(_)) => {}
            Some(ProcessEvent::Stdout(bytes)) => stdout.extend_from_slice(&bytes),
            Some(ProcessEvent::Stderr(bytes)) => stderr.extend_from_slice(&bytes),
            Some(ProcessEvent::Exited(exit)) => return Ok(Ran { exit, stdout, stderr }),
            None | Some(ProcessEvent::Detached { .. }) => {
                panic!("the event stream ended before the command exited")
            }
        }
    }
}

/// Like [`TestMachine::sh`].
pub async fn sh(guest: &Guest, text: &str) -> String {
    let ran = run(guest, Exec { timeout_ms: Some(WAIT_MS), ..script(text) }).await.unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.exit.status, ExitStatus::Code(0), "{text}\n{stdout}{stderr}");
    assert!(!ran.exit.timed_out);
    stdout.trim_end().to_owned()
}

/// Waits in the guest until a shell condition is true.
pub async fn until(guest: &Guest, condition: &str) {
    sh(guest, &format!("until {condition}; do sleep 0.01; done")).await;
}

/// Reads output until it ends with `end`. Skips events before the command has started.
pub async fn read_until(process: &mut Process, end: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    while !said.ends_with(end) {
        match process.next().await.unwrap() {
            Some(ProcessEvent::Started { .. }) => {}
            Some(ProcessEvent::Stdout(bytes) | ProcessEvent::Stderr(bytes)) => said.extend_from_slice(&bytes),
            other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&said)),
        }
    }
    said
}

/// Waits until a command has started and returns its process id.
pub async fn started(process: &mut Process) -> u32 {
    match process.next().await.unwrap() {
        Some(ProcessEvent::Started { pid }) => pid,
        other => panic!("{other:?}"),
    }
}

/// The agent's error.
pub fn refusal<T>(result: Result<T, LinkError>) -> GuestError {
    match result {
        Err(LinkError::Guest(error)) => error,
        Err(error) => panic!("the link failed: {error}"),
        Ok(_) => panic!("it was not rejected"),
    }
}

/// The kind of the agent's error.
pub fn refused<T>(result: Result<T, LinkError>) -> ErrorKind {
    refusal(result).kind
}

/// Writes a whole file.
pub async fn write(
    guest: &Guest,
    path: impl AsRef<[u8]>,
    content: &[u8],
    options: WriteOptions,
) -> Result<u64, LinkError> {
    let mut writer = guest.write_file(path.as_ref(), options).await?;
    writer.write(content).await?;
    writer.finish().await
}

/// Reads a range of a file.
pub async fn read(
    guest: &Guest,
    path: impl AsRef<[u8]>,
    offset: u64,
    length: Option<u64>,
) -> Result<Vec<u8>, LinkError> {
    let mut reader = guest.read_file(path.as_ref(), offset, length).await?;
    let mut content = Vec::new();
    while let Some(piece) = reader.next().await? {
        content.extend_from_slice(&piece);
    }
    Ok(content)
}

/// Incompressible bytes without a pattern.
pub fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}
