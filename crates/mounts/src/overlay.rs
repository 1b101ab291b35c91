//! The layers of an overlay, and mounting them.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use crate::error::MountError;

/// The kernel takes one page of options.
const MAX_DATA: usize = 4095;

/// The layers of a working directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Overlay {
    /// Directories that must never change, the uppermost first.
    pub lowers: Vec<PathBuf>,
    /// The writable layer.
    pub upper: PathBuf,
    /// What the kernel works in; on the same file system as `upper`.
    pub work: PathBuf,
    /// An empty directory, which a read-only overlay of one layer needs as its second.
    pub empty: PathBuf,
    /// Marks are kept in `user.*` attributes, as user namespaces need it. Otherwise they are in `trusted.*` ones, which only
    /// root may use, and directories of the lower layer can be renamed.
    pub userxattr: bool,
}

impl Overlay {
    /// The data string of mount(2): `mount("overlay", TARGET, "overlay", 0, DATA)`.
    pub fn data(&self) -> Result<CString, MountError> {
        let mut data = b"lowerdir=".to_vec();
        self.push_lowers(&mut data, false);
        for (name, path) in [("upperdir", &self.upper), ("workdir", &self.work)] {
            data.extend_from_slice(format!(",{name}=").as_bytes());
            escape(path, &mut data);
        }
        data.extend_from_slice(if self.userxattr { b",userxattr" } else { b",redirect_dir=on" });
        finish(data)
    }

    /// The data string of an overlay that cannot be written to. It shows the changes made so far.
    pub fn read_only_data(&self) -> Result<CString, MountError> {
        let mut data = b"lowerdir=".to_vec();
        escape(&self.upper, &mut data);
        data.push(b':');
        self.push_lowers(&mut data, true);
        data.extend_from_slice(if self.userxattr { b",userxattr" } else { b",redirect_dir=follow" });
        finish(data)
    }

    fn push_lowers(&self, data: &mut Vec<u8>, with_empty: bool) {
        let empty = Some(&self.empty).filter(|_| with_empty);
        for (at, path) in self.lowers.iter().chain(empty).enumerate() {
            if at > 0 {
                data.push(b':');
            }
            escape(path, data);
        }
    }

    /// Mounts the overlay in the mount namespace of the calling process.
    pub fn mount(&self, target: &Path, read_only: bool) -> Result<(), MountError> {
        // As root, a command in the sandbox can make programs that are set-user-ID root.
        let safe = MountFlags::NOSUID | MountFlags::NODEV;
        let (data, flags) = if read_only {
            (self.read_only_data()?, safe | MountFlags::RDONLY)
        } else {
            (self.data()?, safe)
        };
        mount("overlay", target, "overlay", flags, Some(data.as_c_str()))
            .map_err(MountError::os("mount an overlay on", target))
    }
}

fn finish(data: Vec<u8>) -> Result<CString, MountError> {
    if data.len() > MAX_DATA {
        let reason = format!("the paths of its layers have {} bytes, more than {MAX_DATA}", data.len());
        return Err(MountError::invalid("the overlay", reason));
    }
    CString::new(data).map_err(|_| MountError::invalid("the overlay", "the path of a layer contains NUL"))
}

/// Overlayfs takes `\` before a character that means something in its options.
fn escape(path: &Path, data: &mut Vec<u8>) {
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'\\' | b':' | b',') {
            data.push(b'\\');
        }
        data.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(upper: &str) -> Overlay {
        Overlay {
            lowers: vec!["/l1".into(), "/l:2".into()],
            upper: upper.into(),
            work: "/w".into(),
            empty: "/e".into(),
            userxattr: true,
        }
    }

    #[test]
    fn separators_in_paths_are_escaped() {
        let data = overlay("/u,p\\").data().unwrap();
        assert_eq!(data.to_bytes(), br"lowerdir=/l1:/l\:2,upperdir=/u\,p\\,workdir=/w,userxattr");
        let data = overlay("/u").read_only_data().unwrap();
        assert_eq!(data.to_bytes(), br"lowerdir=/u:/l1:/l\:2:/e,userxattr");
    }

    #[test]
    fn options_that_the_kernel_would_cut_off_are_refused() {
        assert!(overlay(&"x".repeat(5000)).data().is_err());
    }
}
