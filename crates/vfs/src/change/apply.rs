//! Applies operations.

use std::io::{self, Read};

use agentiso_store::{
    Content, Edit, File, Node, Session, StoreError, TreePath, directory_meta, limits, read_range,
    store_bytes, store_stream,
};

use super::op::{FileOp, NewContent};
use super::paths::{destination, existing, parent_exists};
use super::working::Working;
use crate::files::resolve;
use crate::model::{Changed, Note};
use crate::vault::fresh_meta;
use crate::{Vaults, VfsError};

/// Bytes of a file that are read at a time.
const PART: usize = 4 << 20;

impl Vaults {
    /// Applies operations in order, all or none, as one change of the vault.
    pub fn change(&self, vault: &str, operations: &[FileOp]) -> Result<Changed, VfsError> {
        let note = match operations {
            [] => return Err(VfsError::invalid("the change", "it has no operations")),
            [one] => Note::new(one.word()).at(one.path()),
            several => Note::new("change").detail(format!("{{\"operations\":{}}}", several.len())),
        };
        self.update(vault, &note, |session, state| {
            let mut working = Working::new(session, state);
            for operation in operations {
                working.apply(operation)?;
            }
            working.finish()
        })
    }

    /// Gives every path with one tag another one instead.
    pub fn rename_tag(&self, vault: &str, old: &str, new: &str) -> Result<Changed, VfsError> {
        self.replace_tag(vault, "tag_rename", old, Some(new))
    }

    /// Removes a tag from every path.
    pub fn delete_tag(&self, vault: &str, tag: &str) -> Result<Changed, VfsError> {
        self.replace_tag(vault, "tag_delete", tag, None)
    }

    fn replace_tag(
        &self,
        vault: &str,
        word: &str,
        old: &str,
        new: Option<&str>,
    ) -> Result<Changed, VfsError> {
        self.update(vault, &Note::new(word), |_, state| {
            let mut annotations = (*state.annotations).clone();
            if annotations.replace_tag(old, new)? == 0 {
                return Err(no_tag(old));
            }
            Ok(crate::commit::with_annotations(state.tree, annotations))
        })
    }
}

fn no_tag(tag: &str) -> VfsError {
    VfsError::invalid(format!("the tag {:?}", tag.chars().take(80).collect::<String>()), "nothing has it")
}

