//! Starting a machine: directory, disk, clone, identity; and ending it.
//!
//! ```text
//!   wanted ─► directory ─► disk ─► clone of a warm template ──────────┐
//!                            │        └ cannot be made: clone of the base, mount
//!                            │             └ cannot be made: cold boot, mount
//!                            └ --cold: cold boot, mount               │
//!                                                                     ▼
//!                                                  identity set ─► running
//! ```
//!
//! Whatever fails on the way, everything made so far goes with the values that own it: the process with its
//! `Machine`, the disk and sockets with their `MachineDir`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentiso_core::ports::DiskSource;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Explain, Failure, ImageName, Resources, WorkspaceId};
use agentiso_proto::{Configure, Inherit};
use agentiso_vmm::link::{LinkError, Resync};
use agentiso_vmm::qemu::{DiskFile, Memory};
use agentiso_vmm::template::{ImageDisk, Template, base_key, make_base, make_warm, warm_key};
use agentiso_vmm::{Accel, GuestKernel, Hardware, Host, Launch, Machine, RestoreFrom, VmError, root_disk};
use serde::Serialize;

use crate::machine_dir::MachineDir;
use crate::{Installation, sweep};

/// How long making a started machine itself may take.
const IDENTITY_LIMIT: Duration = Duration::from_secs(30);
/// Random bytes each machine's kernel is given.
const ENTROPY_BYTES: usize = 64;
/// A clock that is off by more than this after the first setting is set again.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(2);

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

/// Where a machine came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// It booted.
    Cold,
    /// It is a clone of a booted guest that mounted its disk afterwards.
    Template,
    /// It is a clone of a guest with this image already mounted.
    WarmTemplate,
}

/// A running machine with everything it owns. Dropping it ends and removes it.
pub struct Running {
    /// The machine. Declared first: it must be gone before its directory is.
    pub machine: Machine,
    /// Where it came from.
    pub tier: Tier,
    /// How its instructions run.
    pub accel: Accel,
    /// What its image says about how it wants to be run.
    pub defaults: agentiso_images::store::OciDefaults,
    _dir: MachineDir,
}

/// What a machine is started from.
struct Ingredients {
    host: Host,
    kernel: GuestKernel,
    hardware: Hardware,
    image: ImageDisk,
}

impl Installation {
    /// Starts a machine and makes it a distinct one. On failure nothing of it is left.
    pub async fn start(
        &self,
        request: &StartRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<Running, Failure> {
        self.start_as(request, false, progress).await
    }

    /// Boots a machine with a second serial port, for measuring what the transport carries.
    pub(crate) async fn start_with_spare_port(
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
        let image = self.images()?.get(&request.image)?;
        let defaults = image.meta.defaults.clone().unwrap_or_default();
        let ingredients = self.ingredients(request, &image, progress).await?;
        sweep(&self.paths.machines_dir())
            .map_err(|error| self.io("remove what dead machines left", error))?;
        let dir = self.machine_dir(request.id, &ingredients.host)?;
        tracing::debug!(id = %request.id, "starting");
        let (machine, tier) = if request.cold {
            (self.boot(&ingredients, &dir, spare_port).await?, Tier::Cold)
        } else {
            self.clone_or_boot(&ingredients, &dir, progress).await?
        };
        let running = Running { machine, tier, accel: ingredients.hardware.accel, defaults, _dir: dir };
        running.become_itself(request).await?;
        if tier == Tier::Template {
            running.machine.announce_disk_size(ingredients.image.bytes).await?;
        }
        Ok(running)
    }

    async fn ingredients(
        &self,
        request: &StartRequest,
        image: &agentiso_images::store::Image,
        progress: &Arc<dyn Progress>,
    ) -> Result<Ingredients, Failure> {
        let bytes = request.resources.disk_bytes();
        let raw = self.sized_base(image, bytes).await?;
        let host = self.host()?;
        let kernel = self.prepare_kernel(progress).await?;
        let Resources { vcpus, memory_mb, .. } = request.resources;
        let hardware = self.hardware(&host, &kernel, vcpus, memory_mb).await;
        let identity = format!("{} {}", image.meta.fs_uuid, image.meta.created);
        Ok(Ingredients { host, kernel, hardware, image: ImageDisk { raw, identity, bytes } })
    }

    /// Clones the best template there is or can be made, and boots if there is none.
    async fn clone_or_boot(
        &self,
        with: &Ingredients,
        dir: &MachineDir,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Machine, Tier), Failure> {
        match self.clone_warm(with, dir, progress).await {
            Ok(machine) => return Ok((machine, Tier::WarmTemplate)),
            // Without room nothing else gets far either, and a slow start would hide why. A kernel that does not
            // boot for a template does not boot for a machine.
            Err(error) if matches!(error.code(), Code::DiskFull | Code::BootFailed) => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(error = %agentiso_core::chain(&error), "no clone of a warm template")
            }
        }
        match self.clone_base(with, dir, progress).await {
            Ok(machine) => return Ok((machine, Tier::Template)),
            Err(error) => tracing::warn!(error = %agentiso_core::chain(&error), "no clone of a template"),
        }
        Ok((self.boot(with, dir, false).await?, Tier::Cold))
    }

