//! The kernel and initramfs that every guest starts with.

use std::io;
use std::path::Path;
use std::sync::Arc;

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::Failure;
use agentiso_core::progress::{Progress, Silent};
use agentiso_images::access::share_file;
use agentiso_images::initramfs;
use agentiso_images::kernel::{self, Kernel, KernelQuery};
use agentiso_vmm::GuestKernel;

use crate::{AGENT, Installation};

impl Installation {
    /// The kernel and initramfs, prepared if necessary, without progress reports.
    pub async fn guest_kernel(&self) -> Result<GuestKernel, Failure> {
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        self.prepare_kernel(&silent).await
    }

    /// Finds or prepares the kernel, and the initramfs with this program's own agent.
    pub async fn prepare_kernel(&self, progress: &Arc<dyn Progress>) -> Result<GuestKernel, Failure> {
        let query = self.kernel_query();
        let progress = progress.clone();
        let kernel = off_thread(move || kernel::find(&query, progress.as_ref())).await?;
        self.with_initramfs(&kernel)
    }

    /// Which kernel machines start with, and where kernels are stored.
    pub(super) fn kernel_query(&self) -> KernelQuery {
        KernelQuery { configured: self.config.vm.kernel.clone(), directory: self.paths.kernel_dir() }
    }

    /// A kernel with its initramfs, which is built if necessary.
    pub(super) fn with_initramfs(&self, kernel: &Kernel) -> Result<GuestKernel, Failure> {
        in_place(|| self.with_initramfs_blocking(kernel))
    }

    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn with_initramfs_blocking(&self, kernel: &Kernel) -> Result<GuestKernel, Failure> {
        let guest = paired(kernel);
        if !guest.initrd.is_file() {
            let archive = initramfs::build(AGENT, kernel)?;
            let written = write_whole(&guest.initrd, &archive);
            written.map_err(|error| self.io(&format!("write {}", guest.initrd.display()), error))?;
        }
        for file in [&guest.kernel, &guest.initrd] {
            let shared = file.starts_with(self.paths.kernel_dir()).then(|| share_file(file)).transpose();
            shared.map_err(|error| self.io(&format!("let QEMU read {}", file.display()), error))?;
        }
        Ok(guest)
    }
}

/// The kernel and the path of the initramfs for it and this agent, which may not exist yet.
fn paired(kernel: &Kernel) -> GuestKernel {
    let agent = blake3::hash(AGENT).to_hex();
    let digest = format!("{} {agent} {}", kernel.blake3, initramfs::VERSION);
    let name = format!("initramfs-{}.cpio", &blake3::hash(digest.as_bytes()).to_hex()[..16]);
    GuestKernel { kernel: kernel.image.clone(), initrd: kernel.image.with_file_name(name), digest }
}

/// Writes a file atomically.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    io::Write::write_all(&mut file, bytes)?;
    // The name says that the content is complete, which must hold after a power failure too.
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
