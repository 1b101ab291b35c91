//! A network namespace without a name, and the thread in it that everything is done by.

use std::io;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use rustix::thread::{UnshareFlags, unshare_unsafe};

type Job = Box<dyn FnOnce() + Send>;

/// A namespace. It ends with this process, its uplink, and the last machine that has a TAP device of it open.
#[derive(Debug)]
pub(super) struct Namespace {
    jobs: mpsc::Sender<Job>,
    handle: OwnedFd,
}

impl Namespace {
    /// Makes a namespace and starts its thread. Needs root.
    #[expect(clippy::disallowed_methods, reason = "procfs is memory: opening it waits for no device")]
    pub(super) fn new() -> io::Result<Self> {
        let (jobs, todo) = mpsc::channel::<Job>();
        let (made, handle) = mpsc::channel();
        let body = move || {
            // SAFETY: this thread shares nothing with others that is specific to a network namespace.
            let entered = unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from);
            let opened = entered.and_then(|()| std::fs::File::open("/proc/thread-self/ns/net"));
            let is_ready = opened.is_ok();
            if made.send(opened).is_ok() && is_ready {
                todo.into_iter().for_each(|job| job());
            }
        };
        thread::Builder::new().name("network".to_owned()).spawn(body)?;
        let handle = handle.recv().map_err(io::Error::other)??;
        Ok(Self { jobs, handle: handle.into() })
    }

    /// The namespace, for other processes while this one runs.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()).into()
    }

    /// Runs something in the thread of the namespace and waits for its result. Jobs run one after the other.
    pub(super) fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let (done, result) = mpsc::channel();
        let job = Box::new(move || {
            let _ = done.send(job());
        });
        self.jobs.send(job).map_err(|_| io::Error::other("the thread of the namespace has ended"))?;
        result.recv().map_err(io::Error::other)
    }
}
