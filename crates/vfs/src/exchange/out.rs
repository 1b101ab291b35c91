//! Exports to the host.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use agentiso_store::{
    Commit, GitExported, MaterialiseOptions, Materialised, Node, StoreError, TreeId, TreePath, export_git,
    materialise, write_tar,
};

use super::overwrite::replace_all;
use crate::files::View;
use crate::model::Totals;
use crate::places::totals_of;
use crate::state::StateRef;
use crate::{Vaults, VfsError};

/// How something is exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportRequest {
    /// Files that exist are replaced, one by one. Without it the destination must not exist, or be an empty directory.
    pub overwrite: bool,
    /// Give everything its recorded owner, which needs root.
    pub owners: bool,
    /// Flush everything to disk.
    pub durable: bool,
    /// Levels of directories that are exported; 1 for the files of the directory itself.
    pub max_depth: Option<usize>,
}

/// What was exported.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ExportDone {
    /// How much it was.
    pub totals: Totals,
    /// Extended attributes that the file system of the destination did not accept.
    pub refused_attributes: u64,
}

impl Vaults {
    /// Writes a file, or a directory with everything in it, to the host. It appears complete or not at all; with
    /// `overwrite`, each file does.
    pub fn export(
        &self,
        view: &View,
        path: &TreePath,
        host: &Path,
        request: &ExportRequest,
    ) -> Result<ExportDone, VfsError> {
        let tree = match view.stat(path, true)?.kind {
            agentiso_store::NodeKind::Directory => view.directory(path)?,
            _ => return self.export_file(view, path, host, request),
        };
        let (tree, _lease) = self.limited(tree, request.max_depth)?;
        let options =
            MaterialiseOptions { owners: request.owners, durable: request.durable, ..Default::default() };
        let done = match materialise(&self.store, tree, host, &options) {
            Err(StoreError::Exists { .. }) if request.overwrite => self.export_over(tree, host, &options)?,
            Err(StoreError::Exists { path }) => return Err(VfsError::HostExists { path }),
            other => other?,
        };
        let mut totals = totals_of(&self.store, &Node::Directory(tree))?;
        totals.directories = totals.directories.saturating_sub(1);
        Ok(ExportDone { totals, refused_attributes: done.refused_attributes })
    }

    /// Writes beside the destination, and moves every file over.
    fn export_over(
        &self,
        tree: TreeId,
        host: &Path,
        options: &MaterialiseOptions<'_>,
    ) -> Result<Materialised, VfsError> {
        let beside = beside(host)?;
        let _ = agentiso_store::remove_abandoned(host.parent().unwrap_or(Path::new(".")));
        let done = materialise(&self.store, tree, &beside, options)?;
        let moved = replace_all(&beside, host);
        let removed = fs::remove_dir_all(&beside).map_err(VfsError::io("remove", &beside));
        moved.and(removed)?;
        Ok(done)
    }

