//! Lists a directory and everything below it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, fstat, statat};
use rustix::io::Errno;

use super::attributes::{self, OverlayMarks};
use super::beneath::open_beneath;
use super::directory::{Context, host_path};
use super::read::{meta_of, put_attributes};
use super::report::{ImportReport, Reason};
use crate::error::StoreError;
use crate::limits::MAX_PATH;
use crate::node::Meta;
use crate::path::TreePath;

/// A directory that was listed.
pub(super) struct Listed {
    pub(super) path: TreePath,
    /// Position of its parent in the list; the root is its own.
    pub(super) parent: usize,
    pub(super) meta: Meta,
    pub(super) stat: Stat,
    /// What an overlay says about it, if a layer is imported.
    pub(super) marks: OverlayMarks,
    /// Everything but directories, with the type that the listing gave.
    pub(super) others: Vec<Box<[u8]>>,
}

/// Lists all directories, parents before children.
pub(super) fn scan(context: &Context<'_>, report: &mut ImportReport) -> Result<Vec<Listed>, StoreError> {
    let mut listed = Vec::new();
    let mut stack = vec![(TreePath::root(), 0)];
    while let Some((path, parent)) = stack.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match open_beneath(&context.root, &path, flags) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) if !path.is_root() => {
                report.note(path, Reason::Vanished);
                continue;
            }
            Err(Errno::ACCESS | Errno::PERM) if context.options.skip_unreadable && !path.is_root() => {
                report.note(path, Reason::Unreadable);
                continue;
            }
            Err(error) => return Err(context.failed("open", &path)(error)),
        };
        let stat = fstat(&fd).map_err(context.failed("read", &path))?;
        if (stat.st_dev, stat.st_ino) == context.store {
            report.note(path, Reason::Store);
            continue;
        }
        if context.options.one_file_system && stat.st_dev != context.device {
            report.note(path, Reason::OtherFileSystem);
            continue;
        }
        let index = listed.len();
        listed.push(list(context, fd, path, parent, stat, &mut stack, index)?);
        report.directories += 1;
    }
    Ok(listed)
}

fn list(
    context: &Context<'_>,
    fd: OwnedFd,
    path: TreePath,
    parent: usize,
    stat: Stat,
    stack: &mut Vec<(TreePath, usize)>,
    index: usize,
) -> Result<Listed, StoreError> {
    let found = attributes::read(&fd).map_err(context.failed("read the attributes of", &path))?;
    let meta = Meta { attributes: put_attributes(context.session, &found)?, ..meta_of(&stat) };
    let mut others = Vec::new();
    let directory = Dir::read_from(&fd).map_err(context.failed("read", &path))?;
    for entry in directory {
        let entry = entry.map_err(context.failed("read", &path))?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let child = path.join(name);
        if context.options.skip.is_some_and(|skip| skip(&child)) {
            continue;
        }
        if child.as_bytes().len() > MAX_PATH {
            let reason = format!("its path is longer than {MAX_PATH} bytes");
            return Err(StoreError::Import { path: host_path(context.host, &path), reason });
        }
        if is_directory(fd.as_fd(), name, entry.file_type()) {
            stack.push((child, index));
        } else {
            others.push(name.into());
        }
    }
    others.sort_unstable();
    let marks = if context.is_layer {
        attributes::overlay_marks(&fd).map_err(context.failed("read the attributes of", &path))?
    } else {
        OverlayMarks::default()
    };
    Ok(Listed { path, parent, meta, stat, marks, others })
}

fn is_directory(fd: impl AsFd, name: &[u8], file_type: FileType) -> bool {
    let known = if file_type == FileType::Unknown {
        // An entry that vanished is noticed when it is read.
        statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode))
    } else {
        Ok(file_type)
    };
    known == Ok(FileType::Directory)
}
