//! What one workspace may use of the router.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Log entries per second, and how many at once: a guest that scans ports must not push everybody else out of the log.
pub(crate) const LOG_RATE: u64 = 100;
pub(crate) const LOG_BURST: u64 = 500;

/// The most questions of a machine to the host's resolvers at the same time: one that asks for names whose servers do not
/// answer must not keep others waiting.
pub(crate) const MAX_LOOKUPS: usize = 32;

/// The most queries of a machine that wait for an answer to a request for approval.
pub(crate) const MAX_WAITING: usize = 16;

/// The limits of a workspace. A rate of 0 is unlimited.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections, UDP flows and pings that are open at the same time.
    pub connections: usize,
    /// Frames per second from the guest.
    pub packets_per_second: u64,
    /// Payload per second, both directions together.
    pub bytes_per_second: u64,
    /// DNS queries per second.
    pub queries_per_second: u64,
    /// A TCP connection on which nothing moves for this long is closed.
    pub tcp_idle_seconds: u64,
    /// A connection through the egress proxy has to say what it wants within this time.
    pub first_bytes_seconds: u64,
    /// A UDP flow on which nothing moves for this long is forgotten.
    pub udp_idle_seconds: u64,
    /// A refused connection or name waits this long for an answer, if the rules say that it waits.
    pub ask_seconds: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            packets_per_second: 200_000,
            bytes_per_second: 1_250_000_000,
            queries_per_second: 200,
            tcp_idle_seconds: 7200,
            first_bytes_seconds: 15,
            udp_idle_seconds: 60,
            ask_seconds: 30,
        }
    }
}

impl Limits {
    pub(crate) fn tcp_idle(&self) -> Duration {
        Duration::from_secs(self.tcp_idle_seconds.max(1))
    }

    pub(crate) fn first_bytes(&self) -> Duration {
        Duration::from_secs(self.first_bytes_seconds.max(1))
    }

    pub(crate) fn ask_limit(&self) -> Duration {
        Duration::from_secs(self.ask_seconds)
    }

    pub(crate) fn udp_idle(&self) -> Duration {
        Duration::from_secs(self.udp_idle_seconds.max(1))
    }
}

const SECOND: u128 = 1_000_000_000;

/// A token bucket that holds what a fraction of a second brings, so that short bursts pass.
#[derive(Debug)]
pub(crate) struct Bucket {
    rate: u64,
    capacity: u64,
    level: u64,
    filled: Instant,
}

impl Bucket {
    /// A bucket that is full now. A rate of 0 is unlimited.
    pub(crate) fn new(rate: u64, capacity: u64, now: Instant) -> Self {
        Self { rate, capacity: capacity.max(1), level: capacity.max(1), filled: now }
    }

    /// What can be taken now.
    pub(crate) fn available(&mut self, now: Instant) -> u64 {
        if self.rate == 0 {
            return u64::MAX;
        }
        let elapsed = now.saturating_duration_since(self.filled).as_nanos();
        let gained =
            u64::try_from(elapsed.saturating_mul(u128::from(self.rate)) / SECOND).unwrap_or(u64::MAX);
        if gained >= self.capacity {
            self.level = self.capacity;
            self.filled = now;
        } else {
            // The time that brought less than one stays on the clock.
            self.level = self.level.saturating_add(gained).min(self.capacity);
            self.filled += Duration::from_nanos((u128::from(gained) * SECOND / u128::from(self.rate)) as u64);
        }
        self.level
    }

    /// Takes an amount if all of it is available.
    pub(crate) fn take(&mut self, amount: u64, now: Instant) -> bool {
        let enough = self.available(now) >= amount;
        if enough {
            self.spend(amount);
        }
        enough
    }

    /// Takes an amount that `available` returned.
    pub(crate) fn spend(&mut self, amount: u64) {
        if self.rate > 0 {
            self.level = self.level.saturating_sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, 10, start);
        assert_eq!((0..20).filter(|_| bucket.take(1, start)).count(), 10);
        assert!(!bucket.take(1, start + Duration::from_micros(999)));
        assert!(bucket.take(1, start + Duration::from_millis(1)));
        assert!(!bucket.take(1, start + Duration::from_millis(1)));
        assert_eq!(
            bucket.available(start + Duration::from_secs(60)),
            10,
            "no more than the burst is saved up"
        );
    }

    #[test]
    fn many_small_steps_gain_as_much_as_one_large_step() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1000, 1000, start);
        bucket.spend(1000);
        for step in 1..=66 {
            bucket.available(start + Duration::from_micros(step * 1500));
        }
        assert_eq!(bucket.available(start + Duration::from_millis(100)), 100);
    }

    #[test]
    fn a_rate_of_zero_is_unlimited() {
        let start = Instant::now();
        let mut bucket = Bucket::new(0, 1, start);
        assert!((0..1000).all(|_| bucket.take(1 << 40, start)));
    }
}
