//! The thread that starts all QEMU processes.
//!
//! A machine that must not outlive this process asks the kernel for a signal at its parent's death, and to the
//! kernel the parent is the *thread* that forked. Threads of an async runtime come and go; this one stays.

use std::ffi::CString;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use super::read_only::open_read_only;

/// A process to start.
struct Job {
    command: Command,
    read_only: Option<CString>,
    answer: mpsc::Sender<io::Result<Child>>,
}

static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();

/// A process that is being started.
pub(crate) struct Spawning(mpsc::Receiver<io::Result<Child>>);

/// Starts a process from the spawner thread.
pub(crate) fn spawn(command: Command) -> Spawning {
    spawn_with(command, None)
}

/// Like [`spawn`], for a process that asks for tracing: it opens the given file for reading only.
pub(super) fn spawn_with(command: Command, read_only: Option<CString>) -> Spawning {
    let (answer, started) = mpsc::channel();
    let spawner = SPAWNER.get_or_init(|| Mutex::new(start()));
    // Without the thread the other end of the answer is dropped, and waiting says so.
    let _ = spawner.lock().unwrap_or_else(PoisonError::into_inner).send(Job { command, read_only, answer });
    Spawning(started)
}

impl Spawning {
    /// Waits until it has executed its program: as long as a fork takes.
    pub fn wait(self) -> io::Result<Child> {
        let gone = |_| Err(io::Error::other("the thread that starts processes is gone"));
        self.0.recv().unwrap_or_else(gone)
    }
}

fn start() -> mpsc::Sender<Job> {
    let (jobs, queue) = mpsc::channel::<Job>();
    // Without the thread the queue is dropped, and every spawn says so.
    let _ = thread::Builder::new().name("qemu-spawner".to_owned()).spawn(move || {
        for Job { command, read_only, answer } in queue {
            let _ = answer.send(start_one(command, read_only));
        }
    });
    jobs
}

#[expect(clippy::disallowed_methods, reason = "runs on the spawner thread")]
fn start_one(mut command: Command, read_only: Option<CString>) -> io::Result<Child> {
    let mut child = command.spawn()?;
    if let Some(file) = read_only
        && let Err(error) = open_read_only(child.id(), &file)
    {
        let _ = child.kill();
        let _ = child.wait();
        let doing = format!("trace QEMU until it opens its memory (needed by QEMU before 9.0): {error}");
        return Err(io::Error::new(error.kind(), doing));
    }
    Ok(child)
}
