//! The manifest of a template.
#![expect(
    clippy::disallowed_methods,
    reason = "called by the store, which runs `in_place` or on a blocking thread"
)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::content::hash;
use crate::probe::boot_id;

/// The format version.
const FORMAT: u32 = 2;
const FILE: &str = "template.json";

/// The manifest of a template.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    /// A description, for people.
    pub description: String,
    /// The image file of a warm template.
    pub image: Option<PathBuf>,
    /// The boot id of the host when the files were last verified.
    verified_in: String,
    /// The files, in a fixed order.
    files: Vec<FileRecord>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct FileRecord {
    name: String,
    /// Size, inode and modification time, which change when the file is written to.
    stamp: String,
    blake3: String,
}

/// How a template's files compare with its manifest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Condition {
    Sound,
    /// A file was touched or the host rebooted: the contents have to be hashed.
    Doubtful,
}

impl Manifest {
    /// Reads and hashes the named files of `dir`.
    pub fn of(dir: &Path, names: &[&str], description: String, image: Option<PathBuf>) -> io::Result<Self> {
        let record = |name: &&str| {
            let path = dir.join(name);
            Ok(FileRecord { name: (*name).to_owned(), stamp: stamp(&path)?, blake3: hash(&path)? })
        };
        let files = names.iter().map(record).collect::<io::Result<_>>()?;
        Ok(Self { format: FORMAT, description, image, verified_in: boot_id().to_owned(), files })
    }

    pub fn read(dir: &Path) -> io::Result<Self> {
        let manifest: Self = serde_json::from_slice(&fs::read(dir.join(FILE))?)?;
        let plain = |record: &FileRecord| !record.name.contains('/') && !record.name.starts_with('.');
        if manifest.format != FORMAT || manifest.files.is_empty() || !manifest.files.iter().all(plain) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a template of this version"));
        }
        Ok(manifest)
    }

    pub fn write(&self, dir: &Path) -> io::Result<()> {
        let partial = dir.join(".template.json");
        fs::write(&partial, serde_json::to_vec_pretty(self)?)?;
        fs::rename(partial, dir.join(FILE))
    }

    /// Writes it. On failure, for example because the disk is full, the files are verified again the next time.
    pub fn keep(&self, dir: &Path) {
        if let Err(error) = self.write(dir) {
            let _ = fs::remove_file(dir.join(".template.json"));
            tracing::warn!(%error, "could not record that a template is intact");
        }
    }

    /// A few `stat` calls: this is part of every start.
    pub fn condition(&self, dir: &Path) -> io::Result<Condition> {
        for record in &self.files {
            if stamp(&dir.join(&record.name))? != record.stamp {
                return Ok(Condition::Doubtful);
            }
            // The target of a link must exist too.
            fs::metadata(dir.join(&record.name))?;
        }
        let image_is_there = self.image.as_ref().is_none_or(|image| image.is_file());
        if !image_is_there {
            return Err(io::Error::new(io::ErrorKind::NotFound, "its image is gone"));
        }
        Ok(if self.verified_in == boot_id() { Condition::Sound } else { Condition::Doubtful })
    }

    /// Verifies all files. Returns a manifest with current stamps.
    pub fn verify(&self, dir: &Path) -> io::Result<Self> {
        let names: Vec<&str> = self.files.iter().map(|record| record.name.as_str()).collect();
        let found = Self::of(dir, &names, self.description.clone(), self.image.clone())?;
        let same = self.files.iter().zip(&found.files).all(|(then, now)| then.blake3 == now.blake3);
        if same { Ok(found) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "its contents changed")) }
    }

    /// Records that the template was used now.
    pub fn touch(dir: &Path) {
        if let Ok(file) = File::open(dir.join(FILE)) {
            let _ = file.set_modified(std::time::SystemTime::now());
        }
    }

    pub fn last_used(dir: &Path) -> std::time::SystemTime {
        let modified = fs::metadata(dir.join(FILE)).and_then(|meta| meta.modified());
        modified.unwrap_or(std::time::UNIX_EPOCH)
    }
}

fn stamp(path: &Path) -> io::Result<String> {
    let meta = fs::symlink_metadata(path)?;
    Ok(format!("{} {} {}.{:09}", meta.len(), meta.ino(), meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template() -> (tempfile::TempDir, Manifest) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ram"), vec![7; 100_000]).unwrap();
        fs::write(dir.path().join("device"), b"state").unwrap();
        let manifest = Manifest::of(dir.path(), &["ram", "device"], "test".to_owned(), None).unwrap();
        manifest.write(dir.path()).unwrap();
        (dir, manifest)
    }

    #[test]
    fn an_untouched_template_is_sound_without_reading_it() {
        let (dir, manifest) = template();
        assert_eq!(Manifest::read(dir.path()).unwrap(), manifest);
        assert_eq!(manifest.condition(dir.path()).unwrap(), Condition::Sound);
    }

    #[test]
    fn one_flipped_byte_is_noticed() {
        let (dir, manifest) = template();
        let mut ram = fs::read(dir.path().join("ram")).unwrap();
        ram[50_000] ^= 1;
        fs::write(dir.path().join("ram"), ram).unwrap();
        assert_eq!(manifest.condition(dir.path()).unwrap(), Condition::Doubtful);
        assert!(manifest.verify(dir.path()).is_err());
    }

    #[test]
    fn a_touched_but_equal_template_gets_a_new_stamp() {
        let (dir, manifest) = template();
        fs::write(dir.path().join("ram"), vec![7; 100_000]).unwrap();
        let fresh = manifest.verify(dir.path()).unwrap();
        assert_eq!(fresh.condition(dir.path()).unwrap(), Condition::Sound);
    }

    #[test]
    fn a_missing_file_or_image_is_an_error() {
        let (dir, mut manifest) = template();
        manifest.image = Some(dir.path().join("gone.raw"));
        assert!(manifest.condition(dir.path()).is_err());
        manifest.image = None;
        fs::remove_file(dir.path().join("device")).unwrap();
        assert!(manifest.condition(dir.path()).is_err());
    }

    #[test]
    fn a_manifest_of_another_format_or_with_odd_names_is_refused() {
        let (dir, manifest) = template();
        for text in [
            serde_json::to_string(&Manifest { format: FORMAT + 1, ..manifest.clone() }).unwrap(),
            serde_json::to_string(&manifest).unwrap().replace("\"ram\"", "\"../ram\""),
            "{}".to_owned(),
        ] {
            fs::write(dir.path().join(FILE), text).unwrap();
            assert!(Manifest::read(dir.path()).is_err());
        }
    }
}
