//! The default vault of a directory of the host.
//!
//! Each directory has a file of its own, so that agents in different directories do not meet. It names the vault by id.

use std::env;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_proxy::Places;
use agentiso_vfs::VaultInfo;
use serde::{Deserialize, Serialize};

/// The default vault of a directory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Default {
    /// The directory, for people who look.
    pub directory: String,
    /// The id of the vault.
    pub vault: String,
    /// Its name at that time.
    pub name: String,
}

/// The default vault of the present directory.
pub fn default_vault(places: &Places) -> Result<Option<Default>, Failure> {
    let directory = present()?;
    let file = file_of(places, &directory);
    let bytes = match fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read", &file, &error)),
    };
    let default = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::new(
            Code::DataDamaged,
            format!("the default vault in {} is damaged: {error}", file.display()),
        )
        .with_remedy("choose one again with avfs vault use NAME")
    })?;
    Ok(Some(default))
}

/// Makes a vault the default of the present directory, and returns the directory.
pub fn set_default(places: &Places, vault: &VaultInfo) -> Result<PathBuf, Failure> {
    let directory = present()?;
    let file = file_of(places, &directory);
    let default = Default {
        directory: directory.display().to_string(),
        vault: vault.id.to_string(),
        name: vault.name.clone(),
    };
    let write = || {
        fs::create_dir_all(places.directories())?;
        let partial = file.with_extension(format!("{}.new", std::process::id()));
        fs::write(&partial, serde_json::to_vec(&default)?)?;
        fs::rename(&partial, &file)
    };
    write().map_err(|error| failed("write", &file, &error))?;
    Ok(directory)
}

/// Removes the default of the present directory.
pub fn clear_default(places: &Places) -> Result<(), Failure> {
    let file = file_of(places, &present()?);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &file, &error)),
        _ => Ok(()),
    }
}

fn present() -> Result<PathBuf, Failure> {
    let directory = env::current_dir().and_then(|directory| directory.canonicalize());
    directory.map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not find the present directory: {error}"))
            .with_remedy("give a vault with --vault")
    })
}

fn file_of(places: &Places, directory: &Path) -> PathBuf {
    let hash = agentiso_proxy::name_of(directory.as_os_str().as_bytes());
    places.directories().join(format!("{hash}.json"))
}

fn failed(verb: &str, file: &Path, error: &io::Error) -> Failure {
    let message = format!("could not {verb} the default vault {}: {error}", file.display());
    Failure::new(Code::of_io(error), message)
}
