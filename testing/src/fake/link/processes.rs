//! Commands whose caller is connected.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::link::{GuestError, LinkError, Process, ProcessControl, ProcessEvent, Stdin};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::fake::machine::Machine;

/// A command.
pub(super) struct FakeProcess {
    machine: Arc<Machine>,
    /// Its process, or why it did not start.
    started: Result<u32, GuestError>,
    watch: watch::Receiver<()>,
    told: Told,
    stdin: Option<FakeStdin>,
    has_terminal: bool,
    /// Whether reports on its input were requested.
    reports: Arc<std::sync::atomic::AtomicBool>,
}

/// What its caller knows.
#[derive(Default)]
struct Told {
    started: bool,
    pieces: usize,
    input_read: u64,
    ended: bool,
}

struct FakeStdin {
    machine: Arc<Machine>,
    pid: u32,
}

struct Control {
    machine: Arc<Machine>,
    pid: Option<u32>,
    has_terminal: bool,
    reports: Arc<std::sync::atomic::AtomicBool>,
}

impl FakeProcess {
    pub fn new(
        machine: Arc<Machine>,
        started: Result<u32, GuestError>,
        has_input: bool,
        has_terminal: bool,
    ) -> Self {
        let pid = started.as_ref().ok().copied().filter(|_| has_input);
        let stdin = pid.map(|pid| FakeStdin { machine: Arc::clone(&machine), pid });
        let watch = machine.watch();
        Self { machine, started, watch, told: Told::default(), stdin, has_terminal, reports: Arc::default() }
    }

    /// The next event, if something has happened that was not told.
    fn news(&mut self, pid: u32) -> Option<ProcessEvent> {
        let (told, reports) = (&mut self.told, self.reports.load(std::sync::atomic::Ordering::SeqCst));
        let event = self.machine.look(|memory| {
            let process = memory.process(pid)?;
            if let Some((stream, bytes)) = process.printed.get(told.pieces) {
                told.pieces += 1;
                let bytes = Bytes::from(bytes.clone());
                let stdout = *stream == 1 || self.has_terminal;
                return Some(if stdout { ProcessEvent::Stdout(bytes) } else { ProcessEvent::Stderr(bytes) });
            }
            if reports && process.input_read > told.input_read {
                told.input_read = process.input_read;
                return Some(ProcessEvent::InputRead(process.input_read));
            }
            if let Some(job) = process.job {
                return Some(ProcessEvent::Detached { job });
            }
            process.exit.map(ProcessEvent::Exited)
        })?;
        told.ended = matches!(event, ProcessEvent::Exited(_) | ProcessEvent::Detached { .. });
        Some(event)
    }
}

#[async_trait]
impl Process for FakeProcess {
    async fn next(&mut self) -> Result<Option<ProcessEvent>, LinkError> {
        let pid = self.started.clone().map_err(LinkError::Guest)?;
        if self.told.ended {
            return Ok(None);
        }
        if !std::mem::replace(&mut self.told.started, true) {
            return Ok(Some(ProcessEvent::Started { pid }));
        }
        loop {
            // What it printed before the machine ended was on its way.
            if let Some(event) = self.news(pid) {
                return Ok(Some(event));
            }
            self.machine.require_alive()?;
            self.machine.change(&mut self.watch).await;
        }
    }

    fn take_stdin(&mut self) -> Option<Box<dyn Stdin>> {
        self.stdin.take().map(|stdin| Box::new(stdin) as Box<dyn Stdin>)
    }

    fn control(&self) -> Box<dyn ProcessControl> {
        Box::new(Control {
            machine: Arc::clone(&self.machine),
            pid: self.started.as_ref().ok().copied(),
            has_terminal: self.has_terminal,
            reports: Arc::clone(&self.reports),
        })
    }
}

impl Drop for FakeProcess {
    fn drop(&mut self) {
        if let Ok(pid) = self.started {
            self.machine.work(|memory, _| {
                memory.cancel_unless_job(pid);
                memory.forget(pid);
            });
        }
    }
}

#[async_trait]
impl Stdin for FakeStdin {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.machine.require_alive()?;
        let fed = self.machine.work(|memory, tree| memory.feed(self.pid, bytes, false, tree));
        fed.map_err(|_| LinkError::InputEnded)
    }
}

impl Drop for FakeStdin {
    fn drop(&mut self) {
        self.machine.work(|memory, tree| {
            let is_job = memory.process(self.pid).is_some_and(|process| process.job.is_some());
            if !is_job {
                // A command that has ended needs no end of its input.
                let _ = memory.feed(self.pid, &[], true, tree);
            }
        });
    }
}

#[async_trait]
impl ProcessControl for Control {
    fn cancel(&self) {
        if let Some(pid) = self.pid {
            self.machine.work(|memory, _| memory.cancel_unless_job(pid));
        }
    }

    async fn signal(&self, signal: i32) -> Result<(), LinkError> {
        self.machine.require_alive()?;
        if let Some(pid) = self.pid {
            self.machine.work(|memory, _| memory.signal(pid, signal));
        }
        Ok(())
    }

    async fn detach(&self, timeout_ms: Option<u64>) -> Result<(), LinkError> {
        self.machine.require_alive()?;
        let Some(pid) = self.pid.filter(|_| !self.has_terminal) else { return Ok(()) };
        self.machine.work(|memory, _| {
            if memory.process(pid).is_some_and(|process| process.exit.is_none()) {
                memory.make_job(pid, timeout_ms.map(Duration::from_millis), false);
            }
        });
        Ok(())
    }

    async fn report_input(&self) -> Result<(), LinkError> {
        self.reports.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    async fn resize(&self, _columns: u16, _rows: u16) -> Result<(), LinkError> {
        self.machine.require_alive()
    }
}