    async fn clone_warm(
        &self,
        with: &Ingredients,
        dir: &MachineDir,
        progress: &Arc<dyn Progress>,
    ) -> Result<Machine, VmError> {
        let base_key = base_key(&with.host, &with.kernel, &with.hardware);
        let key = warm_key(&base_key, &with.image.identity, with.image.bytes);
        let template = self.warm_template(with, &base_key, &key, progress).await?;
        match self.restore(with, dir, &template, &DiskSource::Layer(template.disk())).await {
            Err(VmError::BadTemplate { path, reason }) => {
                tracing::warn!(template = %path.display(), reason, "making the template anew");
                self.templates().remove(&key);
                let template = self.warm_template(with, &base_key, &key, progress).await?;
                self.restore(with, dir, &template, &DiskSource::Layer(template.disk())).await
            }
            other => other,
        }
    }

    async fn warm_template(
        &self,
        with: &Ingredients,
        base_key: &str,
        key: &str,
        progress: &Arc<dyn Progress>,
    ) -> Result<Template, VmError> {
        if let Some(template) = self.templates().get(key) {
            return Ok(template);
        }
        let base = self.base_template(&with.host, &with.kernel, with.hardware, progress).await?;
        progress.step("Warming a template for this image", None);
        let (templates, disks) = (self.templates(), self.disks());
        let made =
            make_warm(&templates, &with.host, (base_key, &base), with.hardware, &with.image, disks).await;
        self.keep_templates_in_bounds(&[base_key, key]);
        let made = made?;
        progress.done("");
        Ok(made)
    }

    /// The base template of a shape, made if there is none.
    pub(crate) async fn base_template(
        &self,
        host: &Host,
        kernel: &GuestKernel,
        hardware: Hardware,
        progress: &Arc<dyn Progress>,
    ) -> Result<Template, VmError> {
        if let Some(template) = self.templates().get(&base_key(host, kernel, &hardware)) {
            return Ok(template);
        }
        progress.step("Booting a template", None);
        let made = make_base(&self.templates(), host, kernel, hardware).await?;
        progress.done(&format!("{} vcpus, {} MiB, {}", hardware.vcpus, hardware.memory_mb, hardware.accel));
        Ok(made)
    }

    async fn clone_base(
        &self,
        with: &Ingredients,
        dir: &MachineDir,
        progress: &Arc<dyn Progress>,
    ) -> Result<Machine, VmError> {
        let key = base_key(&with.host, &with.kernel, &with.hardware);
        let template = self.base_template(&with.host, &with.kernel, with.hardware, progress).await?;
        let machine = self.restore(with, dir, &template, &DiskSource::Raw(with.image.raw.clone())).await;
        if matches!(machine, Err(VmError::BadTemplate { .. })) {
            self.templates().remove(&key);
        }
        let machine = machine?;
        mount(&machine).await?;
        Ok(machine)
    }

    async fn restore(
        &self,
        with: &Ingredients,
        dir: &MachineDir,
        template: &Template,
        source: &DiskSource,
    ) -> Result<Machine, VmError> {
        let launch = self.launch(with, dir, source, Memory::Private(template.ram()))?;
        let device = template.device();
        let from = RestoreFrom { device: &device, inherit: Inherit::Kill, resync: Resync::Clean };
        Machine::restore(&with.host, launch, from).await
    }

    async fn boot(&self, with: &Ingredients, dir: &MachineDir, spare_port: bool) -> Result<Machine, VmError> {
        let source = DiskSource::Raw(with.image.raw.clone());
        let launch = Launch { spare_port, ..self.launch(with, dir, &source, Memory::Anonymous)? };
        let machine = Machine::boot(&with.host, launch, &with.kernel).await?;
        mount(&machine).await?;
        Ok(machine)
    }

