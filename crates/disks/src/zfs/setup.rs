//! Creating the dataset, and the zpool if there is none.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{Dataset, DiskError, ZpoolError};

use super::node;
use super::tool::{zfs, zpool};

/// The property that marks a dataset as ours. Its value is the dataset's own name, so that inherited values do not count.
pub(super) const MARK: &str = "agentiso:dataset";

/// The smallest useful zpool.
const SMALLEST: u64 = 1 << 30;
/// The largest zpool that is created in a file by default.
const LARGEST_UNASKED: u64 = 100 << 30;
/// How much of a device is checked for existing data, at either end.
const ENDS: u64 = 1 << 20;

/// A zpool to create.
#[derive(Clone, Debug)]
pub struct NewZpool {
    /// A device, or a file, which is created if it does not exist.
    pub path: PathBuf,
    /// The size of a new file.
    pub bytes: Option<u64>,
}

/// A prepared dataset. Dropping it before [`PreparedZpool::keep`] removes what was created.
#[derive(Debug)]
pub struct PreparedZpool {
    dataset: Dataset,
    /// What was created, in order.
    made: Vec<Made>,
}

#[derive(Debug)]
enum Made {
    File(PathBuf),
    /// An empty file that existed.
    Length(PathBuf),
    Pool(String),
    Dataset(Dataset),
}

impl PreparedZpool {
    /// Keeps what was created. Returns the dataset.
    pub fn keep(mut self) -> Dataset {
        self.made.clear();
        self.dataset.clone()
    }

    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }
}

impl Drop for PreparedZpool {
    fn drop(&mut self) {
        for made in self.made.drain(..).rev() {
            // The earlier error is reported.
            let _ = match made {
                Made::File(path) => fs::remove_file(path).map_err(|error| error.to_string()),
                Made::Length(path) => File::create(path).map(drop).map_err(|error| error.to_string()),
                Made::Pool(pool) => undo(zpool("remove", &pool).run(&["destroy", &pool])),
                Made::Dataset(name) => undo(zfs("remove", name.as_str()).run(&["destroy", name.as_str()])),
            };
        }
    }
}

fn undo(done: Result<String, ZpoolError>) -> Result<(), String> {
    done.map(drop).map_err(|error| error.to_string())
}

