//! What is recorded about a session.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use serde::{Deserialize, Serialize};

use crate::run::Places;

/// A session.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// The id of its vault.
    pub vault: String,
    /// The name that the vault had.
    pub vault_name: String,
    /// Whether it cannot change the vault.
    pub readonly: bool,
    /// The directory at which its commands see the vault.
    pub mountpoint: String,
    /// Its server.
    pub pid: u32,
    /// When it was started.
    pub created_at: String,
}

impl SessionInfo {
    /// Records a session.
    pub fn write(&self, places: &Places) -> Result<(), Failure> {
        let path = record_path(places, &self.id);
        let partial = path.with_extension("new");
        let bytes = serde_json::to_vec(self).map_err(|error| {
            Failure::new(Code::Internal, format!("could not describe the session: {error}"))
        })?;
        fs::write(&partial, bytes)
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|error| failed(&path, &error))
    }

    /// The recorded sessions, oldest first.
    pub fn all(places: &Places) -> Result<Vec<Self>, Failure> {
        let directory = places.sessions();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&directory, &error)),
        };
        let mut sessions = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| failed(&directory, &error))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                sessions.extend(Self::read(&path)?);
            }
        }
        sessions.sort_by(|one, other| one.created_at.cmp(&other.created_at));
        Ok(sessions)
    }

    fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
                Failure::new(Code::DataDamaged, format!("{} is damaged: {error}", path.display()))
                    .with_remedy("remove the file")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(path, &error)),
        }
    }

    /// Removes what is recorded.
    pub fn forget(places: &Places, id: &str) {
        // What stays is found to be dead by whoever lists sessions.
        let _ = fs::remove_file(places.sessions().join(format!("{id}.sock")));
        let _ = fs::remove_file(record_path(places, id));
    }
}

fn record_path(places: &Places, id: &str) -> PathBuf {
    places.sessions().join(format!("{id}.json"))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::of_io(error), format!("could not read or write {}: {error}", path.display()))
}
