//! Operations on files, at random.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Op {
    Write(String, usize),
    Append(String, usize),
    WriteAt(String, u64),
    Truncate(String, u64),
    Mkdir(String),
    Remove(String),
    RemoveAll(String),
    Rename(String, String),
    Symlink(String, String),
    Link(String, String),
    Chmod(String, u32),
    Attribute(String, u8),
}

impl Op {
    /// Carries it out below a root; the answer is the error number.
    pub fn apply(&self, root: &Path) -> Result<(), i32> {
        let at = |name: &String| root.join(name);
        let fill = |len: &usize| vec![b'x'; *len];
        let done: io::Result<()> = match self {
            Self::Write(path, len) => fs::write(at(path), fill(len)),
            Self::Append(path, len) => {
                OpenOptions::new().append(true).open(at(path)).and_then(|mut file| file.write_all(&fill(len)))
            }
            Self::WriteAt(path, offset) => {
                OpenOptions::new().write(true).open(at(path)).and_then(|mut file| {
                    file.seek(SeekFrom::Start(*offset))?;
                    file.write_all(b"middle")
                })
            }
            Self::Truncate(path, len) => {
                OpenOptions::new().write(true).open(at(path)).and_then(|file| file.set_len(*len))
            }
            Self::Mkdir(path) => fs::create_dir(at(path)),
            Self::Remove(path) => fs::remove_file(at(path)).or_else(|_| fs::remove_dir(at(path))),
            Self::RemoveAll(path) => fs::remove_dir_all(at(path)),
            Self::Rename(from, to) => fs::rename(at(from), at(to)),
            Self::Symlink(target, path) => symlink(target, at(path)),
            Self::Link(from, to) => fs::hard_link(at(from), at(to)),
            Self::Chmod(path, mode) => {
                match fs::symlink_metadata(at(path)) {
                    Ok(metadata) if metadata.is_symlink() => Ok(()),
                    // Nobody but root could read the plain directory otherwise.
                    Ok(metadata) if metadata.is_dir() => {
                        fs::set_permissions(at(path), fs::Permissions::from_mode(mode | 0o700))
                    }
                    _ => fs::set_permissions(at(path), fs::Permissions::from_mode(*mode)),
                }
            }
            Self::Attribute(path, value) => File::open(at(path)).and_then(|file| {
                let flags = rustix::fs::XattrFlags::empty();
                Ok(rustix::fs::fsetxattr(&file, "user.test", &[*value], flags)?)
            }),
        };
        done.map_err(|error| error.raw_os_error().unwrap_or(-1))
    }
}

/// Paths of which many exist, and many are below one another.
fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", "dir-0", "dir-1", "file-0", "file-1"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

pub fn op() -> impl Strategy<Value = Op> {
    let mode = prop::sample::select(vec![0o755, 0o700, 0o644, 0o777]);
    prop_oneof![
        3 => (path(), 0..5000_usize).prop_map(|(path, len)| Op::Write(path, len)),
        1 => (path(), 0..50_usize).prop_map(|(path, len)| Op::Append(path, len)),
        1 => (path(), 0..9000_u64).prop_map(|(path, at)| Op::WriteAt(path, at)),
        1 => (path(), 0..9000_u64).prop_map(|(path, len)| Op::Truncate(path, len)),
        3 => path().prop_map(Op::Mkdir),
        2 => path().prop_map(Op::Remove),
        1 => path().prop_map(Op::RemoveAll),
        6 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (path(), path()).prop_map(|(target, path)| Op::Symlink(target, path)),
        1 => (path(), path()).prop_map(|(from, to)| Op::Link(from, to)),
        2 => (path(), mode).prop_map(|(path, mode)| Op::Chmod(path, mode)),
        1 => (path(), any::<u8>()).prop_map(|(path, value)| Op::Attribute(path, value)),
    ]
}

pub fn start(root: &Path) {
    fill(root, 2, 2);
    fill(&root.join("a"), 2, 2);
    write(root.join("b/c/file-0"), "deep");
}
