//! The kernel and initramfs that every guest starts with.

use std::io;
use std::path::Path;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::{Progress, Silent};
use agentiso_images::access::share_file;
use agentiso_images::initramfs;
use agentiso_images::kernel::{self, Kernel, KernelQuery};
use agentiso_vmm::GuestKernel;

use crate::image_ops::blocking;
use crate::{AGENT, Installation};

impl Installation {
    /// The kernel and initramfs, prepared if need be without telling anyone.
    pub async fn guest_kernel(&self) -> Result<GuestKernel, Failure> {
        let silent: Arc<dyn Progress> = Arc::new(Silent);
        self.prepare_kernel(&silent).await
    }

    /// Finds or prepares the kernel, and the initramfs with this program's own agent.
    pub async fn prepare_kernel(&self, progress: &Arc<dyn Progress>) -> Result<GuestKernel, Failure> {
        let query = self.kernel_query();
        let progress = progress.clone();
        let kernel = blocking(move || kernel::find(&query, progress.as_ref())).await??;
        self.with_initramfs(&kernel)
    }

    /// Which kernel is wanted.
    pub(super) fn kernel_query(&self) -> KernelQuery {
        KernelQuery { configured: self.config.vm.kernel.clone(), directory: self.paths.kernel_dir() }
    }

    /// A kernel with its initramfs, which is made if need be.
    pub(super) fn with_initramfs(&self, kernel: &Kernel) -> Result<GuestKernel, Failure> {
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

/// The kernel with the initramfs that belongs to it and to this agent, whether it is written already or not.
fn paired(kernel: &Kernel) -> GuestKernel {
    let agent = blake3::hash(AGENT).to_hex();
    let digest = format!("{} {agent} {}", kernel.blake3, initramfs::VERSION);
    let name = format!("initramfs-{}.cpio", &blake3::hash(digest.as_bytes()).to_hex()[..16]);
    GuestKernel { kernel: kernel.image.clone(), initrd: kernel.image.with_file_name(name), digest }
}

/// Writes a file that is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    io::Write::write_all(&mut file, bytes)?;
    // Under its name it is taken for whole for ever, also after a host that lost power.
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
