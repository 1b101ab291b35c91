//! Building a kernel, testing it and selecting it.

use std::path::PathBuf;
use std::sync::Arc;

use agentiso_blocking::off_thread;
use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_images::CancelOnDrop;
use agentiso_images::kernel::KernelInfo;
use agentiso_images::kernel::build::{BuildRequest, Outcome, build};

use crate::Installation;

/// How a kernel is to be built.
#[derive(Clone, Debug)]
pub struct KernelBuild {
    /// An archive with the source; the distribution's package if absent.
    pub source: Option<PathBuf>,
    /// How many compilers run at once.
    pub jobs: u32,
}

impl Installation {
    /// Builds a kernel, boots it, and selects it. On failure, or when dropped, the selected kernel does not change;
    /// compiled files are kept for the next attempt.
    pub async fn build_kernel(
        &self,
        wanted: KernelBuild,
        progress: &Arc<dyn Progress>,
    ) -> Result<KernelInfo, Failure> {
        // The test at the end needs QEMU; fail before the long build if it is missing.
        self.host()?;
        let request = BuildRequest {
            source: wanted.source,
            jobs: wanted.jobs,
            kernels: self.paths.kernel_dir(),
            cache: self.paths.kernel_build_dir(),
        };
        let cancel = CancelOnDrop::default();
        let (cancelled, watched) = (cancel.flag(), progress.clone());
        let kernel = match off_thread(move || build(&request, &cancelled, watched.as_ref())).await? {
            Outcome::Known(kernel) => {
                progress.step("building", None);
                progress.done("this very kernel was built before");
                kernel
            }
            Outcome::New(candidate) => {
                self.prove(candidate.kernel(), progress).await?;
                off_thread(move || candidate.accept()).await?
            }
        };
        Ok(self.now_in_use(&kernel))
    }
}
