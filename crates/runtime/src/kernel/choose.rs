//! Choosing which kernel machines start with.

use std::sync::Arc;

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_images::kernel::{self, Kernel, KernelInfo, Kernels};

use crate::Installation;

impl Installation {
    /// All prepared kernels, and the build in progress.
    pub fn kernels(&self) -> Kernels {
        in_place(|| kernel::list(&self.kernel_query(), &self.paths.kernel_build_dir()))
    }

    /// Makes machines start with the kernel that was built here.
    pub async fn use_built_kernel(&self) -> Result<KernelInfo, Failure> {
        let directory = self.paths.kernel_dir();
        let kernel = off_thread(move || kernel::use_built(&directory)).await?;
        Ok(self.now_in_use(&kernel))
    }

    /// Makes machines start with the distribution's kernel, which is downloaded if necessary.
    pub async fn use_packaged_kernel(&self, progress: &Arc<dyn Progress>) -> Result<KernelInfo, Failure> {
        let (directory, progress) = (self.paths.kernel_dir(), progress.clone());
        let switch = move || {
            let kernel = kernel::find_packaged(&directory, progress.as_ref())?;
            kernel::use_packaged(&directory).map(|()| kernel)
        };
        let kernel = off_thread(switch).await?;
        Ok(self.now_in_use(&kernel))
    }

    /// Describes a kernel that was just chosen. A kernel that the configuration names takes precedence over it.
    pub(super) fn now_in_use(&self, kernel: &Kernel) -> KernelInfo {
        in_place(|| KernelInfo::of(kernel, self.config.vm.kernel.is_none()))
    }
}
