//! Moving an installation's disks into a ZFS pool, before there are any.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_disks::{NewPool, prepare};

use crate::disk_store::made_with;
use agentiso_config::paths::Paths;
use agentiso_config::{self, Config, parse, with_keys};

/// The pool that is made where none is named.
const POOL: &str = "agentiso";

/// A pool to keep disks in.
#[derive(Clone, Debug, Default)]
pub struct PoolRequest {
    /// Its name.
    pub pool: Option<String>,
    /// A device or file to make it of.
    pub path: Option<PathBuf>,
    /// How many GiB a file becomes.
    pub size_gb: Option<u32>,
}

impl PoolRequest {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.pool.is_none() && self.path.is_none()
    }
}

/// Has disks be kept in a pool from now on, and writes that into the configuration. On failure nothing is left. What
/// was done already is left as it is. Returns the dataset.
pub fn use_pool(paths: &Paths, request: &PoolRequest) -> Result<String, Failure> {
    let pool = request.pool.as_deref().unwrap_or(POOL);
    let before = agentiso_config::load(&paths.config_file, false)?;
    let disks = made_with(&paths.disks_dir());
    let is_elsewhere =
        |dataset: &str| before.disks.zfs_dataset.as_deref().is_some_and(|other| other != dataset);
    let bytes = request.size_gb.map(|size| u64::from(size) << 30);
    let new = request.path.clone().map(|path| NewPool { path, bytes });
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
    // What cannot be read back is not written.
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
