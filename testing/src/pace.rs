//! How fast programs in machines go.

/// Seconds between two things that a program in a machine does over and over, so that everything else gets its turn.
/// Where processors are emulated twice each of these things takes long, so the run says how many with
/// `AGENTISO_TEST_PACE`.
///
/// # Panics
///
/// If it says something that is not a number.
pub fn pace() -> f64 {
    let said = std::env::var("AGENTISO_TEST_PACE").ok();
    said.map_or(0.1, |said| said.parse().expect("AGENTISO_TEST_PACE: seconds"))
}
