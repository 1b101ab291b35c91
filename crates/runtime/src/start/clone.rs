//! Starting machines: from a warm template, else a base template, else by a cold boot.
//!
//! A template that turns out to be damaged is removed and made again once. Errors that the next, slower way would meet
//! too (a full disk, missing limits, a kernel that does not boot) end the start at once.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use agentiso_core::ports::DiskSource;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Code, Explain, Failure};
use agentiso_proto::Configure;
use agentiso_vmm::link::LinkError;
use agentiso_vmm::qemu::Memory;
use agentiso_vmm::template::{Template, base_key, make_base, make_warm};
use agentiso_vmm::{GuestKernel, Hardware, Host, Machine, RestoreFrom, VmError, root_disk};

use super::{Ingredients, PendingStart, StartDisk, Tier};
use crate::Installation;

/// The warm templates that this process is making in the background.
static WARMING: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A running machine without an identity.
pub(crate) struct Started {
    pub machine: Machine,
    pub tier: Tier,
    /// The disk size to announce once the machine has its identity, if its kernel still assumes the template's.
    pub disk_bytes: Option<u64>,
}

impl Installation {
    /// Starts a machine the fastest way available.
    pub(crate) async fn start_in(
        &self,
        with: &Ingredients,
        pending: &PendingStart,
        cold: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Started, Failure> {
        let (machine, tier) = if cold {
            (self.boot(with, pending, progress).await?, Tier::Cold)
        } else {
            self.clone_or_boot(with, pending, progress).await?
        };
        Ok(Started { machine, tier, disk_bytes: (tier == Tier::Template).then_some(with.image.bytes) })
    }

    /// Clones the best template that exists or can be made, and boots if there is none.
    async fn clone_or_boot(
        &self,
        with: &Ingredients,
        pending: &PendingStart,
        progress: &Arc<dyn Progress>,
    ) -> Result<(Machine, Tier), Failure> {
        if pending.disk_is == StartDisk::Fresh && !self.warms_later(with, pending) {
            match self.clone_warm(with, pending, progress).await {
                Ok(machine) => return Ok((machine, Tier::WarmTemplate)),
                Err(error) if is_final(&error) => return Err(error.into()),
                Err(error) => {
                    tracing::warn!(error = %agentiso_core::chain(&error), "no clone of a warm template")
                }
            }
        }
        match self.clone_base(with, pending, progress).await {
            Ok(machine) => return Ok((machine, Tier::Template)),
            Err(error) if is_final(&error) => return Err(error.into()),
            Err(error) => tracing::warn!(error = %agentiso_core::chain(&error), "no clone of a template"),
        }
        Ok((self.boot(with, pending, progress).await?, Tier::Cold))
    }

    /// Whether a workspace should not wait for its warm template. If a base template exists, it starts from that, which
    /// takes a little longer than a warm one but seconds less than making one. The warm template is made in the
    /// background for the next start.
    fn warms_later(&self, with: &Ingredients, pending: &PendingStart) -> bool {
        let key = with.warm_key(self.disks());
        let templates = self.templates();
        if !pending.lasting || templates.get(&key).is_some() || templates.get(&with.base_key()).is_none() {
            return false;
        }
        if WARMING.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
            let (installation, with) = (self.clone(), with.clone());
            tokio::spawn(async move {
                let silent: Arc<dyn Progress> = Arc::new(Silent);
                if let Err(error) = installation.warm_template(&with, &silent).await {
                    tracing::warn!(error = %agentiso_core::chain(&error), "no warm template");
                }
                WARMING.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            });
        }
        true
    }

    async fn clone_warm(
        &self,
        with: &Ingredients,
        pending: &PendingStart,
        progress: &Arc<dyn Progress>,
    ) -> Result<Machine, VmError> {
        let template = self.warm_template(with, progress).await?;
        match self.restore_warm(with, pending, &template).await {
            Err(VmError::BadTemplate { path, reason }) => {
                tracing::warn!(template = %path.display(), reason, "making the template anew");
                self.templates().remove(&with.warm_key(self.disks()));
                let template = self.warm_template(with, progress).await?;
                self.restore_warm(with, pending, &template).await
            }
            other => other,
        }
    }

