//! `kernel.json`: the description of a prepared kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::KernelError;
use super::version::is_broken;

/// The version of `kernel.json` we write and read.
const FORMAT: u32 = 1;
const FILE: &str = "kernel.json";

/// How a kernel is started.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Boot {
    /// Entered directly as an ELF file, which is fastest.
    Pvh,
    /// With its own loader, which unpacks it first.
    BzImage,
}

/// Where a kernel came from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelSource {
    /// The configuration named this file.
    Configured(PathBuf),
    /// A package of the distribution.
    Package(String),
    /// The host's own kernel.
    Host(PathBuf),
    /// Built here, from this source.
    Built(String),
}

/// A prepared kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kernel {
    /// Its version, as in `uname -r`.
    pub version: String,
    /// The file to boot.
    pub image: PathBuf,
    /// How to boot it.
    pub boot: Boot,
    /// Its modules, `…/lib/modules/<version>`.
    pub modules: Option<PathBuf>,
    /// Where it came from.
    pub source: KernelSource,
    /// The blake3 hash of the image, in hexadecimal.
    pub blake3: String,
}

#[derive(Deserialize, Serialize)]
struct Record {
    format: u32,
    version: String,
    /// Relative to the record.
    image: PathBuf,
    image_bytes: u64,
    boot: Boot,
    /// Relative to the record, or absolute if they are not ours.
    modules: Option<PathBuf>,
    source: KernelSource,
    blake3: String,
}

impl Kernel {
    /// Whether this version is known to break guests.
    pub fn is_broken(&self) -> bool {
        is_broken(&self.version)
    }

    /// Reads a prepared kernel. Its image must exist and have the recorded length.
    pub(super) fn read(directory: &Path) -> Result<Self, KernelError> {
        let path = directory.join(FILE);
        let damaged = |reason: String| KernelError::Record { path: path.clone(), reason };
        let text = fs::read(&path).map_err(KernelError::io("read", &path))?;
        let record: Record = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if record.format != FORMAT {
            return Err(damaged(format!("it has format {}, but only {FORMAT} is known", record.format)));
        }
        let image = directory.join(record.image);
        let length = fs::metadata(&image).map_err(KernelError::io("read", &image))?.len();
        if length != record.image_bytes {
            return Err(damaged(format!(
                "the image has {length} bytes, but {} were written",
                record.image_bytes
            )));
        }
        let modules = record.modules.map(|modules| directory.join(modules));
        if let Some(missing) = modules.as_ref().filter(|modules| !modules.is_dir()) {
            return Err(damaged(format!("the modules in {} are gone", missing.display())));
        }
        let Record { version, boot, source, blake3, .. } = record;
        Ok(Self { version, image, boot, modules, source, blake3 })
    }

    /// Checks the whole image against its hash.
    pub fn verify(&self) -> Result<(), KernelError> {
        let bytes = fs::read(&self.image).map_err(KernelError::io("read", &self.image))?;
        if blake3::hash(&bytes).to_hex().as_str() != self.blake3 {
            let reason = "its content is not what was written".to_owned();
            return Err(KernelError::Record { path: self.image.clone(), reason });
        }
        Ok(())
    }

    /// Writes the description of a kernel prepared in `directory`, with paths relative to it.
    pub(super) fn write(&self, directory: &Path) -> Result<(), KernelError> {
        let path = directory.join(FILE);
        let relative = |path: &Path| path.strip_prefix(directory).unwrap_or(path).to_owned();
        let record = Record {
            format: FORMAT,
            version: self.version.clone(),
            image: relative(&self.image),
            image_bytes: fs::metadata(&self.image).map_err(KernelError::io("read", &self.image))?.len(),
            boot: self.boot,
            modules: self.modules.as_deref().map(relative),
            source: self.source.clone(),
            blake3: self.blake3.clone(),
        };
        let text = serde_json::to_vec_pretty(&record).map_err(io::Error::from);
        text.and_then(|text| fs::write(&path, text)).map_err(KernelError::io("write", &path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
  "format": 1,
  "version": "6.1.0-9-cloud-amd64",
  "image": "vmlinux",
  "image_bytes": 6,
  "boot": "pvh",
  "modules": "lib/modules/6.1.0-9-cloud-amd64",
  "source": {
    "package": "linux-image-6.1.0-9-cloud-amd64"
  },
  "blake3": "00"
}"#;

    fn sample(directory: &Path) -> Kernel {
        Kernel {
            version: "6.1.0-9-cloud-amd64".to_owned(),
            image: directory.join("vmlinux"),
            boot: Boot::Pvh,
            modules: Some(directory.join("lib/modules/6.1.0-9-cloud-amd64")),
            source: KernelSource::Package("linux-image-6.1.0-9-cloud-amd64".to_owned()),
            blake3: "00".to_owned(),
        }
    }

    #[test]
    fn format_1_is_written_and_read_as_it_was_frozen() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("vmlinux"), "kernel").unwrap();
        fs::create_dir_all(place.path().join("lib/modules/6.1.0-9-cloud-amd64")).unwrap();
        sample(place.path()).write(place.path()).unwrap();
        assert_eq!(fs::read_to_string(place.path().join(FILE)).unwrap(), SAMPLE);
        assert_eq!(Kernel::read(place.path()).unwrap(), sample(place.path()));
    }

    #[test]
    fn a_changed_kernel_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join(FILE), SAMPLE).unwrap();
        fs::write(place.path().join("vmlinux"), "kernel").unwrap();
        assert!(Kernel::read(place.path()).unwrap_err().to_string().contains("modules"));
        fs::create_dir_all(place.path().join("lib/modules/6.1.0-9-cloud-amd64")).unwrap();
        assert!(Kernel::read(place.path()).unwrap().verify().is_err());
        fs::write(place.path().join("vmlinux"), "cut").unwrap();
        assert!(matches!(Kernel::read(place.path()), Err(KernelError::Record { .. })));
        fs::write(place.path().join(FILE), SAMPLE.replace("\"format\": 1", "\"format\": 9")).unwrap();
        assert!(Kernel::read(place.path()).unwrap_err().to_string().contains("format 9"));
    }
}
