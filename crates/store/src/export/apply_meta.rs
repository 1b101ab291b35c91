//! Gives files and directories their owner, mode, attributes and time.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown, fsetxattr, futimens,
    utimensat,
};
use rustix::io::Errno;

use crate::error::StoreError;
use crate::id::ObjectKind;
use crate::import::is_kept_attribute;
use crate::node::Meta;
use crate::object::Attributes;
use crate::store::{Objects, Store};

/// Applies metadata; counts the attributes that the file system does not take.
pub(super) struct Metadata<'m> {
    pub(super) store: &'m Store,
    pub(super) with_owners: bool,
}

impl Metadata<'_> {
    /// The mode to give. Without its owner, a file must not run with the rights of somebody else.
    fn mode(&self, meta: &Meta) -> Mode {
        let allowed = if self.with_owners { 0o7777 } else { 0o1777 };
        Mode::from_raw_mode(u32::from(meta.mode) & allowed)
    }

    /// Applies metadata to an open file or directory; returns the number of attributes that were refused.
    pub(super) fn apply(&self, fd: BorrowedFd<'_>, meta: &Meta) -> Result<u64, Failed> {
        if self.with_owners {
            fchown(fd, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))
                .map_err(Failed::at("change the owner of"))?;
        }
        let refused = match meta.attributes {
            Some(id) => {
                let bytes = self.store.object(ObjectKind::Attributes, &id).map_err(Failed::Store)?;
                set_attributes(fd, &Attributes::decode(&bytes).map_err(Failed::Store)?)?
            }
            None => 0,
        };
        fchmod(fd, self.mode(meta)).map_err(Failed::at("change the mode of"))?;
        futimens(fd, &times(meta)).map_err(Failed::at("set the time of"))?;
        Ok(refused)
    }

    /// Applies owner and time to a link or a pipe, without following or opening it.
    pub(super) fn apply_unopened(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        meta: &Meta,
    ) -> Result<(), Failed> {
        if self.with_owners {
            let (uid, gid) = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
            chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(Failed::at("change the owner of"))?;
        }
        utimensat(directory, name, &times(meta), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(Failed::at("set the time of"))
    }

    /// The mode of a named pipe, which is set when it is created.
    pub(super) fn pipe_mode(&self, meta: &Meta) -> Mode {
        self.mode(meta)
    }
}

/// Why an entry could not be created.
pub(super) enum Failed {
    Host(&'static str, Errno),
    Store(StoreError),
}

impl Failed {
    pub(super) fn at(what: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| Self::Host(what, error)
    }
}

fn set_attributes(fd: impl AsFd, attributes: &Attributes) -> Result<u64, Failed> {
    let mut refused = 0;
    for (name, value) in &attributes.0 {
        // A tree from elsewhere may name any attribute; those of the host are not for it to set.
        if !is_kept_attribute(name) {
            refused += 1;
            continue;
        }
        match fsetxattr(&fd, &name[..], value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => refused += 1,
            Err(error) => return Err(Failed::Host("set an attribute of", error)),
        }
    }
    Ok(refused)
}

fn times(meta: &Meta) -> Timestamps {
    let time = Timespec { tv_sec: meta.mtime.seconds, tv_nsec: meta.mtime.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}
