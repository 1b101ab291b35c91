//! Whether another user can enter a directory.
#![expect(clippy::disallowed_methods, reason = "called by `Installation::host`, which runs `in_place`")]

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agentiso_vmm::qemu::Credentials;

/// The outermost directory on the path, `path` included, that `user` may not enter.
///
/// A directory that does not exist yet is no obstacle: it is created with suitable permissions.
pub(crate) fn first_closed(path: &Path, user: Credentials) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    let closed = way.into_iter().find(|dir| fs::metadata(dir).is_ok_and(|meta| !may_enter(dir, &meta, user)));
    closed.map(Path::to_owned)
}

fn may_enter(dir: &Path, meta: &Metadata, user: Credentials) -> bool {
    let bit = if meta.uid() == user.uid {
        0o100
    } else if meta.gid() == user.gid || Some(meta.gid()) == user.kvm_gid {
        0o010
    } else {
        0o001
    };
    // An access control list may allow more than the mode shows, so a directory with one counts as open.
    meta.mode() & bit != 0 || rustix::fs::getxattr(dir, "system.posix_acl_access", &mut [0u8; 0]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const STRANGER: Credentials = Credentials { uid: 4_000_000, gid: 4_000_000, kvm_gid: None };

    #[test]
    fn the_outermost_closed_directory_is_named() {
        let place = tempfile::tempdir().unwrap();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(place.path(), 0o711);
        let (middle, inner) = (place.path().join("middle"), place.path().join("middle/inner"));
        fs::create_dir_all(&inner).unwrap();
        set(&middle, 0o755);
        set(&inner, 0o755);
        assert_eq!(first_closed(&inner, STRANGER), None);
        set(&inner, 0o700);
        assert_eq!(first_closed(&inner, STRANGER), Some(fs::canonicalize(&inner).unwrap()));
        set(&middle, 0o700);
        assert_eq!(first_closed(&inner, STRANGER), Some(fs::canonicalize(&middle).unwrap()));
        let meta = fs::metadata(&middle).unwrap();
        let owner = Credentials { uid: meta.uid(), gid: meta.gid(), kvm_gid: None };
        assert_eq!(first_closed(&inner, owner), None);
    }

    #[test]
    fn what_is_not_there_yet_is_no_obstacle() {
        assert_eq!(first_closed(Path::new("/nonexistent/home"), STRANGER), None);
    }
}
