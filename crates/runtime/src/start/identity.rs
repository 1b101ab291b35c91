//! Giving a machine its identity: entropy, clock, host name, machine id, MAC address.

use std::time::Instant;

use agentiso_core::WorkspaceId;
use agentiso_proto::{Configure, HookReport, Wake, WakeEvent};
use agentiso_vmm::{Machine, VmError};

use super::clock::{self, now_ns};

/// How long all wake hooks of a machine may take in total.
const HOOKS_MS: u32 = 10_000;
/// Random bytes given to each machine's kernel.
const ENTROPY_BYTES: usize = 64;

/// The identity of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub id: WorkspaceId,
    pub hostname: String,
}

/// The event after which a machine gets its identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnWake {
    /// It is new.
    Start,
    /// It is a fork of a running machine.
    Fork,
    /// It was restored to a snapshot with memory.
    Restore,
    /// It was started on the disk of a snapshot.
    RestoreDisk,
    /// It was started on a copy of another machine's disk.
    ForkDisk,
}

impl Identity {
    /// Sets entropy, clock and names, runs the wake hooks and resumes the guest's processes. Must be the first request
    /// to a restored machine.
    pub(crate) async fn give_to(&self, machine: &Machine, on: OnWake) -> Result<Vec<HookReport>, VmError> {
        let started = Instant::now();
        let wake = self.wake(on)?;
        let woken = machine.at_start("getting its identity", machine.guest().wake(wake)).await?;
        tracing::debug!("identity set");
        clock::set_again(machine, started).await?;
        Ok(woken)
    }

    fn wake(&self, on: OnWake) -> Result<Wake, VmError> {
        let mut entropy = vec![0; ENTROPY_BYTES];
        rustix::rand::getrandom(&mut entropy, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| VmError::io("read random bytes for the guest")(error.into()))?;
        let identity = Configure {
            entropy: Some(entropy),
            unix_nanos: Some(now_ns()),
            hostname: Some(self.hostname.clone()),
            machine_id: Some(self.id.machine_id()),
            mac: Some(self.id.mac()),
            root: None,
        };
        let (event, hooks_ms) = match on {
            OnWake::Start => (WakeEvent::Start, None),
            OnWake::Fork | OnWake::ForkDisk => (WakeEvent::Fork, Some(HOOKS_MS)),
            OnWake::Restore | OnWake::RestoreDisk => (WakeEvent::Restore, Some(HOOKS_MS)),
        };
        // A machine restored with its memory is still in the same boot.
        let boot_id = (on != OnWake::Restore).then(|| uuid::Uuid::new_v4().into_bytes());
        Ok(Wake { identity, boot_id, event, hooks_ms })
    }
}
