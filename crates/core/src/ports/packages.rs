//! The port that asks the host's package managers what they are configured for.

use async_trait::async_trait;

use crate::Failure;

/// The most bytes of a report that are read.
pub const MAX_REPORT: usize = 64 << 10;

/// The package managers of the host.
#[async_trait]
pub trait PackageSources: Send + Sync {
    /// What a shell script prints on the host, at most [`MAX_REPORT`] bytes of it. A script that fails or takes too long is
    /// an error.
    async fn report(&self, script: &str) -> Result<String, Failure>;
}
