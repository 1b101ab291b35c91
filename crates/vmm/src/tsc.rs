//! The rate of the host's time stamp counter.

use std::time::{Duration, Instant};

/// How long to measure: the error is the time of a system call over this, a few parts in a million.
const MEASURE: Duration = Duration::from_millis(20);

/// Measures the time stamp counter in kHz.
///
/// Emulated guests see the host's counter but, on a microvm, have no other clock to calibrate it with.
pub fn tsc_khz() -> u64 {
    let (start, first) = (Instant::now(), counter());
    while start.elapsed() < MEASURE {
        std::hint::spin_loop();
    }
    let (elapsed, ticks) = (start.elapsed(), counter().wrapping_sub(first));
    let khz = u128::from(ticks) * 1_000_000 / elapsed.as_nanos().max(1);
    u64::try_from(khz).unwrap_or(u64::MAX)
}

fn counter() -> u64 {
    // SAFETY: reading the counter has no preconditions and every x86-64 processor has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_measurements_agree_within_one_percent() {
        let (a, b) = (super::tsc_khz(), super::tsc_khz());
        assert!(a.abs_diff(b) * 100 < a, "{a} {b}");
    }
}
