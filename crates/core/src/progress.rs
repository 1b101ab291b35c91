//! Progress of long operations.

/// Receives the progress of an operation: the CLI draws bars, the daemon sends events.
pub trait Progress: Send + Sync {
    /// A new step begins; `total` is its size in bytes or items, if known.
    fn step(&self, what: &str, total: Option<u64>);

    /// The current step has done `amount` more.
    fn advance(&self, amount: u64);

    /// Describes the current step where amounts cannot ("612 of about 1700 files").
    fn note(&self, _remark: &str) {}

    /// The current step ended, with an optional remark ("already there", "297 MiB").
    fn done(&self, remark: &str);
}

/// Discards all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _what: &str, _total: Option<u64>) {}
    fn advance(&self, _amount: u64) {}
    fn done(&self, _remark: &str) {}
}
