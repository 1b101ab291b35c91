//! Testing a kernel by starting a machine with it and using what every machine needs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_images::ext4;
use agentiso_images::kernel::{self, Kernel};
use agentiso_proto::Configure;
use agentiso_vmm::link::{LinkError, WriteOptions};
use agentiso_vmm::qemu::{DiskFile, Memory};
use agentiso_vmm::{Accel, GuestKernel, Hardware, Host, Launch, LinkKind, Machine, User, VmError, root_disk};
use uuid::Uuid;

use crate::Installation;

const MEMORY_MB: u32 = 256;
const VCPUS: u32 = 2;
const DISK_BYTES: u64 = 64 << 20;
/// How long it may take to power off.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// A file on the disk, where the agent mounts one that it does not enter.
const PROOF: &[u8] = b"/newroot/proof";
const RELEASE: &[u8] = b"/proc/sys/kernel/osrelease";

impl Installation {
    /// Starts a machine with the kernel, mounts a disk, writes to it and stops the machine. An error includes the last
    /// console lines.
    pub(super) async fn prove(&self, kernel: &Kernel, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        let host = self.host()?;
        let before = self.hardware_before(&host, progress).await?;
        progress.step("booting the new kernel", None);
        let guest = self.with_initramfs(kernel)?;
        let hardware = self.hardware(&host, &guest, VCPUS, MEMORY_MB).await;
        if let Some(before) = before {
            self.require_no_loss(&host, &guest, &before, &hardware).await?;
        }
        self.try_out(&host, &guest, hardware, &kernel.version).await.map_err(useless)?;
        progress.done(&format!("{} under {}", kernel.version, hardware.accel));
        Ok(())
    }

    /// How machines run with the kernel selected so far; `None` if there is none.
    async fn hardware_before(
        &self,
        host: &Host,
        progress: &Arc<dyn Progress>,
    ) -> Result<Option<Hardware>, Failure> {
        if kernel::current(&self.kernel_query()).is_none() {
            return Ok(None);
        }
        let guest = self.prepare_kernel(progress).await?;
        Ok(Some(self.hardware(host, &guest, VCPUS, MEMORY_MB).await))
    }

    /// Rejects a kernel that boots, but without KVM or vsock where the selected one has them.
    async fn require_no_loss(
        &self,
        host: &Host,
        guest: &GuestKernel,
        before: &Hardware,
        now: &Hardware,
    ) -> Result<(), Failure> {
        if before.accel == Accel::Kvm && now.accel != Accel::Kvm {
            let why = self.acceleration(host, guest).await.reason;
            return Err(useless(Failure::new(Code::BootFailed, why)));
        }
        if before.link == LinkKind::Vsock && now.link != LinkKind::Vsock {
            let why = self.link(host, guest, now.accel).await.reason;
            return Err(useless(Failure::new(Code::BootFailed, why)));
        }
        Ok(())
    }

    async fn try_out(
        &self,
        host: &Host,
        guest: &GuestKernel,
        hardware: Hardware,
        version: &str,
    ) -> Result<(), Failure> {
        let dir = self.machine_dir(WorkspaceId::from_uuid(Uuid::now_v7()), host)?;
        let disk = dir.path().join("disk.raw");
        let blank = disk.clone();
        let owner = dir.user().map(User::owner);
        off_thread(move || ext4::make_blank(&blank, DISK_BYTES)).await?;
        if let Some(owner) = owner {
            in_place(|| hand_over(&disk, owner)).map_err(|error| self.io("hand over a disk", error))?;
        }
        let launch = Launch {
            dir: dir.path(),
            hardware,
            user: dir.user().cloned(),
            disk: DiskFile::File { path: disk.clone(), format: "raw", below: Vec::new(), own: None },
            memory: Memory::Anonymous,
            ephemeral: true,
            spare_port: false,
        };
        let machine = Machine::boot(host, launch, guest).await?;
        let says = use_disk(&machine).await?;
        if says != version {
            let message = format!("it reports version {says:?}, but {version:?} was built");
            return Err(Failure::new(Code::BootFailed, message));
        }
        if !machine.stop(STOP_LIMIT).await {
            return Err(Failure::new(Code::BootFailed, "it does not stop"));
        }
        require_proof(&disk).await
    }
}

/// Mounts the disk and writes to it. Returns the version that the running kernel reports.
async fn use_disk(machine: &Machine) -> Result<String, VmError> {
    let guest = machine.guest();
    let configure = Configure { root: Some(root_disk(false)), ..Configure::default() };
    machine.at_start("mounting a disk", guest.configure(configure)).await?;
    let work = async {
        let mut file = guest.write_file(PROOF, WriteOptions::default()).await?;
        file.write(b"proof\n").await?;
        file.finish().await?;
        guest.sync().await?;
        let mut release = guest.read_file(RELEASE, 0, None).await?;
        let mut text = Vec::new();
        while let Some(bytes) = release.next().await? {
            text.extend_from_slice(&bytes);
        }
        Ok::<_, LinkError>(String::from_utf8_lossy(&text).trim().to_owned())
    };
    machine.at_start("writing to a disk", work).await
}

async fn require_proof(disk: &Path) -> Result<(), Failure> {
    let disk = disk.to_owned();
    Ok(off_thread(move || ext4::check(&disk)).await?)
}

#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn hand_over(disk: &Path, (uid, gid): (u32, u32)) -> std::io::Result<()> {
    std::os::unix::fs::chown(disk, Some(uid), Some(gid))
}

fn useless(why: Failure) -> Failure {
    let message = format!("the kernel that was built does not work and is not used: {}", why.message());
    Failure::new(why.code(), message).with_remedy(
        "nothing has changed; 'agentiso image kernel ls' shows the kernel in use and where the build is",
    )
}
