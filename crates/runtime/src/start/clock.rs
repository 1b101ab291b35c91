//! Setting the clocks of guests.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentiso_proto::Configure;
use agentiso_vmm::link::{Guest, LinkError};
use agentiso_vmm::{Machine, VmError};

/// A clock that may be off by more than this is corrected.
const TOLERANCE: Duration = Duration::from_millis(2);
/// A guest that took longer than this is corrected before the start is reported; others in the background.
const SLOW: Duration = Duration::from_secs(1);
/// How many exchanges are made at most to reach the wanted precision.
const QUESTIONS: u32 = 4;

/// The present, in nanoseconds since the epoch.
pub(crate) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Corrects the clock of a machine that was told the time at `told`: the message took up to the time since then, so the
/// clock is late by up to as much.
pub(crate) async fn set_again(machine: &Machine, told: Instant) -> Result<(), VmError> {
    let late = told.elapsed();
    if late <= TOLERANCE {
        return Ok(());
    }
    let is_slow = late > SLOW;
    let guest = machine.guest().clone();
    let setting = async move {
        match best_offset(&guest, if is_slow { SLOW } else { TOLERANCE }).await {
            Ok(ahead) => guest.set_clock(ahead).await,
            Err(LinkError::OldAgent { .. }) => {
                guest.configure(Configure { unix_nanos: Some(now_ns()), ..Configure::default() }).await
            }
            Err(error) => Err(error),
        }
    };
    if is_slow {
        machine.at_start("setting its clock", setting).await
    } else {
        tokio::spawn(setting);
        Ok(())
    }
}

/// The offset between the time and the guest's monotonic clock, if possible to within `precision`.
async fn best_offset(guest: &Guest, precision: Duration) -> Result<u64, LinkError> {
    let mut bounds = Bounds::default();
    for _ in 0..QUESTIONS {
        let asked = now_ns();
        let steady = guest.steady_clock().await?;
        bounds.narrow(asked, steady, now_ns());
        if bounds.width() <= precision {
            break;
        }
    }
    Ok(bounds.middle())
}

/// Bounds on the offset: in each exchange, the guest read its clock after the request and before the answer.
#[derive(Debug)]
struct Bounds {
    least: u64,
    most: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { least: 0, most: u64::MAX }
    }
}

impl Bounds {
    fn narrow(&mut self, asked_ns: u64, steady: u64, answered_ns: u64) {
        self.least = self.least.max(asked_ns.saturating_sub(steady));
        self.most = self.most.min(answered_ns.saturating_sub(steady));
    }

    fn width(&self) -> Duration {
        Duration::from_nanos(self.most.saturating_sub(self.least))
    }

    fn middle(&self) -> u64 {
        u64::midpoint(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_exchange_narrows_the_bounds_around_the_true_offset(
            offset in 0u64..1 << 62,
            exchanges in prop::collection::vec((0u64..1 << 40, 0u64..1 << 36, 0u64..1 << 36), 1..5),
        ) {
            let mut bounds = Bounds::default();
            for &(steady, there, back) in &exchanges {
                let read = offset + steady;
                bounds.narrow(read.saturating_sub(there), steady, read + back);
                prop_assert!(bounds.least <= offset && offset <= bounds.most);
            }
            let fastest = exchanges.iter().map(|(_, there, back)| there + back).min().unwrap();
            prop_assert!(bounds.width() <= Duration::from_nanos(fastest));
            prop_assert!(bounds.middle().abs_diff(offset) <= fastest);
        }
    }

    #[test]
    fn a_guest_may_claim_what_it_likes() {
        let mut bounds = Bounds::default();
        bounds.narrow(1_000, 10, 1_020);
        assert_eq!((bounds.width(), bounds.middle()), (Duration::from_nanos(20), 1_000));
        bounds.narrow(1_100, u64::MAX, 1_120);
        bounds.narrow(1_200, 0, 1_220);
        assert_eq!(bounds.width(), Duration::ZERO);
        assert!(bounds.middle() <= 1_220);
    }
}