    pub(crate) fn machine_dir(&self, id: WorkspaceId, host: &Host) -> Result<MachineDir, Failure> {
        MachineDir::create(&self.paths.machines_dir(), id, host.run_as)
            .map_err(|error| self.io("create the machine's directory", error))
    }

    /// Makes the disk of one attempt to start; an earlier attempt's files are replaced.
    fn launch<'a>(
        &self,
        with: &Ingredients,
        dir: &'a MachineDir,
        source: &DiskSource,
        memory: Memory,
    ) -> Result<Launch<'a>, VmError> {
        let path = dir.path().join("disk.qcow2");
        dir.clear().map_err(VmError::io("clear the machine's directory"))?;
        self.disks().create(&path, source, with.image.bytes)?;
        if let Some(owner) = with.host.run_as {
            std::os::unix::fs::chown(&path, Some(owner.uid), Some(owner.gid))
                .map_err(VmError::io("hand over the machine's disk"))?;
        }
        let disk = DiskFile::File { path, format: self.disks().qemu_format() };
        Ok(Launch {
            dir: dir.path(),
            hardware: with.hardware,
            disk,
            memory,
            ephemeral: true,
            spare_port: false,
        })
    }
}

impl Running {
    /// Gives a fresh clone its own entropy, clock and names. Nothing else is asked of it before.
    async fn become_itself(&self, request: &StartRequest) -> Result<(), VmError> {
        let mut entropy = vec![0; ENTROPY_BYTES];
        rustix::rand::getrandom(&mut entropy, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| VmError::io("read random bytes for the guest")(error.into()))?;
        let started = std::time::Instant::now();
        let identity = Configure {
            entropy: Some(entropy),
            unix_nanos: Some(now_ns()),
            hostname: Some(format!("ws-{}", request.id.short())),
            machine_id: Some(request.id.machine_id()),
            mac: Some(request.id.mac()),
            root: None,
        };
        self.machine
            .during("getting its identity", IDENTITY_LIMIT, self.machine.guest().configure(identity))
            .await?;
        tracing::debug!("identity set");
        if started.elapsed() > CLOCK_TOLERANCE {
            // The first message waited for code that had never run; this one does not.
            let clock = Configure { unix_nanos: Some(now_ns()), ..Configure::default() };
            let guest = self.machine.guest().clone();
            tokio::spawn(async move { guest.configure(clock).await });
        }
        Ok(())
    }

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

/// A restore with nothing around it, for comparison.
pub(crate) struct BareRestore<'a> {
    installation: &'a Installation,
    with: Ingredients,
    template: Template,
}

impl<'a> BareRestore<'a> {
    pub(crate) async fn prepare(
        installation: &'a Installation,
        request: &StartRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<Self, Failure> {
        let image = installation.images()?.get(&request.image)?;
        let with = installation.ingredients(request, &image, progress).await?;
        let base_key = base_key(&with.host, &with.kernel, &with.hardware);
        let key = warm_key(&base_key, &with.image.identity, with.image.bytes);
        let template = installation.warm_template(&with, &base_key, &key, progress).await?;
        Ok(Self { installation, with, template })
    }

    /// How long QEMU takes from its start to the agent's first answer.
    pub(crate) async fn once(&self) -> Result<Duration, Failure> {
        let Self { installation, with, template } = self;
        let dir = installation.machine_dir(WorkspaceId::from_uuid(uuid::Uuid::now_v7()), &with.host)?;
        let began = std::time::Instant::now();
        let machine = installation.restore(with, &dir, template, &DiskSource::Layer(template.disk())).await?;
        machine.during("answering", IDENTITY_LIMIT, machine.guest().ready()).await?;
        let elapsed = began.elapsed();
        machine.kill().await;
        Ok(elapsed)
    }
}

async fn mount(machine: &Machine) -> Result<(), VmError> {
    let configure = Configure { root: Some(root_disk(true)), ..Configure::default() };
    let mounted =
        machine.during("mounting its disk", IDENTITY_LIMIT, machine.guest().configure(configure)).await;
    match mounted {
        Err(VmError::Link(LinkError::Guest(error))) => {
            let reason = format!("the guest could not mount its disk: {}", error.message);
            Err(VmError::Io { doing: "use the image".to_owned(), cause: std::io::Error::other(reason) })
        }
        other => other,
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