/// Creates the dataset `agentiso` in a zpool, and the zpool first if requested. A dataset of ours is used as it is; one
/// that is not ours is an error.
pub fn prepare(pool: &str, new: Option<&NewZpool>) -> Result<PreparedZpool, DiskError> {
    let mut prepared = PreparedZpool { dataset: Dataset::in_pool(pool)?, made: Vec::new() };
    if let Some(new) = new {
        make_pool(pool, new, &mut prepared.made)?;
    }
    let name = prepared.dataset.as_str();
    match zfs("use", name).run(&["list", "-H", "-o", MARK, name]) {
        Ok(mark) if mark.trim() == name => {}
        Ok(_) => return Err(ZpoolError::NotOurs(name.to_owned()).into()),
        Err(ZpoolError::Unavailable { .. }) => {
            // A missing zpool is an error of its own.
            zpool("use", pool).run(&["list", "-H", "-o", "name", pool])?;
            let mark = format!("{MARK}={name}");
            let properties = ["compression=on", "mountpoint=none", "canmount=off", "volmode=dev", &mark];
            let options = properties.iter().flat_map(|property| ["-o", property]);
            let arguments: Vec<&str> = ["create"].into_iter().chain(options).chain([name]).collect();
            zfs("make", name).run(&arguments).map_err(|error| match error {
                ZpoolError::NotPermitted { .. } => ZpoolError::NotMade {
                    name: name.to_owned(),
                    command: format!("zfs {}", arguments.join(" ")),
                },
                other => other,
            })?;
            let made = Made::Dataset(prepared.dataset.clone());
            prepared.made.push(made);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(prepared)
}

fn make_pool(pool: &str, new: &NewZpool, made: &mut Vec<Made>) -> Result<(), DiskError> {
    let io = |action, cause| DiskError::Io { action, path: new.path.clone(), cause };
    let occupied = |reason: String| ZpoolError::Occupied { path: new.path.clone(), reason };
    let path = std::path::absolute(&new.path).map_err(|cause| io("find", cause))?;
    let path = path.canonicalize().unwrap_or(path);
    match zpool("look at", pool).run(&["list", "-vHP", pool]) {
        Ok(printed) => {
            let is_there =
                |line: &str| line.split_whitespace().next().is_some_and(|word| Path::new(word) == path);
            return match printed.lines().any(is_there) {
                true => Ok(()),
                false => Err(occupied(format!("a pool called {pool:?} is there and does not use it")).into()),
            };
        }
        Err(ZpoolError::Unavailable { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match fs::metadata(&path) {
        Ok(found) if found.file_type().is_block_device() => {
            if !has_empty_ends(&path).map_err(|cause| io("look at", cause))? {
                return Err(occupied("something is on the device".to_owned()).into());
            }
        }
        Ok(found) if !found.is_file() => {
            return Err(occupied("it is neither a file nor a device".to_owned()).into());
        }
        Ok(found) if found.blocks() > 0 || found.len() > 0 => {
            return Err(occupied("the file is not empty".to_owned()).into());
        }
        Ok(_) | Err(_) => {
            let bytes =
                file_size(&path, new.bytes).map_err(|cause| io("measure the free space for", cause))?;
            let Some(bytes) = bytes else {
                return Err(occupied(format!(
                    "there is no room for {} MiB",
                    new.bytes.unwrap_or(SMALLEST) >> 20
                ))
                .into());
            };
            let fresh = !path.exists();
            let file = File::options().create(true).truncate(false).write(true).open(&path);
            let file = file.map_err(|cause| io("make", cause))?;
            made.push(if fresh { Made::File(path.clone()) } else { Made::Length(path.clone()) });
            file.set_len(bytes).map_err(|cause| io("make", cause))?;
        }
    }
    let options = ["create", "-o", "ashift=12", "-o", "autotrim=on", "-O", "mountpoint=none", pool];
    let mut arguments: Vec<&std::ffi::OsStr> = options.iter().map(std::ffi::OsStr::new).collect();
    arguments.push(path.as_os_str());
    zpool("make the pool", pool).run(&arguments)?;
    made.push(Made::Pool(pool.to_owned()));
    Ok(())
}

/// The size of a zpool's file; `None` if there is too little space. ZFS suspends a zpool whose file cannot grow.
fn file_size(path: &Path, asked: Option<u64>) -> io::Result<Option<u64>> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("/"));
    let found = rustix::fs::statvfs(dir)?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let bytes = asked.unwrap_or((free / 5 * 4).min(LARGEST_UNASKED)) >> 20 << 20;
    Ok((bytes >= SMALLEST && bytes <= free).then_some(bytes))
}

fn has_empty_ends(path: &Path) -> io::Result<bool> {
    let mut device = File::open(path)?;
    let size = node::size(&device)?;
    for start in [0, size.saturating_sub(ENDS)] {
        device.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        (&device).take(ENDS).read_to_end(&mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_pools_are_refused_before_anything_is_run() {
        for pool in ["", "-f", "tank/x", "tank x", "..", "tank@a"] {
            let refused = prepare(pool, None).unwrap_err();
            assert!(matches!(refused, DiskError::Pool(ZpoolError::BadName { .. })), "{pool:?}: {refused}");
        }
    }

    #[test]
    fn a_file_is_only_made_where_there_is_room_for_all_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        assert_eq!(file_size(&path, Some(u64::MAX)).unwrap(), None);
        assert_eq!(file_size(&path, Some(1 << 20)).unwrap(), None);
        assert!(file_size(Path::new("/no/such/dir/pool"), None).is_err());
    }

    #[test]
    fn a_device_with_anything_at_either_end_is_not_empty() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        assert!(has_empty_ends(file.path()).unwrap());
        use std::os::unix::fs::FileExt;
        file.as_file().write_all_at(b"x", (8 << 20) - 1).unwrap();
        assert!(!has_empty_ends(file.path()).unwrap());
    }
}