impl Working<'_> {
    fn apply(&mut self, operation: &FileOp) -> Result<(), VfsError> {
        match operation {
            FileOp::Write { path, content, mode, if_absent } => self.write(path, content, *mode, *if_absent),
            FileOp::Append { path, content } => self.append(path, content),
            FileOp::MakeDirectory { path, parents, mode } => self.make_directory(path, *parents, *mode),
            FileOp::Remove { path, recursive, force } => self.remove_path(path, *recursive, *force),
            FileOp::Copy { from, to, recursive, replace } => self.copy(from, to, *recursive, *replace),
            FileOp::Move { from, to, replace } => self.rename(from, to, *replace),
            FileOp::Symlink { path, target, replace } => self.symlink(path, target, *replace),
            FileOp::SetMode { path, mode } => {
                check_mode(*mode)?;
                self.set_meta(path, |meta| meta.mode = *mode)
            }
            FileOp::SetTime { path, time } => self.set_meta(path, |meta| meta.mtime = *time),
            FileOp::AddTag { path, tag } => {
                let path = existing(self, path)?;
                self.annotations.add_tag(&path, tag).map(drop)
            }
            FileOp::RemoveTag { path, tag } => {
                let (path, _) = resolve(self, path, false)?;
                self.annotations.remove_tag(&path, tag).then_some(()).ok_or_else(|| no_tag(tag))
            }
            FileOp::SetMetadata { path, key, value } => {
                let path = existing(self, path)?;
                self.annotations.set(&path, key, value)
            }
            FileOp::RemoveMetadata { path, key } => {
                let (path, _) = resolve(self, path, false)?;
                let reason = "the path does not have it";
                let missing = || VfsError::invalid(format!("the key {key:?}"), reason);
                self.annotations.unset(&path, key).then_some(()).ok_or_else(missing)
            }
        }
    }

    fn write(
        &self,
        path: &TreePath,
        content: &NewContent,
        mode: Option<u16>,
        if_absent: bool,
    ) -> Result<(), VfsError> {
        mode.map_or(Ok(()), check_mode)?;
        let (path, found) = resolve(self, path, true)?;
        let mut meta = fresh_meta(0o644);
        match found {
            Some(_) if if_absent => return Err(VfsError::Exists { path }),
            // The same file with other bytes: mode, owner and attributes stay, and other names of it keep the old bytes.
            Some(Node::File(file)) => {
                let mtime = meta.mtime;
                meta = agentiso_store::Meta { mtime, ..file.meta };
            }
            Some(Node::Directory(_)) => return Err(VfsError::IsADirectory { path }),
            Some(_) => return Err(VfsError::NotAFile { path }),
            None => parent_exists(self, &path)?,
        }
        meta.mode = mode.unwrap_or(meta.mode);
        let (size, content) = stored(self.session, content)?;
        self.put(&path, Node::File(File { meta, size, content, link: None }))
    }

    fn append(&self, path: &TreePath, added: &NewContent) -> Result<(), VfsError> {
        let (found, node) = resolve(self, path, true)?;
        let file = match node {
            Some(Node::File(file)) => file,
            Some(Node::Directory(_)) => return Err(VfsError::IsADirectory { path: found }),
            Some(_) => return Err(VfsError::NotAFile { path: found }),
            None => return self.write(path, added, None, false),
        };
        let (size, content) = stored(self.session, added)?;
        let before = Parts::new(self.session, file.size, file.content);
        let after = Parts::new(self.session, size, content);
        let (size, content) = store_stream(self.session, before.chain(after)).map_err(unwrapped)?;
        let meta = agentiso_store::Meta { mtime: fresh_meta(0).mtime, ..file.meta };
        self.put(&found, Node::File(File { meta, size, content, link: None }))
    }

    fn make_directory(&self, path: &TreePath, parents: bool, mode: Option<u16>) -> Result<(), VfsError> {
        mode.map_or(Ok(()), check_mode)?;
        let meta = fresh_meta(mode.unwrap_or(0o755));
        if !parents {
            let (path, found) = resolve(self, path, false)?;
            if found.is_some() {
                return Err(VfsError::Exists { path });
            }
            parent_exists(self, &path)?;
            return self.edit(&path, Edit::MakeDirectory(meta));
        }
        let mut at = TreePath::root();
        let depth = path.depth();
        for (index, name) in path.components().enumerate() {
            let (found, node) = resolve(self, &at.join(name), true)?;
            match node {
                Some(Node::Directory(_)) => {}
                Some(_) => return Err(VfsError::NotADirectory { path: found }),
                None => {
                    let is_last = index + 1 == depth;
                    let meta = if is_last { meta } else { fresh_meta(0o755) };
                    self.edit(&found, Edit::MakeDirectory(meta))?;
                }
            }
            at = found;
        }
        Ok(())
    }

    fn remove_path(&mut self, path: &TreePath, recursive: bool, force: bool) -> Result<(), VfsError> {
        let (path, node) = match resolve(self, path, false) {
            Err(VfsError::NotFound { .. }) if force => return Ok(()),
            other => other?,
        };
        match node {
            None if force => return Ok(()),
            None => return Err(VfsError::NotFound { path }),
            Some(Node::Directory(_)) if path.is_root() => {
                return Err(VfsError::invalid("the root of a vault", "it cannot be removed"));
            }
            Some(Node::Directory(_)) if !recursive => return Err(VfsError::IsADirectory { path }),
            Some(_) => {}
        }
        self.annotations.remove_below(&path);
        self.remove(&path)
    }

    fn copy(
        &mut self,
        from: &TreePath,
        to: &TreePath,
        recursive: bool,
        replace: bool,
    ) -> Result<(), VfsError> {
        let (from, node) = resolve(self, from, false)?;
        let node = node.ok_or_else(|| VfsError::NotFound { path: from.clone() })?;
        if matches!(node, Node::Directory(_)) && !recursive {
            return Err(VfsError::IsADirectory { path: from });
        }
        let to = destination(self, &from, &node, to, replace)?;
        self.annotations.transfer(&from, &to, false);
        // A copy is another file, with its own later changes.
        let node = match node {
            Node::File(file) => Node::File(File { link: None, ..file }),
            other => other,
        };
        self.put(&to, node)
    }

    fn rename(&mut self, from: &TreePath, to: &TreePath, replace: bool) -> Result<(), VfsError> {
        let (from, node) = resolve(self, from, false)?;
        let node = node.ok_or_else(|| VfsError::NotFound { path: from.clone() })?;
        let to = destination(self, &from, &node, to, replace)?;
        if from == to {
            return Ok(());
        }
        self.annotations.transfer(&from, &to, true);
        self.remove(&from)?;
        self.put(&to, node)
    }

    fn symlink(&self, path: &TreePath, target: &[u8], replace: bool) -> Result<(), VfsError> {
        if target.is_empty() || target.len() > limits::MAX_TARGET || target.contains(&0) {
            let reason = format!("it must have 1 to {} bytes without NUL", limits::MAX_TARGET);
            return Err(VfsError::invalid("the target of the link", reason));
        }
        let (path, found) = resolve(self, path, false)?;
        match found {
            Some(Node::Directory(_)) => return Err(VfsError::IsADirectory { path }),
            Some(_) if !replace => return Err(VfsError::Exists { path }),
            _ => parent_exists(self, &path)?,
        }
        self.put(&path, Node::Symlink { meta: fresh_meta(0o777), target: target.into() })
    }

    fn set_meta(
        &self,
        path: &TreePath,
        change: impl FnOnce(&mut agentiso_store::Meta),
    ) -> Result<(), VfsError> {
        let (path, node) = resolve(self, path, true)?;
        match node {
            None | Some(Node::Symlink { .. }) => Err(VfsError::NotFound { path }),
            Some(Node::Directory(tree)) => {
                let mut meta = directory_meta(self.session, tree)?;
                change(&mut meta);
                self.edit(&path, Edit::SetMeta(meta))
            }
            Some(Node::File(mut file)) => {
                change(&mut file.meta);
                self.put(&path, Node::File(File { link: None, ..file }))
            }
            Some(Node::Fifo { mut meta }) => {
                change(&mut meta);
                self.put(&path, Node::Fifo { meta })
            }
        }
    }
}

