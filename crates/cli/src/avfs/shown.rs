//! How things are shown.

use agentiso_vfs::{NodeKind, Stat, Time};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use agentiso_proxy::{exact_path as exact, kind_name, shown_path as path};

use crate::ui::bytes;

/// One file or directory.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Entry {
    /// Its name. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub name: String,
    /// Its path in the vault.
    pub path: String,
    /// The exact bytes of the path in hexadecimal digits, if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// `file`, `directory`, `symlink` or `fifo`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was modified.
    pub modified: String,
    /// Its permissions, in octal digits.
    pub mode: String,
    /// Where it points, if it is a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

impl From<&Stat> for Entry {
    fn from(stat: &Stat) -> Self {
        Self {
            name: String::from_utf8_lossy(&stat.name()).into_owned(),
            path: path(&stat.path),
            path_bytes: exact(&stat.path),
            kind: kind_name(stat.kind).to_owned(),
            size: stat.size,
            modified: time(stat.mtime),
            mode: format!("{:04o}", stat.mode),
            target: stat.target.as_deref().map(|target| String::from_utf8_lossy(target).into_owned()),
        }
    }
}

impl Entry {
    /// The permissions as `ls -l` shows them.
    pub fn letters(&self) -> String {
        let mode = u32::from_str_radix(&self.mode, 8).unwrap_or_default();
        let kind = match self.kind.as_str() {
            "directory" => 'd',
            "symlink" => 'l',
            "fifo" => 'p',
            _ => '-',
        };
        let bits = (0..9).rev().zip("rwxrwxrwx".chars());
        std::iter::once(kind)
            .chain(bits.map(|(bit, letter)| if mode >> bit & 1 == 1 { letter } else { '-' }))
            .collect()
    }
}

/// A time of a file.
pub fn time(time: Time) -> String {
    let nanos = i32::try_from(time.nanos).unwrap_or_default();
    Timestamp::new(time.seconds, nanos).unwrap_or(Timestamp::MIN).to_string()
}

/// A number of bytes in words.
pub fn human(count: u64) -> String {
    bytes(count)
}

/// Whether something is a directory.
pub fn is_directory(kind: NodeKind) -> bool {
    kind == NodeKind::Directory
}
