//! Workspaces in files. An archive of a fake host is JSON, and no other host reads it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use agentiso_core::action::ImageSource;
use agentiso_core::ports::host::{ArchivedWorkspace, Exported, ImageView, OpenArchive, Point};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName, Resources, WorkspaceId, WorkspaceName};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::state::{FakeHost, HostCall};
use crate::fake::tree::{Content, Tree};

#[derive(Deserialize, Serialize)]
struct Written {
    name: WorkspaceName,
    resources: Resources,
    labels: BTreeMap<String, String>,
    nodes: Vec<(Vec<u8>, u32, WrittenContent)>,
}

#[derive(Deserialize, Serialize)]
enum WrittenContent {
    Directory,
    File(Vec<u8>),
    Symlink(Vec<u8>),
}

impl FakeHost {
    pub(super) fn write_archive(
        &self,
        id: WorkspaceId,
        labels: BTreeMap<String, String>,
        max_bytes: u64,
        mut out: Box<dyn Write + Send>,
    ) -> Result<Exported, Failure> {
        let workspace = self.workspace(id)?;
        let files = self.files_at(Point::Now(id))?;
        let node = |(path, node): (&[u8], &crate::fake::tree::Node)| {
            let content = match &node.content {
                Content::Directory => WrittenContent::Directory,
                Content::File(bytes) => WrittenContent::File(bytes.clone()),
                Content::Symlink(target) => WrittenContent::Symlink(target.clone()),
            };
            (path.to_vec(), node.mode, content)
        };
        let nodes: Vec<_> = files.under(b"/").map(node).collect();
        let count = nodes.len() as u64;
        let written = Written { name: workspace.name, resources: workspace.resources, labels, nodes };
        let bytes =
            serde_json::to_vec(&written).map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        if bytes.len() as u64 > max_bytes {
            return Err(Failure::new(
                Code::FileTooLarge,
                format!("the archive has more than {max_bytes} bytes"),
            ));
        }
        out.write_all(&bytes).and_then(|()| out.flush()).map_err(|error| {
            Failure::new(Code::of_io(&error), format!("could not write the archive: {error}"))
        })?;
        Ok(Exported { bytes: bytes.len() as u64, files: count })
    }
}

pub(super) struct Archive {
    host: FakeHost,
    workspace: ArchivedWorkspace,
    files: Tree,
}

impl Archive {
    pub fn open(host: FakeHost, path: &Path, origin: &str) -> Result<Self, Failure> {
        let bytes = std::fs::read(path).map_err(|error| {
            Failure::new(Code::of_io(&error), format!("could not read {origin}: {error}"))
        })?;
        let Written { name, resources, labels, nodes } = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::new(Code::ImageRejected, format!("{origin} is not an archive: {error}"))
        })?;
        let mut files = Tree::empty();
        for (path, mode, content) in nodes {
            let content = match content {
                WrittenContent::Directory => Content::Directory,
                WrittenContent::File(bytes) => Content::File(bytes),
                WrittenContent::Symlink(target) => Content::Symlink(target),
            };
            files.put(&path, content, mode);
        }
        Ok(Self { host, workspace: ArchivedWorkspace { name, resources, labels }, files })
    }
}

#[async_trait]
impl OpenArchive for Archive {
    fn workspace(&self) -> &ArchivedWorkspace {
        &self.workspace
    }

    async fn into_image(
        self: Box<Self>,
        name: &ImageName,
        _file_system_bytes: u64,
        _progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure> {
        self.host.pass(HostCall::IntoImage).await?;
        let source = (ImageSource::Workspace, format!("workspace {}", self.workspace.name));
        self.host.keep_image(name, false, source, self.files)
    }
}
