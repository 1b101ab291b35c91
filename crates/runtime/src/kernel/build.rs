//! Building a kernel, proving it and putting it to use.

use std::path::PathBuf;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_images::kernel::build::{BuildRequest, Outcome, build};

use super::KernelInfo;
use crate::Installation;
use crate::image_ops::{CancelOnDrop, blocking};

/// How a kernel is to be built.
#[derive(Clone, Debug)]
pub struct KernelBuild {
    /// An archive with the source; the distribution's package if absent.
    pub source: Option<PathBuf>,
    /// How many compilers run at once.
    pub jobs: u32,
}

impl Installation {
    /// Builds a kernel, boots it, and uses it from then on. If that fails, or when dropped half way, the kernel in use
    /// stays the same; what was compiled is kept for the next attempt.
    pub async fn build_kernel(
        &self,
        wanted: KernelBuild,
        progress: &Arc<dyn Progress>,
    ) -> Result<KernelInfo, Failure> {
        // Without it the kernel could not be proved, and that is better known before the long part.
        self.host()?;
        let request = BuildRequest {
            source: wanted.source,
            jobs: wanted.jobs,
            kernels: self.paths.kernel_dir(),
            cache: self.paths.kernel_build_dir(),
        };
        let cancel = CancelOnDrop::default();
        let (cancelled, watched) = (cancel.0.clone(), progress.clone());
        let kernel = match blocking(move || build(&request, &cancelled, watched.as_ref())).await?? {
            Outcome::Known(kernel) => {
                progress.step("building", None);
                progress.done("this very kernel was built before");
                kernel
            }
            Outcome::New(candidate) => {
                self.prove(candidate.kernel(), progress).await?;
                blocking(move || candidate.accept()).await??
            }
        };
        Ok(self.now_in_use(&kernel))
    }
}