    /// Clones a warm template.
    pub(super) async fn restore_warm(
        &self,
        with: &Ingredients,
        pending: &PendingStart,
        template: &Template,
    ) -> Result<Machine, VmError> {
        let (ram, source) = self.template_files(pending, template)?;
        let launch = self.launch(with, pending, &source, Memory::Private(ram))?;
        Machine::restore(&with.host, launch, RestoreFrom::template(template.device())).await
    }

    /// The warm template of an image and a machine size, made if there is none.
    pub(crate) async fn warm_template(
        &self,
        with: &Ingredients,
        progress: &Arc<dyn Progress>,
    ) -> Result<Template, VmError> {
        let (base_key, key) = (with.base_key(), with.warm_key(self.disks()));
        if let Some(template) = self.templates().get(&key) {
            return Ok(template);
        }
        let base = self.base_template(&with.host, &with.kernel, with.hardware, progress).await?;
        progress.step("Warming a template for this image", None);
        let (templates, disks) = (self.templates(), self.disks());
        let made =
            make_warm(&templates, &with.host, (&base_key, &base), with.hardware, &with.image, disks).await;
        self.keep_templates_in_bounds(&[&base_key, &key]);
        let made = made?;
        progress.done("");
        Ok(made)
    }

    /// The base template of a machine size, made if there is none.
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
        progress.done(&format!("vCPUs: {}, {} MiB, {}", hardware.vcpus, hardware.memory_mb, hardware.accel));
        Ok(made)
    }

    async fn clone_base(
        &self,
        with: &Ingredients,
        pending: &PendingStart,
        progress: &Arc<dyn Progress>,
    ) -> Result<Machine, VmError> {
        let template = self.base_template(&with.host, &with.kernel, with.hardware, progress).await?;
        let ram = self.template_memory(pending, &template)?;
        let source = DiskSource::Raw(with.image.raw.clone());
        let launch = self.launch(with, pending, &source, Memory::Private(ram))?;
        let machine = Machine::restore(&with.host, launch, RestoreFrom::template(template.device())).await;
        if matches!(machine, Err(VmError::BadTemplate { .. })) {
            self.templates().remove(&with.base_key());
        }
        let machine = machine?;
        mount(&machine).await?;
        Ok(machine)
    }

    async fn boot(
        &self,
        with: &Ingredients,
        pending: &PendingStart,
        progress: &Arc<dyn Progress>,
    ) -> Result<Machine, VmError> {
        progress.step("Booting", None);
        let source = DiskSource::Raw(with.image.raw.clone());
        let launch = self.launch(with, pending, &source, Memory::Anonymous)?;
        let machine = Machine::boot(&with.host, launch, &with.kernel).await?;
        mount(&machine).await?;
        progress.done("");
        Ok(machine)
    }
}

/// Whether every other way to start would fail too. Trying it would only be slow and hide the reason.
fn is_final(error: &VmError) -> bool {
    let codes = [
        Code::DiskFull,
        Code::StorageUnavailable,
        Code::LimitsUnavailable,
        Code::IsolationUnavailable,
        Code::BootFailed,
    ];
    codes.contains(&error.code())
}

async fn mount(machine: &Machine) -> Result<(), VmError> {
    let configure = Configure { root: Some(root_disk(true)), ..Configure::default() };
    let mounted = machine.at_start("mounting its disk", machine.guest().configure(configure)).await;
    match mounted {
        Err(VmError::Link(LinkError::Guest(error))) => {
            let reason = format!("the guest could not mount its disk: {}", error.message);
            Err(VmError::Io { doing: "use the image".to_owned(), cause: std::io::Error::other(reason) })
        }
        other => other,
    }
}
