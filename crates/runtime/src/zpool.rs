//! Putting an installation's disks into a ZFS pool. Only possible while there are no disks.
#![expect(clippy::disallowed_methods, reason = "`use_zpool` runs `in_place`")]

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure};
use agentiso_disks::{NewZpool, prepare};

use crate::disk_store::made_with;
use agentiso_config::paths::Paths;
use agentiso_config::{self, Config, parse, with_keys};

/// The name of a new zpool, unless another one is given.
const DEFAULT_NAME: &str = "agentiso";

/// A zpool to keep disks in.
#[derive(Clone, Debug, Default)]
pub struct ZpoolRequest {
    /// Its name.
    pub pool: Option<String>,
    /// The device or file to create it on. Absent: it must exist.
    pub path: Option<PathBuf>,
    /// The size of that file, in GiB.
    pub size_gb: Option<u32>,
}

impl ZpoolRequest {
    /// Whether neither a name nor a device was given.
    pub fn is_empty(&self) -> bool {
        self.pool.is_none() && self.path.is_none()
    }
}

/// Creates a zpool if necessary and a dataset in it, and writes the dataset into the configuration, from which it is used
/// for all new disks. Safe to repeat. On failure nothing is changed. Returns the dataset.
pub fn use_zpool(paths: &Paths, request: &ZpoolRequest) -> Result<String, Failure> {
    in_place(|| use_zpool_blocking(paths, request))
}

fn use_zpool_blocking(paths: &Paths, request: &ZpoolRequest) -> Result<String, Failure> {
    let pool = request.pool.as_deref().unwrap_or(DEFAULT_NAME);
    let before = agentiso_config::load(&paths.config_file, false)?;
    let disks = made_with(&paths.disks_dir())?;
    let is_elsewhere =
        |dataset: &str| before.disks.zfs_dataset.as_deref().is_some_and(|other| other != dataset);
    let bytes = request.size_gb.map(|size| u64::from(size) << 30);
    let new = request.path.clone().map(|path| NewZpool { path, bytes });
    if disks.as_deref().is_some_and(|disks| disks != "zfs" || is_elsewhere(&format!("{pool}/agentiso"))) {
        let message = format!("there are workspaces in {} whose disks are elsewhere", paths.home.display());
        return Err(Failure::new(Code::InvalidConfig, message)
            .with_remedy("remove them first, or set AGENTISO_HOME to another directory"));
    }
    let prepared = prepare(pool, new.as_ref())?;
    let name = prepared.dataset().as_str().to_owned();
    write_down(&paths.config_file, &name)?;
    prepared.keep();
    Ok(name)
}

fn write_down(path: &Path, dataset: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::of_io(&error), format!("could not write {}: {error}", path.display()))
            .with_remedy("make it writable, or name another configuration: --config FILE")
    };
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Config::commented(),
        other => other.map_err(failed)?,
    };
    let edited = with_keys(&text, "disks", &[("backend", "zfs"), ("zfs_dataset", dataset)]);
    // Never write a configuration that cannot be read back.
    parse(&edited, path)?;
    if edited == text {
        return Ok(());
    }
    let write = || {
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(edited.as_bytes())?;
        let mode = fs::metadata(path)
            .map_or(std::os::unix::fs::PermissionsExt::from_mode(0o600), |now| now.permissions());
        file.as_file().set_permissions(mode)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    write().map_err(failed)
}
