//! Extended attributes of files on the host.

use std::os::fd::AsFd;

use rustix::fs::{fgetxattr, flistxattr};
use rustix::io::Errno;

use crate::object::Attributes;

/// The attributes that belong to a file and not to the host: those of users, capabilities and access control lists.
pub(crate) fn is_kept(name: &[u8]) -> bool {
    name.starts_with(b"user.")
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
