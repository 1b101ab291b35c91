//! The sampler: resource usage of running machines, measured once for all callers.
//!
//! ```text
//!  idle ──► first request: two samples a moment apart, and the sampler starts
//!       ▲                 │
//!       └─ no request ◄───┴──► every EVERY: one sample; requests are answered from the newest two
//!          for PATIENCE
//! ```
//!
//! A sample reads three small files in `/proc` per machine and does not involve the guest, so it is cheap and works for a
//! guest that hangs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentiso_core::action::{WorkspaceStatistics, WorkspaceUse};
use agentiso_core::{Code, Failure, WorkspaceId};
use jiff::Timestamp;

use crate::live_state::locked;
use crate::views::shown;
use crate::{Caller, Engine};

/// Between two samples.
const EVERY: Duration = Duration::from_secs(2);
/// Between the first two samples.
const FIRST: Duration = Duration::from_millis(250);
/// The sampler ends after this long without a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clock ticks in a second, in `/proc/PID/stat`: the same on every Linux that we run on.
const TICKS: u64 = 100;

/// The newest two samples.
#[derive(Default)]
pub(crate) struct Sampler {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    before: Option<Sample>,
    newest: Option<Sample>,
    asked: Option<Instant>,
    running: bool,
}

/// All machines at one moment.
#[derive(Clone)]
struct Sample {
    at: Instant,
    time: Timestamp,
    machines: HashMap<WorkspaceId, Reading>,
}

/// One machine at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Reading {
    pid: u32,
    cpu_ms: u64,
    memory_bytes: u64,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
}

impl Engine {
    /// Resource usage of running workspaces, from the newest two samples.
    pub(crate) async fn statistics(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<WorkspaceStatistics, Failure> {
        self.have_samples().await?;
        let (before, newest) = {
            let state = locked(&self.sampler.state);
            (state.before.clone(), state.newest.clone())
        };
        let newest = newest.ok_or_else(|| Failure::new(Code::Internal, "there is no sample"))?;
        let mut workspaces = Vec::new();
        for brief in self.briefs(Some(caller)).await? {
            let Ok(id) = brief.workspace_id.parse().map(WorkspaceId::from_uuid) else { continue };
            // It may have been removed meanwhile.
            let Ok(workspace) = self.records.workspace(id).await else { continue };
            let Some(reading) = newest.machines.get(&workspace.id) else { continue };
            let earlier = before.as_ref().and_then(|before| {
                let reading = before.machines.get(&workspace.id).filter(|one| one.pid == reading.pid)?;
                Some((newest.at.duration_since(before.at), reading))
            });
            let mut used = used(reading, earlier);
            used.workspace_id = brief.workspace_id;
            used.name = brief.name;
            used.memory_size_bytes = workspace.resources.memory_bytes();
            used.disk_used_bytes = self.host.disk_used_bytes(workspace.id).await?;
            workspaces.push(used);
        }
        Ok(WorkspaceStatistics { sampled_at: shown(newest.time), workspaces })
    }

    /// Notes a request, and starts the sampler unless it runs.
    async fn have_samples(self: &Arc<Self>) -> Result<(), Failure> {
        {
            let mut state = locked(&self.sampler.state);
            state.asked = Some(Instant::now());
            if state.running {
                return Ok(());
            }
            state.running = true;
        }
        let first = async {
            self.sample().await?;
            tokio::time::sleep(FIRST).await;
            self.sample().await
        };
        if let Err(failure) = first.await {
            locked(&self.sampler.state).running = false;
            return Err(failure);
        }
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let Some(engine) = engine.upgrade() else { return };
                {
                    let mut state = locked(&engine.sampler.state);
                    if state.asked.is_none_or(|asked| asked.elapsed() > PATIENCE) {
                        *state = State::default();
                        return;
                    }
                }
                if let Err(failure) = engine.sample().await {
                    tracing::warn!(%failure, "could not measure the resource usage of workspaces");
                }
            }
        });
        Ok(())
    }

    /// Takes a sample.
    async fn sample(&self) -> Result<(), Failure> {
        let views = self.host.list().await?;
        let machines: Vec<_> = views.iter().filter_map(|view| Some((view.id, view.pid?))).collect();
        let read = tokio::task::spawn_blocking(move || {
            let read = machines.into_iter().filter_map(|(id, pid)| Some((id, reading(pid)?)));
            Sample { at: Instant::now(), time: Timestamp::now(), machines: read.collect() }
        });
        let sample = read.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let mut state = locked(&self.sampler.state);
        state.before = state.newest.replace(sample);
        Ok(())
    }
}

