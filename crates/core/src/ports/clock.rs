//! The clock port.

use jiff::{SignedDuration, Timestamp};

/// Smaller differences between the two clocks come from reading one after the other.
const JITTER: SignedDuration = SignedDuration::from_secs(2);

/// The time. Time limits use a monotonic clock, so that setting the wall clock neither shortens nor extends them.
pub trait Clock: Send + Sync {
    /// Now, on the clock that time limits are counted on. It never goes back and also counts while the host sleeps.
    fn now(&self) -> Timestamp;

    /// Now, on the wall clock.
    fn wall(&self) -> Timestamp;

    /// What the wall clock shows at a point in time of [`Self::now`], for people to read.
    fn on_the_wall(&self, at: Timestamp) -> Timestamp {
        let off = self.wall().duration_since(self.now());
        if off.abs() <= JITTER { at } else { at.checked_add(off).unwrap_or(at) }
    }
}
