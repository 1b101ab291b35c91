//! Seeds of property tests.

use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngSeed};

/// A configuration for a slow property test, which prints its seed before the first case.
///
/// Shrinking a case that makes disks or calls servers can take longer than a test may run, and proptest shows a seed only
/// after that. `PROPTEST_RNG_SEED` repeats a run.
pub fn seeded(cases: u32) -> Config {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(std::process::id()),
    };
    #[expect(clippy::print_stderr, reason = "the test harness shows it when the test fails")]
    {
        eprintln!("repeat this run with PROPTEST_RNG_SEED={seed}");
    }
    Config { rng_seed: RngSeed::Fixed(seed), ..config }
}
