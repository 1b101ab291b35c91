//! One installation: its configuration, its directories, and what was detected on this host.
//!
//! Opening one creates and secures its directories and picks the disk back end; it starts no machine. The probes for
//! KVM, vsock and isolation run when a machine first needs them, and their results are cached on disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::ports::Disks;
use agentiso_core::{Code, Explain, Failure, ImageName, chain};
use agentiso_images::store::{Image, ImageStore};
use agentiso_vmm::qemu::{Credentials, Qemu, find, lookup_user};
use agentiso_vmm::template::Templates;
use agentiso_vmm::{
    Accel, Acceleration, Confinement, GuestKernel, Hardware, Host, Isolation, LimitSettings, LinkChoice,
    LinkKind, NotIsolated, REGISTRY, Users, choose_link, ids_exist, last_known, probe,
};

use crate::disk_store;
use crate::in_place_disks::InPlaceDisks;
use crate::network::RouterProcess;
use crate::reach::first_closed;
use agentiso_config::modes;
use agentiso_config::paths::Paths;
use agentiso_config::{self as config, Config, Holding};

/// An open installation. Clones share their state.
#[derive(Clone)]
pub struct Installation {
    /// The configuration.
    pub config: Config,
    /// The directories.
    pub paths: Paths,
    templates: Templates,
    disks: Arc<InPlaceDisks>,
    why_disks: String,
    confinement: Option<Arc<Confinement>>,
    isolation: Arc<OnceLock<Result<Arc<Isolation>, NotIsolated>>>,
}

impl Installation {
    /// Reads the configuration and opens the data directory, creating it if it is missing.
    pub fn open(paths: Paths) -> Result<Self, Failure> {
        in_place(|| Self::open_blocking(paths))
    }

    fn open_blocking(paths: Paths) -> Result<Self, Failure> {
        let mut config = config::load(&paths.config_file, paths.config_named)?;
        config.suit(known(last_known(wanted(&config), &paths.cache_dir())));
        modes::restrict();
        // As root, QEMU runs as another user, whose group may read the files it needs.
        let is_root = rustix::process::geteuid().is_root();
        let group = is_root.then(|| lookup_user(&config.vm.user)).flatten().map(|user| user.gid);
        modes::secure(&paths, group).map_err(|(dir, error)| home_failure(&paths, &dir, &error))?;
        let templates = Templates::open(&paths.templates_dir())
            .map_err(|error| home_failure(&paths, &paths.templates_dir(), &error))?;
        let choice = disk_store::backend(&paths, &config.disks)?;
        let (disks, why_disks) = (Arc::new(InPlaceDisks(choice.disks)), choice.why);
        let limits = limit_settings(&config.resources);
        let confinement = limits.map(|limits| Arc::new(Confinement::new(&paths.home, limits)));
        Ok(Self { config, paths, templates, disks, why_disks, confinement, isolation: Arc::default() })
    }

    /// The image store. Its methods block, so async callers use `in_place`.
    pub fn images(&self) -> Result<ImageStore, Failure> {
        in_place(|| Ok(ImageStore::open(self.paths.images_dir())?))
    }

    /// One image.
    pub fn image(&self, name: &ImageName) -> Result<Image, Failure> {
        in_place(|| Ok(self.images()?.get(name)?))
    }

