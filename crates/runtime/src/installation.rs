//! One installation: its configuration, its directories, and what was found on this host.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_core::ports::Disks;
use agentiso_core::{Code, Failure};
use agentiso_disks::Choice;
use agentiso_images::store::{Image, ImageStore};
use agentiso_vmm::qemu::{Credentials, Qemu, find, lookup_user};
use agentiso_vmm::template::Templates;
use agentiso_vmm::{
    Accel, Acceleration, Confinement, GuestKernel, Hardware, Host, LinkChoice, LinkKind, choose_link,
    last_known, probe,
};

use crate::config::{self, Config};
use crate::disk_store;
use crate::image_ops::blocking;
use crate::modes;
use crate::paths::Paths;
use crate::reach::first_closed;

/// Everything a verb needs to know about where it runs.
#[derive(Clone)]
pub struct Installation {
    /// The configuration.
    pub config: Config,
    /// The directories.
    pub paths: Paths,
    templates: Templates,
    disks: Choice,
    confinement: Option<Arc<Confinement>>,
}

impl Installation {
    /// Reads the configuration and opens the data directory, creating it if it is missing.
    pub fn open(paths: Paths) -> Result<Self, Failure> {
        let mut config = config::load(&paths.config_file, paths.config_named)?;
        config.suit(last_known(wanted(&config), &paths.cache_dir()));
        modes::restrict();
        // Root's QEMU runs as another user, whose group may read what it needs. Without that user nothing starts.
        let is_root = rustix::process::geteuid().is_root();
        let group = is_root.then(|| lookup_user(&config.vm.user)).flatten().map(|user| user.gid);
        modes::secure(&paths, group).map_err(|(dir, error)| home_failure(&paths, &dir, &error))?;
        let templates = Templates::open(&paths.templates_dir())
            .map_err(|error| home_failure(&paths, &paths.templates_dir(), &error))?;
        let disks = disk_store::backend(&paths, &config.disks)?;
        let policy = config.resources.policy();
        let confinement = policy.map(|policy| Arc::new(Confinement::new(&paths.home, policy)));
        Ok(Self { config, paths, templates, disks, confinement })
    }

    /// The images.
    pub fn images(&self) -> Result<ImageStore, Failure> {
        Ok(ImageStore::open(self.paths.images_dir())?)
    }

    /// The templates.
    pub fn templates(&self) -> Templates {
        self.templates.clone()
    }

    /// The back end that makes disks.
    pub fn disks(&self) -> &dyn Disks {
        self.disks.disks.as_ref()
    }

    /// The back end that makes disks, for another thread.
    pub(crate) fn shared_disks(&self) -> Arc<dyn Disks> {
        self.disks.disks.clone()
    }

    /// Why that back end makes the disks.
    pub fn why_those_disks(&self) -> &str {
        &self.disks.why
    }

    /// The QEMU in use.
    pub fn qemu(&self) -> Result<Qemu, Failure> {
        Ok(find(self.config.vm.qemu.as_deref(), &self.paths.cache_dir().join("qemu.json"))?)
    }

    /// What all machines here have in common.
    pub fn host(&self) -> Result<Host, Failure> {
        Ok(Host {
            qemu: self.qemu()?,
            run_as: self.run_as()?,
            boot_limit: self.config.vm.boot_timeout(),
            confinement: self.confinement.clone(),
        })
    }

    /// What holds machines to their limits; `None` if the configuration says that nothing does.
    pub(crate) fn confinement(&self) -> Option<&Confinement> {
        self.confinement.as_deref()
    }

    /// The user QEMU runs as: root never runs it as itself.
    pub(crate) fn run_as(&self) -> Result<Option<Credentials>, Failure> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let name = &self.config.vm.user;
        let missing = || {
            Failure::new(
                Code::InvalidConfig,
                format!("the user {name:?} that QEMU should run as does not exist"),
            )
            .with_remedy("set vm.user in the configuration to an existing, unprivileged user")
        };
        let user = lookup_user(name).ok_or_else(missing)?;
        self.check_reach(user)?;
        Ok(Some(user))
    }

    /// What QEMU opens must lie where its user can get to.
    fn check_reach(&self, user: Credentials) -> Result<(), Failure> {
        let Paths { home, .. } = &self.paths;
        let opened = [self.paths.images_dir(), self.paths.kernel_dir(), self.paths.templates_dir()];
        let closed = std::iter::once(home).chain(&opened).find_map(|dir| first_closed(dir, user));
        let Some(closed) = closed else { return Ok(()) };
        let (name, closed) = (&self.config.vm.user, closed.display());
        let message = format!("QEMU runs as the user {name:?}, who may not enter {closed}");
        let remedy =
            format!("run: chmod o+x {closed}, or set AGENTISO_HOME to a directory {name:?} can enter");
        Err(Failure::new(Code::PermissionDenied, message).with_remedy(remedy))
    }

    /// How guests run here, by a probe whose answer is remembered.
    pub async fn acceleration(&self, host: &Host, kernel: &GuestKernel) -> Acceleration {
        probe(host, kernel, wanted(&self.config), &self.paths.cache_dir()).await
    }

    /// The shape of a machine on this host.
    pub async fn hardware(&self, host: &Host, kernel: &GuestKernel, vcpus: u32, memory_mb: u32) -> Hardware {
        let accel = self.acceleration(host, kernel).await.accel;
        let link = self.link(host, kernel, accel).await.link;
        Hardware { accel, link, vcpus, memory_mb }
    }

    /// How host and guest talk here, by a probe whose answer is remembered.
    pub async fn link(&self, host: &Host, kernel: &GuestKernel, accel: Accel) -> LinkChoice {
        let wanted = match self.config.vm.link {
            config::Link::Auto => None,
            config::Link::Vsock => Some(LinkKind::Vsock),
            config::Link::Serial => Some(LinkKind::Serial),
        };
        choose_link(host, kernel, accel, wanted, &self.paths.cache_dir()).await
    }

    /// The raw disk of an image at a size.
    pub async fn sized_base(&self, image: &Image, bytes: u64) -> Result<PathBuf, Failure> {
        if image.meta.fs_bytes == bytes {
            return Ok(image.rootfs());
        }
        let (store, name) = (self.images()?, image.meta.name.clone());
        Ok(blocking(move || store.sized_base(&name, bytes)).await??)
    }

    /// Removes the templates that were not used for longest when they take more space than allowed.
    pub(crate) fn keep_templates_in_bounds(&self, keep: &[&str]) {
        let max_bytes = u64::from(self.config.templates.max_mb) << 20;
        if let Err(error) = self.templates.collect(max_bytes, keep) {
            tracing::warn!(%error, "could not tidy the templates");
        }
    }

    pub(crate) fn io(&self, doing: &str, error: io::Error) -> Failure {
        Failure::new(
            Code::of_io(&error),
            format!("could not {doing} in {}: {error}", self.paths.home.display()),
        )
        .with_remedy("check that the data directory is writable and has space, or set AGENTISO_HOME")
    }
}

/// The acceleration that the configuration insists on.
fn wanted(config: &Config) -> Option<Accel> {
    match config.vm.accel {
        config::Accel::Auto => None,
        config::Accel::Kvm => Some(Accel::Kvm),
        config::Accel::Tcg => Some(Accel::Tcg),
    }
}

fn home_failure(paths: &Paths, dir: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::of_io(error), format!("could not set up {}: {error}", dir.display())).with_remedy(
        format!("make {} writable, or set AGENTISO_HOME to a directory that is", paths.home.display()),
    )
}
