//! Package managers of a host that print what a test says.

use std::sync::{Arc, Mutex};

use agentiso_core::ports::packages::PackageSources;
use agentiso_core::{Code, Failure};
use async_trait::async_trait;

use super::machine::locked;

/// Package managers in memory. Cheap to clone: clones are the same.
#[derive(Clone, Default)]
pub struct FakePackages(Arc<Mutex<Option<String>>>);

impl FakePackages {
    /// Sets what they print. Before, asking them fails.
    pub fn print(&self, report: &str) {
        *locked(&self.0) = Some(report.to_owned());
    }
}

#[async_trait]
impl PackageSources for FakePackages {
    async fn report(&self, _script: &str) -> Result<String, Failure> {
        let report = locked(&self.0).clone();
        report.ok_or_else(|| Failure::new(Code::ToolFailed, "there are no package managers"))
    }
}
