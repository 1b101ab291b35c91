//! Extended attributes of files on the host.

use std::os::fd::AsFd;

use rustix::fs::{fgetxattr, flistxattr};
use rustix::io::Errno;

use crate::object::Attributes;

/// The attributes that belong to a file and not to the host: those of users, capabilities and access control lists. Not
/// those by which overlays describe their layers.
pub(crate) fn is_kept(name: &[u8]) -> bool {
    (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."))
        || matches!(name, b"security.capability" | b"system.posix_acl_access" | b"system.posix_acl_default")
}

/// Reads the attributes that are kept.
pub(super) fn read(fd: impl AsFd) -> Result<Attributes, Errno> {
    let mut small = [0_u8; 256];
    let large;
    let names = match flistxattr(&fd, &mut small) {
        Ok(0) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Attributes::default()),
        Ok(len) => small.get(..len).unwrap_or_default(),
        Err(Errno::RANGE) => {
            large = list(&fd)?;
            &large
        }
        Err(error) => return Err(error),
    };
    let mut attributes = Attributes::default();
    for name in names.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        match value(&fd, name) {
            Ok(value) => attributes.0.insert(name.to_vec(), value),
            // Removed meanwhile; the check for changes notices.
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error),
        };
    }
    Ok(attributes)
}

/// What an overlay says about a directory of its upper layer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct OverlayMarks {
    /// The directory hides what is below it in the lower layers.
    pub(super) is_opaque: bool,
    /// The directory was renamed and continues this one of the lower layers: a path from their root, or a name in the
    /// directory that its parent continues.
    pub(super) redirect: Option<Vec<u8>>,
}

/// Reads the marks that an overlay of root, or of a user, has made.
pub(super) fn overlay_marks(fd: impl AsFd) -> Result<OverlayMarks, Errno> {
    let mark = |name: &[u8]| match value(&fd, name) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error),
    };
    let is_yes = |value: Option<Vec<u8>>| value.is_some_and(|value| value == b"y");
    Ok(OverlayMarks {
        is_opaque: is_yes(mark(b"user.overlay.opaque")?) || is_yes(mark(b"trusted.overlay.opaque")?),
        // The kernel follows no others.
        redirect: mark(b"trusted.overlay.redirect")?,
    })
}

fn list(fd: impl AsFd) -> Result<Vec<u8>, Errno> {
    // The kernel's limit.
    let mut names = vec![0; 64 << 10];
    let len = flistxattr(fd, &mut names[..])?;
    names.truncate(len);
    Ok(names)
}

fn value(fd: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let mut small = [0_u8; 1024];
    match fgetxattr(&fd, name, &mut small) {
        Ok(len) => Ok(small.get(..len).unwrap_or_default().to_vec()),
        Err(Errno::RANGE) => {
            let mut value = vec![0; 64 << 10];
            let len = fgetxattr(fd, name, &mut value[..])?;
            value.truncate(len);
            Ok(value)
        }
        Err(error) => Err(error),
    }
}
