//! The thread that starts all QEMU processes.
//!
//! A machine that must not outlive this process asks the kernel for a signal at its parent's death, and to the
//! kernel the parent is the *thread* that forked. Threads of an async runtime come and go; this one stays.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

type Job = (Command, mpsc::Sender<io::Result<Child>>);

static SPAWNER: OnceLock<Mutex<mpsc::Sender<Job>>> = OnceLock::new();

/// Starts a process from the spawner thread. Blocks for the time of a fork.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let (answer, started) = mpsc::channel();
    let spawner = SPAWNER.get_or_init(|| Mutex::new(start()));
    let sent = spawner.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    sent.ok()
        .and_then(|()| started.recv().ok())
        .unwrap_or_else(|| Err(io::Error::other("the thread that starts processes is gone")))
}

fn start() -> mpsc::Sender<Job> {
    let (jobs, queue) = mpsc::channel::<Job>();
    // Without the thread the queue is dropped, and every spawn says so.
    let _ = thread::Builder::new().name("qemu-spawner".to_owned()).spawn(move || {
        for (mut command, answer) in queue {
            let _ = answer.send(command.spawn());
        }
    });
    jobs
}
