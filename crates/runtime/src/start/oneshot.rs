//! One-shot machines: they end with this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use agentiso_core::action::Tier;
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, ImageName, Resources, WorkspaceId};
use agentiso_vmm::template::Template;
use agentiso_vmm::{Accel, Host, Machine};

use super::{Identity, Ingredients, OnWake, PendingStart, StartDisk};
use crate::machine_dir::MachineDir;
use crate::{Installation, sweep};

/// A machine to start.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Its identity.
    pub id: WorkspaceId,
    /// Its image.
    pub image: ImageName,
    /// Its size.
    pub resources: Resources,
    /// Boots it instead of cloning a template.
    pub cold: bool,
}

/// A running machine with everything it owns. Dropping it ends and removes it.
pub struct Running {
    /// The machine. Declared first: it must be gone before its directory is.
    pub machine: Machine,
    /// How it was started.
    pub tier: Tier,
    /// KVM or emulation.
    pub accel: Accel,
    /// The image's defaults: environment, working directory, user.
    pub defaults: agentiso_images::store::OciDefaults,
    _dir: MachineDir,
}

impl Installation {
    /// Starts a machine and gives it an identity. On failure nothing of it is left.
    pub async fn start(
        &self,
        request: &StartRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<Running, Failure> {
        self.start_as(request, false, progress).await
    }

    /// Boots a machine with a second serial port, for measuring what the transport carries.
    pub async fn start_with_spare_port(
        &self,
        request: &StartRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<Running, Failure> {
        self.start_as(&StartRequest { cold: true, ..request.clone() }, true, progress).await
    }

    async fn start_as(
        &self,
        request: &StartRequest,
        spare_port: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Running, Failure> {
        request.resources.check(&self.config.limits)?;
        let image = self.image(&request.image)?;
        let defaults = image.meta.defaults.clone().unwrap_or_default();
        let with = self.ingredients(&image, &request.resources, progress).await?;
        sweep(&self.paths.machines_dir())
            .map_err(|error| self.io("remove the directories of dead machines", error))?;
        let dir = self.machine_dir(request.id, &with.host)?;
        tracing::debug!(id = %request.id, "starting");
        let pending = PendingStart { spare_port, ..self.pending_oneshot(&dir) };
        let started = self.start_in(&with, &pending, request.cold, progress).await?;
        let running = Running {
            machine: started.machine,
            tier: started.tier,
            accel: with.hardware.accel,
            defaults,
            _dir: dir,
        };
        let identity = Identity { id: request.id, hostname: format!("ws-{}", request.id.short()) };
        identity.give_to(&running.machine, OnWake::Start).await?;
        if let Some(bytes) = started.disk_bytes {
            running.machine.announce_disk_size(bytes).await?;
        }
        Ok(running)
    }

    fn pending_oneshot(&self, dir: &MachineDir) -> PendingStart {
        PendingStart {
            dir: dir.path().to_owned(),
            user: dir.user().cloned(),
            disk: dir.path().join("disk").with_extension(self.disks().extension()),
            disk_is: StartDisk::Fresh,
            lasting: false,
            spare_port: false,
        }
    }

    pub(crate) fn machine_dir(&self, id: WorkspaceId, host: &Host) -> Result<MachineDir, Failure> {
        MachineDir::create(&self.paths.machines_dir(), id, host.user()?)
            .map(|dir| dir.with_disks(self.shared_disks()))
            .map_err(|error| self.io("create the machine's directory", error))
    }
}

impl Running {
    /// Ends the machine cleanly and removes it. Returns whether its file system was left clean.
    pub async fn stop(self, limit: Duration) -> bool {
        let Self { machine, _dir: dir, .. } = self;
        let clean = machine.stop(limit).await;
        drop(dir);
        clean
    }

    /// Ends the machine at once and removes it.
    pub async fn destroy(self) {
        let Self { machine, _dir: dir, .. } = self;
        machine.kill().await;
        drop(dir);
    }
}

/// A bare restore of a template, for benchmarks.
pub struct BareRestore<'a> {
    installation: &'a Installation,
    with: Ingredients,
    template: Template,
}

impl<'a> BareRestore<'a> {
    /// Makes the template if there is none yet.
    pub async fn prepare(
        installation: &'a Installation,
        request: &StartRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<Self, Failure> {
        let image = installation.image(&request.image)?;
        let with = installation.ingredients(&image, &request.resources, progress).await?;
        let template = installation.warm_template(&with, progress).await?;
        Ok(Self { installation, with, template })
    }

    /// How long QEMU takes from its start to the agent's first answer.
    pub async fn once(&self) -> Result<Duration, Failure> {
        let Self { installation, with, template } = self;
        let dir = installation.machine_dir(WorkspaceId::from_uuid(uuid::Uuid::now_v7()), &with.host)?;
        let began = Instant::now();
        let machine = installation.restore_warm(with, &installation.pending_oneshot(&dir), template).await?;
        machine.at_start("answering", machine.guest().ready()).await?;
        let elapsed = began.elapsed();
        machine.kill().await;
        Ok(elapsed)
    }

    /// How long it takes until the last of `count` machines, started together, has answered.
    pub async fn at_once(&self, count: u32) -> Result<Duration, Failure> {
        let began = Instant::now();
        futures_util::future::try_join_all((0..count).map(|_| self.once())).await?;
        Ok(began.elapsed())
    }
}