    fn export_file(
        &self,
        view: &View,
        path: &TreePath,
        host: &Path,
        request: &ExportRequest,
    ) -> Result<ExportDone, VfsError> {
        let (_, name) = path.split().ok_or_else(|| VfsError::IsADirectory { path: path.clone() })?;
        // As cp does: into a directory under its own name.
        let is_directory = fs::metadata(host).is_ok_and(|metadata| metadata.is_dir());
        let host = if is_directory {
            host.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name))
        } else {
            host.to_owned()
        };
        let exists = fs::symlink_metadata(&host).is_ok();
        if exists && !request.overwrite {
            return Err(VfsError::HostExists { path: host });
        }
        // A tree of this one file is written as any other, and the file moved from it.
        let (tree, _lease) = self.tree_of_file(view, path)?;
        let beside = beside(&host)?;
        let options =
            MaterialiseOptions { owners: request.owners, durable: request.durable, ..Default::default() };
        let done = materialise(&self.store, tree, &beside, &options)?;
        let from = beside.join("file");
        let moved = match request.overwrite {
            true => fs::rename(&from, &host),
            false => fs::hard_link(&from, &host),
        };
        let moved = moved.map_err(VfsError::io("create", &host));
        let removed = fs::remove_dir_all(&beside).map_err(VfsError::io("remove", &beside));
        moved.and(removed)?;
        let bytes = view.stat(path, true)?.size;
        let totals = Totals { files: 1, directories: 0, bytes };
        Ok(ExportDone { totals, refused_attributes: done.refused_attributes })
    }

    /// Writes a directory as a tar archive.
    pub fn export_tar(&self, view: &View, path: &TreePath, out: impl Write) -> Result<(), VfsError> {
        let mut out = write_tar(&self.store, view.directory(path)?, out)?;
        out.flush().map_err(VfsError::io("write", "the archive"))
    }

    /// Writes the checkpoints of a vault and its present state as a line of commits on a new branch.
    pub fn export_git(&self, vault: &str, repository: &Path, branch: &str) -> Result<GitExported, VfsError> {
        let now = self.view(vault, &StateRef::Now)?;
        let mut views = Vec::new();
        let mut line: Vec<Commit> = Vec::new();
        let commit = |tree, message: String, actor: &str, time: i64| Commit {
            tree,
            message,
            author: actor.to_owned(),
            email: "avfs@localhost".to_owned(),
            time,
        };
        for found in self.checkpoints(vault)? {
            if found.kind != crate::CheckpointKind::User {
                continue;
            }
            // It may be removed while the others are written.
            let view = self.view(vault, &StateRef::Checkpoint(found.name.clone()))?;
            let message = match &found.description {
                Some(text) => format!("{}\n\n{text}\n", found.name),
                None => format!("{}\n", found.name),
            };
            line.push(commit(view.tree(), message, &found.actor, found.created_at.as_second()));
            views.push(view);
        }
        if line.last().is_none_or(|last| last.tree != now.tree()) {
            let info = self.info(vault)?;
            line.push(commit(
                now.tree(),
                format!("{}\n", info.name),
                self.actor(),
                info.modified_at.as_second(),
            ));
        }
        Ok(export_git(&self.store, &line, repository, branch)?)
    }

    fn tree_of_file(
        &self,
        view: &View,
        path: &TreePath,
    ) -> Result<(TreeId, agentiso_store::Lease), VfsError> {
        let (_, file) = view.file(path)?;
        let session = self.store.begin()?;
        let mut builder = agentiso_store::Builder::new(crate::vault::fresh_meta(0o700));
        builder.add(builder.root(), b"file", Node::File(agentiso_store::File { link: None, ..file }))?;
        let tree = builder.finish(&session)?;
        let lease = session.commit(&[agentiso_store::Root::Tree(tree)])?;
        Ok((tree, lease))
    }

    /// The tree without what is deeper.
    fn limited(
        &self,
        tree: TreeId,
        max_depth: Option<usize>,
    ) -> Result<(TreeId, Option<agentiso_store::Lease>), VfsError> {
        let Some(depth) = max_depth else { return Ok((tree, None)) };
        let mut edits = std::collections::BTreeMap::new();
        agentiso_store::walk(&self.store, tree, |path, _| {
            if path.depth() == depth + 1 {
                edits.insert(path.clone(), agentiso_store::Edit::Remove);
            }
            Ok(())
        })?;
        let session = self.store.begin()?;
        let limited = agentiso_store::edit(&session, tree, edits)?;
        let lease = session.commit(&[agentiso_store::Root::Tree(limited)])?;
        Ok((limited, Some(lease)))
    }
}

/// A free name in the same directory.
fn beside(host: &Path) -> Result<PathBuf, VfsError> {
    let name = host.file_name().ok_or_else(|| {
        let shown = host.display().to_string().escape_debug().to_string();
        VfsError::invalid(shown, "it has no name of its own")
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".export-{}", uuid::Uuid::new_v4().simple()));
    Ok(host.with_file_name(hidden))
}
