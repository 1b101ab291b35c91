//! Telling whoever waits how far a long piece of work has come.

/// Receives progress. The terminal draws bars from it, a server sends events; work itself never prints.
pub trait Progress: Send + Sync {
    /// A new step begins; `total` is its size in bytes or items, if known.
    fn step(&self, what: &str, total: Option<u64>);

    /// The current step has done `amount` more.
    fn advance(&self, amount: u64);

    /// Says how the current step stands, where amounts cannot ("612 of about 1700 files").
    fn note(&self, _remark: &str) {}

    /// The current step is over, with an optional remark ("already there", "297 MiB").
    fn done(&self, remark: &str);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _what: &str, _total: Option<u64>) {}
    fn advance(&self, _amount: u64) {}
    fn done(&self, _remark: &str) {}
}
