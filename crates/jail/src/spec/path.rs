//! Paths as they are serialised: as text where people read it, as bytes elsewhere. Text that is not UTF-8 is refused.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A path that serialises as described above.
#[derive(Clone)]
struct Wire(PathBuf);

impl Serialize for Wire {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        one::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        one::deserialize(deserializer).map(Self)
    }
}

/// One path.
pub(crate) mod one {
    use super::*;

    pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let text = path.to_str();
            serializer.serialize_str(text.ok_or_else(|| S::Error::custom("the path is not UTF-8"))?)
        } else {
            serializer.serialize_bytes(path.as_os_str().as_bytes())
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer).map(PathBuf::from);
        }
        let bytes = Vec::<u8>::deserialize(deserializer).map_err(D::Error::custom)?;
        Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
    }
}

/// A path that may be missing.
pub(crate) mod optional {
    use super::*;

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.clone().map(Wire).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Option::<Wire>::deserialize(deserializer).map(|path| path.map(|path| path.0))
    }
}

/// Several paths.
pub(crate) mod list {
    use super::*;

    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().cloned().map(Wire))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Vec::<Wire>::deserialize(deserializer).map(|paths| paths.into_iter().map(|path| path.0).collect())
    }
}
