//! A network namespace without a name: it ends with the last thread or descriptor that holds it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use tokio::sync::oneshot;

/// A network namespace of this test.
#[derive(Clone)]
pub struct Namespace {
    handle: Arc<File>,
}

impl Namespace {
    /// Makes a namespace whose loopback is up.
    ///
    /// # Panics
    ///
    /// If we are not root.
    pub fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "network namespaces need root");
        let made = std::thread::spawn(|| {
            // SAFETY: this thread opens one file and ends; it shares nothing that leaves its namespace.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace");
            File::open("/proc/thread-self/ns/net").expect("the namespace of this thread")
        });
        let this = Self { handle: Arc::new(made.join().expect("a network namespace")) };
        this.ip("link set lo up");
        this
    }

    /// A path that other processes can open while this one runs.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()).into()
    }

    /// Runs something in the namespace. Programs that it starts are in the namespace too.
    pub fn enter<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let entered = scope.spawn(|| {
                self.join();
                body()
            });
            entered.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs the program `ip` with these arguments.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn ip(&self, arguments: &str) {
        self.run("ip", &arguments.split(' ').collect::<Vec<_>>());
    }

    /// Runs a program and returns its output.
    ///
    /// # Panics
    ///
    /// If it fails.
    pub fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.enter(|| Command::new(program).args(arguments).output());
        let output = output.unwrap_or_else(|error| panic!("the program `{program}` is needed: {error}"));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {}: {complaint}", arguments.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Sets a setting of the kernel for this namespace, such as `net.ipv4.ip_forward`.
    pub fn set(&self, name: &str, value: &str) {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        self.enter(|| std::fs::write(&path, value)).expect("a setting of the namespace");
    }

    /// Runs a future in a thread of the namespace until the returned value is dropped. Returns when the future has
    /// sent the signal that it is ready.
    pub fn serve<F: Future<Output = ()>>(
        &self,
        body: impl FnOnce(mpsc::Sender<()>) -> F + Send + 'static,
    ) -> Running {
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let this = self.clone();
        let thread = std::thread::spawn(move || {
            this.join();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime.expect("a runtime"), async {
                tokio::select! {
                    () = body(ready) => {}
                    _ = stopped => {}
                }
            });
        });
        is_ready.recv().expect("the servers start");
        Running { stop: Some(stop), thread: Some(thread) }
    }

    fn join(&self) {
        move_into_link_name_space(self.handle.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("entering a namespace needs root");
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread with servers, which end when this is dropped.
pub struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}