fn check_mode(mode: u16) -> Result<(), VfsError> {
    if mode > 0o7777 {
        return Err(VfsError::invalid(format!("the mode {mode:o}"), "it must be at most 7777"));
    }
    Ok(())
}

fn stored(session: &Session, content: &NewContent) -> Result<(u64, Content), VfsError> {
    match content {
        NewContent::Bytes(bytes) => Ok((bytes.len() as u64, store_bytes(session, bytes)?)),
        NewContent::Staged(staged) => Ok((staged.size, staged.content)),
    }
}

/// A stored file as a stream.
struct Parts<'s> {
    session: &'s Session,
    size: u64,
    content: Content,
    at: u64,
    part: io::Cursor<Vec<u8>>,
}

impl<'s> Parts<'s> {
    fn new(session: &'s Session, size: u64, content: Content) -> Self {
        Self { session, size, content, at: 0, part: io::Cursor::default() }
    }
}

impl Read for Parts<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.part.read(out)?;
        if len > 0 || self.at >= self.size {
            return Ok(len);
        }
        let bytes =
            read_range(self.session, self.content, self.size, self.at, PART).map_err(io::Error::other)?;
        self.at += bytes.len() as u64;
        self.part = io::Cursor::new(bytes);
        self.part.read(out)
    }
}

/// An error of the store that went through a stream.
fn unwrapped(error: StoreError) -> VfsError {
    match error {
        StoreError::Io { what, path, source } => match source.downcast::<StoreError>() {
            Ok(inner) => inner.into(),
            Err(source) => StoreError::Io { what, path, source }.into(),
        },
        other => other.into(),
    }
}