/// Resource usage of a machine, with rates if there is an earlier reading.
fn used(now: &Reading, before: Option<(Duration, &Reading)>) -> WorkspaceUse {
    let rate = |count: fn(&Reading) -> Option<u64>| {
        let (time, earlier) = before?;
        let more = count(now)?.saturating_sub(count(earlier)?);
        (!time.is_zero()).then(|| more as f64 / time.as_secs_f64())
    };
    WorkspaceUse {
        workspace_id: String::new(),
        name: String::new(),
        pid: now.pid,
        // Milliseconds of processor time in a second of time, in percent.
        cpu_percent: rate(|reading| Some(reading.cpu_ms)).map(|rate| (rate / 10.0 * 10.0).round() / 10.0),
        cpu_ms: now.cpu_ms,
        memory_bytes: now.memory_bytes,
        memory_size_bytes: 0,
        read_bytes: now.read_bytes,
        write_bytes: now.write_bytes,
        read_bytes_per_sec: rate(|reading| reading.read_bytes).map(|rate| rate as u64),
        write_bytes_per_sec: rate(|reading| reading.write_bytes).map(|rate| rate as u64),
        disk_used_bytes: 0,
    }
}

/// Reads the resource usage of a process; `None` if it has ended.
fn reading(pid: u32) -> Option<Reading> {
    let file = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).ok();
    let io = file("io");
    let io = |name: &str| io.as_deref().and_then(|text| number_of(text, name));
    Some(Reading {
        pid,
        cpu_ms: cpu_ms(&file("stat")?)?,
        memory_bytes: own_memory(&file("status")?),
        read_bytes: io("read_bytes:"),
        write_bytes: io("write_bytes:"),
    })
}

/// Processor time from `/proc/PID/stat`. The second field, the program's name, may hold anything but ends the last
/// parenthesis.
fn cpu_ms(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some((user + system) * 1000 / TICKS)
}

/// Memory of its own from `/proc/PID/status`: not the pages of templates, which all clones share.
fn own_memory(status: &str) -> u64 {
    let kib = |name| number_of(status, name).unwrap_or(0);
    (kib("RssAnon:") + kib("RssShmem:")) * 1024
}

/// The number behind a name at the beginning of a line.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_was_used_between_two_samples() {
        let before = Reading { pid: 7, cpu_ms: 1000, read_bytes: Some(0), ..Reading::default() };
        let now =
            Reading { pid: 7, cpu_ms: 2500, read_bytes: Some(4096), memory_bytes: 5, write_bytes: None };
        let used = used(&now, Some((Duration::from_secs(2), &before)));
        assert_eq!((used.cpu_percent, used.read_bytes_per_sec), (Some(75.0), Some(2048)));
        assert_eq!((used.memory_bytes, used.write_bytes_per_sec), (5, None));
        assert_eq!(super::used(&now, None).cpu_percent, None);
    }

    #[test]
    fn the_kernels_files_are_read_whatever_the_program_is_called() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(cpu_ms(stat), Some(2000));
        assert_eq!(
            own_memory("VmRSS:\t 9 kB\nRssAnon:\t  100 kB\nRssFile:\t 7 kB\nRssShmem:\t 28 kB\n"),
            128 << 10
        );
        assert_eq!(number_of("rchar: 1\nread_bytes: 42\n", "read_bytes:"), Some(42));
        assert!(reading(std::process::id()).unwrap().memory_bytes > 0);
    }
}
