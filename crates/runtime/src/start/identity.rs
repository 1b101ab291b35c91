//! Making a machine a distinct one.

use std::time::Instant;

use agentiso_core::WorkspaceId;
use agentiso_proto::{Configure, HookReport, Wake, WakeEvent};
use agentiso_vmm::{Machine, VmError};

use super::clock::{self, now_ns};

/// How long all hooks of a machine together may take.
const HOOKS_MS: u32 = 10_000;
/// Random bytes each machine's kernel is given.
const ENTROPY_BYTES: usize = 64;

/// Who a machine is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub id: WorkspaceId,
    pub hostname: String,
}

/// Why a machine gets its identity.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnWake {
    /// It is new.
    Start,
    /// It was another machine until now.
    Fork,
    /// It was taken back to an earlier moment of its own.
    Restore,
    /// Its disk was taken back to an earlier moment, and it started anew.
    RestoreDisk,
    /// It started anew on the disk of another machine.
    ForkDisk,
}

impl Identity {
    /// Gives a machine its own entropy, clock and names, runs its hooks, and lets it go on. Nothing else is asked of
    /// it before.
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
        // A machine taken back to an earlier moment is still in the same boot.
        let boot_id = (on != OnWake::Restore).then(|| uuid::Uuid::new_v4().into_bytes());
        Ok(Wake { identity, boot_id, event, hooks_ms })
    }
}
