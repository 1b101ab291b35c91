//! Calls on symbolic links and extended attributes.

use std::os::fd::AsFd;

use rustix::fs::{FileType, XattrFlags, fstat, getxattr, listxattr, readlinkat, removexattr, setxattr};
use rustix::io::Errno;

use super::attributes::open_file;
use super::filesystem::Overlaid;

/// The kernel's limit.
const MAX_VALUE: usize = 64 << 10;

impl Overlaid {
    pub(super) fn target(&self, number: u64) -> Result<Vec<u8>, Errno> {
        let fd = self.nodes.get(number)?;
        Ok(readlinkat(fd.as_fd(), c"", Vec::new())?.into_bytes())
    }

    /// A path through which attributes are reached. That of a link would lead to its target.
    fn with_attributes(&self, number: u64) -> Result<(std::sync::Arc<std::os::fd::OwnedFd>, String), Errno> {
        let fd = self.nodes.get(number)?;
        if FileType::from_raw_mode(fstat(fd.as_fd())?.st_mode) == FileType::Symlink {
            return Err(Errno::OPNOTSUPP);
        }
        let path = open_file(fd.as_fd());
        Ok((fd, path))
    }

    pub(super) fn attribute(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let (_fd, path) = match self.with_attributes(number) {
            Err(Errno::OPNOTSUPP) => return Err(Errno::NODATA),
            result => result?,
        };
        let mut value = vec![0; MAX_VALUE];
        let len = getxattr(path, name, &mut value[..])?;
        value.truncate(len);
        Ok(value)
    }

    pub(super) fn attribute_names(&self, number: u64) -> Result<Vec<u8>, Errno> {
        let (_fd, path) = match self.with_attributes(number) {
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            result => result?,
        };
        let mut names = vec![0; MAX_VALUE];
        let len = listxattr(path, &mut names[..])?;
        names.truncate(len);
        Ok(names)
    }

    pub(super) fn set_attribute(
        &self,
        number: u64,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        let (_fd, path) = self.with_attributes(number)?;
        setxattr(path, name, value, XattrFlags::from_bits_retain(flags as u32))
    }

    pub(super) fn remove_attribute(&self, number: u64, name: &[u8]) -> Result<(), Errno> {
        let (_fd, path) = self.with_attributes(number)?;
        removexattr(path, name)
    }
}
