//! Imports from the host.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentiso_store::{
    File, ImportOptions, Lease, Meta, Node, Notice, Root, TarLimits, Time, TreeId, TreePath,
    import_directory, import_git, read_tar, store_stream,
};

use super::graft::graft;
use crate::commit::{Begun, Proposal, with_annotations};
use crate::model::{Changed, Note, Totals};
use crate::places::totals_of;
use crate::{Vaults, VfsError};

/// What an import does with a path that exists.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum ImportMode {
    /// The path must not exist. An empty root counts as not existing.
    New,
    /// Directories get everything of both sides; of two things with one name, the imported one stays.
    #[default]
    Merge,
    /// What is there is replaced as a whole.
    Replace,
}

/// How something of the host is imported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportRequest {
    /// What happens to a path that exists.
    pub mode: ImportMode,
    /// Levels of directories that are imported; 1 for the files of the directory itself.
    pub max_depth: Option<usize>,
    /// Leave out what is mounted below the directory.
    pub one_file_system: bool,
    /// Report what may not be read instead of failing.
    pub skip_unreadable: bool,
}

/// What was imported.
#[derive(Clone, Debug)]
pub struct ImportDone {
    /// The change of the vault.
    pub changed: Changed,
    /// How much was imported.
    pub totals: Totals,
    /// What was left out, or may be inconsistent; at most 10,000.
    pub notices: Vec<Notice>,
    /// Paths of an archive that a tree cannot hold.
    pub skipped: Vec<TreePath>,
    /// The commit that was imported.
    pub commit: Option<String>,
}

/// What is put into a vault.
struct Incoming {
    node: Node,
    lease: Lease,
    notices: Vec<Notice>,
    skipped: Vec<TreePath>,
    commit: Option<String>,
}

impl Vaults {
    /// Imports a file or a directory of the host. Symbolic links are stored, never followed.
    pub fn import(
        &self,
        vault: &str,
        host: &Path,
        at: &TreePath,
        request: &ImportRequest,
    ) -> Result<ImportDone, VfsError> {
        // Before a large directory is read.
        self.records.read(|read| read.vault(vault))?;
        let metadata = fs::symlink_metadata(host).map_err(VfsError::io("read", host))?;
        let incoming = if metadata.is_dir() {
            self.read_directory(host, request)?
        } else if metadata.is_file() {
            self.read_file(host)?
        } else {
            let shown = host.display().to_string().escape_debug().to_string();
            return Err(VfsError::invalid(shown, "it is neither a file nor a directory"));
        };
        self.take(vault, at, request.mode, incoming)
    }

    /// Imports a tar archive that is not compressed.
    pub fn import_tar(
        &self,
        vault: &str,
        archive: impl Read,
        at: &TreePath,
        mode: ImportMode,
    ) -> Result<ImportDone, VfsError> {
        let session = self.store.begin()?;
        let read = read_tar(&session, archive, TarLimits::default())?;
        let lease = session.commit(&[Root::Tree(read.tree)])?;
        let node = Node::Directory(read.tree);
        let incoming = Incoming { node, lease, notices: Vec::new(), skipped: read.skipped, commit: None };
        self.take(vault, at, mode, incoming)
    }

    /// Imports the files of a commit.
    pub fn import_git(
        &self,
        vault: &str,
        repository: &Path,
        revision: &str,
        at: &TreePath,
        mode: ImportMode,
    ) -> Result<ImportDone, VfsError> {
        let session = self.store.begin()?;
        let read = import_git(&session, repository, revision)?;
        let lease = session.commit(&[Root::Tree(read.tree)])?;
        let node = Node::Directory(read.tree);
        let commit = Some(read.commit);
        let incoming = Incoming { node, lease, notices: Vec::new(), skipped: Vec::new(), commit };
        self.take(vault, at, mode, incoming)
    }

    fn read_directory(&self, host: &Path, request: &ImportRequest) -> Result<Incoming, VfsError> {
        let session = self.store.begin()?;
        let is_below = |path: &TreePath| request.max_depth.is_some_and(|depth| path.depth() > depth);
        let options = ImportOptions {
            one_file_system: request.one_file_system,
            skip_unreadable: request.skip_unreadable,
            skip: Some(&is_below),
            ..ImportOptions::default()
        };
        let imported = import_directory(&session, host, &options)?;
        let lease = session.commit(&[Root::Tree(imported.tree)])?;
        Ok(Incoming {
            node: Node::Directory(imported.tree),
            lease,
            notices: imported.report.notices,
            skipped: Vec::new(),
            commit: None,
        })
    }

    fn read_file(&self, host: &Path) -> Result<Incoming, VfsError> {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let opened =
            rustix::fs::open(host, flags, rustix::fs::Mode::empty()).map_err(VfsError::os("open", host))?;
        let file = fs::File::from(opened);
        let metadata = file.metadata().map_err(VfsError::io("read", host))?;
        if !metadata.is_file() {
            let shown = host.display().to_string().escape_debug().to_string();
            return Err(VfsError::invalid(shown, "it is not a regular file any more"));
        }
        let session = self.store.begin()?;
        let (size, content) = store_stream(&session, file)?;
        let lease = session.commit(&[Root::Content(content)])?;
        let meta = Meta {
            mode: (metadata.mode() & 0o7777) as u16,
            uid: metadata.uid(),
            gid: metadata.gid(),
            mtime: Time {
                seconds: metadata.mtime(),
                nanos: metadata.mtime_nsec().clamp(0, 999_999_999) as u32,
            },
            attributes: None,
        };
        let node = Node::File(File { meta, size, content, link: None });
        Ok(Incoming { node, lease, notices: Vec::new(), skipped: Vec::new(), commit: None })
    }

    fn take(
        &self,
        vault: &str,
        at: &TreePath,
        mode: ImportMode,
        incoming: Incoming,
    ) -> Result<ImportDone, VfsError> {
        let Incoming { node, lease, notices, skipped, commit } = incoming;
        let mut totals = totals_of(&self.store, &node)?;
        totals.directories = totals.directories.saturating_sub(1);
        let edit = |session: &agentiso_store::Session, begun: &Begun| {
            let tree: TreeId = graft(session, begun.state.tree, at, &node, mode)?;
            let mut annotations = (*begun.state.annotations).clone();
            let exists = |path: &TreePath| Ok(crate::checkpoint::find(session, tree, path)?.is_some());
            annotations.retain(exists)?;
            Ok(Proposal::new(with_annotations(tree, annotations)))
        };
        let (changed, ()) = self.commit(vault, &Note::new("import").at(at), edit, |_| Ok(()))?;
        drop(lease);
        Ok(ImportDone { changed, totals, notices, skipped, commit })
    }
}