    /// One image; `None` if it does not exist.
    pub(crate) fn image_if_known(&self, name: &ImageName) -> Result<Option<Image>, Failure> {
        match self.image(name) {
            Ok(image) => Ok(Some(image)),
            Err(failure) if failure.code() == Code::ImageNotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The templates.
    pub fn templates(&self) -> Templates {
        self.templates.clone()
    }

    /// The disk back end.
    pub fn disks(&self) -> &dyn Disks {
        self.disks.as_ref()
    }

    /// The disk back end, for another thread.
    pub(crate) fn shared_disks(&self) -> Arc<dyn Disks> {
        self.disks.clone()
    }

    /// Why this disk back end was chosen.
    pub fn why_those_disks(&self) -> &str {
        &self.why_disks
    }

    /// The QEMU in use.
    pub fn qemu(&self) -> Result<Qemu, Failure> {
        Ok(find(self.config.vm.qemu.as_deref(), &self.paths.cache_dir().join("qemu.json"))?)
    }

    /// What all machines of this installation share: QEMU, users, limits, isolation.
    pub fn host(&self) -> Result<Host, Failure> {
        in_place(|| self.host_blocking())
    }

    fn host_blocking(&self) -> Result<Host, Failure> {
        let qemu = self.qemu()?;
        let isolation = match self.isolation(&qemu) {
            Some(Err(failure)) if self.config.vm.isolation == config::QemuIsolation::Required => {
                return Err(failure);
            }
            found => found.and_then(Result::ok),
        };
        let users = self.users_if(isolation.is_some())?;
        Ok(Host {
            qemu,
            users: users.map(Arc::new),
            boot_limit: self.config.vm.boot_timeout(),
            confinement: self.confinement.clone(),
            isolation,
        })
    }

    /// What isolates QEMU from the host, or why nothing does; `None` if the configuration turns isolation off.
    pub(crate) fn isolation(&self, qemu: &Qemu) -> Option<Result<Arc<Isolation>, Failure>> {
        if self.config.vm.isolation == config::QemuIsolation::Off {
            return None;
        }
        let find = || {
            let cache = self.paths.cache_dir().join("isolation.json");
            let found = in_place(|| Isolation::find(qemu, &cache));
            found.map(Arc::new).inspect_err(|error| {
                tracing::warn!("machines run without being isolated from the host: {}", chain(error));
            })
        };
        Some(match self.isolation.get_or_init(find) {
            Ok(isolation) => Ok(isolation.clone()),
            Err(error) => Err(Failure::new(error.code(), chain(error))
                .with_remedy(error.remedy().unwrap_or_else(|| "run 'agentiso check'".to_owned()))),
        })
    }

    /// The users machines run as, each its own; `None` if they run as ours.
    pub(crate) fn users(&self) -> Result<Option<Users>, Failure> {
        let isolation = self.qemu().ok().and_then(|qemu| self.isolation(&qemu));
        self.users_if(isolation.is_some_and(|isolation| isolation.is_ok()))
    }

    /// Without isolation, QEMU's user needs access to every directory above the files it opens.
    fn users_if(&self, isolated: bool) -> Result<Option<Users>, Failure> {
        let Some(like) = self.shared_user()? else { return Ok(None) };
        if !isolated {
            self.check_reach(like)?;
        }
        let count = if self.uids_exist() { self.config.vm.uids } else { 0 };
        Ok(Some(Users::new(Path::new(REGISTRY), self.config.vm.first_uid, count, like)))
    }

    /// Whether the configured user ids exist: in a container there may be few.
    pub(crate) fn uids_exist(&self) -> bool {
        #[expect(clippy::disallowed_methods, reason = "procfs is memory: reading it waits for no device")]
        let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        ids_exist(&map, self.config.vm.first_uid, self.config.vm.uids)
    }

    /// The cgroup limits of machines; `None` if the configuration turns them off.
    pub(crate) fn confinement(&self) -> Option<&Confinement> {
        self.confinement.as_deref()
    }

    /// The user whose group all machines have, and whom they run as if they have no user ids of their own. `None` unless
    /// agentiso runs as root: root never runs QEMU as itself.
    pub(crate) fn shared_user(&self) -> Result<Option<Credentials>, Failure> {
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
        in_place(|| lookup_user(name)).ok_or_else(missing).map(Some)
    }

    /// Fails if QEMU's user cannot enter the directories of the files it opens.
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

    /// How the router of the workspaces' network is started: as this program, and as the user of machines if this is root.
    pub fn router_process(&self) -> Result<Arc<RouterProcess>, Failure> {
        let program = std::env::current_exe().map_err(|error| self.io("find the own program", error))?;
        // As root without such a user no machine starts either, which says why.
        let user = self.shared_user().ok().flatten();
        Ok(Arc::new(RouterProcess { program, log: self.paths.home.join("network.log"), user }))
    }

    /// How guests run here: KVM or emulation. Probed once and cached.
    pub async fn acceleration(&self, host: &Host, kernel: &GuestKernel) -> Acceleration {
        probe(host, kernel, wanted(&self.config), &self.paths.cache_dir()).await
    }

    /// The hardware of a machine of this size on this host.
    pub async fn hardware(&self, host: &Host, kernel: &GuestKernel, vcpus: u32, memory_mb: u32) -> Hardware {
        let accel = self.acceleration(host, kernel).await.accel;
        let link = self.link(host, kernel, accel).await.link;
        Hardware { accel, link, vcpus, memory_mb }
    }

    /// How host and guest communicate here: vsock or serial. Probed once and cached.
    pub async fn link(&self, host: &Host, kernel: &GuestKernel, accel: Accel) -> LinkChoice {
        let wanted = match self.config.vm.link {
            config::Link::Auto => None,
            config::Link::Vsock => Some(LinkKind::Vsock),
            config::Link::Serial => Some(LinkKind::Serial),
        };
        choose_link(host, kernel, accel, wanted, &self.paths.cache_dir()).await
    }

    /// The raw disk of an image, resized with `resize2fs` if necessary. Each size is made once and cached.
    pub async fn sized_base(&self, image: &Image, bytes: u64) -> Result<PathBuf, Failure> {
        if image.meta.fs_bytes == bytes {
            return Ok(image.rootfs());
        }
        let (store, name) = (self.images()?, image.meta.name.clone());
        Ok(off_thread(move || store.sized_base(&name, bytes)).await?)
    }

    /// Removes the least recently used templates if all of them take more space than allowed.
    pub(crate) fn keep_templates_in_bounds(&self, keep: &[&str]) {
        let max_bytes = u64::from(self.config.templates.max_mb) << 20;
        if let Err(error) = self.templates.collect(max_bytes, keep) {
            tracing::warn!(%error, "could not tidy the templates");
        }
    }

    /// The failure of a file operation in the data directory. `doing` completes "could not ...".
    pub fn io(&self, doing: &str, error: io::Error) -> Failure {
        Failure::new(
            Code::of_io(&error),
            format!("could not {doing} in {}: {error}", self.paths.home.display()),
        )
        .with_remedy("check that the data directory is writable and has space, or set AGENTISO_HOME")
    }
}

/// The limits set on every machine; `None` if the configuration turns them off.
fn limit_settings(holding: &Holding) -> Option<LimitSettings> {
    let per_second = |mb: u32| (mb > 0).then(|| u64::from(mb) << 20);
    (holding.cgroup == config::Cgroup::Auto).then(|| LimitSettings {
        required: holding.cgroup_required,
        overhead_bytes: u64::from(holding.overhead_mb) << 20,
        io_read: per_second(holding.io_read_mb_per_sec),
        io_write: per_second(holding.io_write_mb_per_sec),
    })
}

/// The acceleration in the terms of the configuration.
pub(crate) fn known(accel: Accel) -> config::Accel {
    match accel {
        Accel::Kvm => config::Accel::Kvm,
        Accel::Tcg => config::Accel::Tcg,
    }
}

/// The acceleration that the configuration demands, if any.
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
