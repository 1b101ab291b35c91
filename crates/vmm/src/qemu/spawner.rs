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

/// A process that is being started.
pub(crate) struct Spawning(mpsc::Receiver<io::Result<Child>>);

/// Starts a process from the spawner thread.
pub(crate) fn spawn(command: Command) -> Spawning {
    let (answer, started) = mpsc::channel();
    let spawner = SPAWNER.get_or_init(|| Mutex::new(start()));
    // Without the thread the other end of the answer is dropped, and waiting says so.
    let _ = spawner.lock().unwrap_or_else(PoisonError::into_inner).send((command, answer));
    Spawning(started)
}

impl Spawning {
    /// Waits until it has executed its program: as long as a fork takes.
    pub fn wait(self) -> io::Result<Child> {
        let gone = |_| Err(io::Error::other("the thread that starts processes is gone"));
        self.0.recv().unwrap_or_else(gone)
    }
}

#[expect(clippy::disallowed_methods, reason = "processes are spawned on the thread this starts")]
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
