//! A clock that only moves when it is told to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentiso_core::ports::Clock;
use jiff::{SignedDuration, Timestamp};

/// A clock for tests of time limits. Both of its clocks start at the same moment and stand still.
#[derive(Debug)]
pub struct FakeClock {
    times: Mutex<Times>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    now: Timestamp,
    wall: Timestamp,
}

impl FakeClock {
    /// A clock that shows the present, to the microsecond: what is stored is no more precise.
    pub fn new() -> Self {
        let now = Timestamp::from_microsecond(Timestamp::now().as_microsecond()).expect("the present");
        Self { times: Mutex::new(Times { now, wall: now }) }
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut times = self.lock();
        times.now += by;
        times.wall += by;
    }

    /// Sets the wall clock, forward or back, while no time passes.
    pub fn set_wall(&self, by: SignedDuration) {
        self.lock().wall += by;
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn wall(&self) -> Timestamp {
        self.lock().wall
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_only_when_told_to_and_the_wall_clock_can_be_set() {
        let clock = FakeClock::new();
        let began = clock.now();
        assert_eq!(clock.now(), began);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now(), began + Duration::from_secs(5));
        clock.set_wall(SignedDuration::from_hours(-1));
        assert_eq!(clock.now(), began + Duration::from_secs(5));
        assert_eq!(clock.on_the_wall(clock.now()), clock.wall());
    }
}
