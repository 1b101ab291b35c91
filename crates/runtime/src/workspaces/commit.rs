//! Making an image of a workspace.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName, WorkspaceId};
use agentiso_images::store::{Image, ImageSource, SourceKind};

use super::{Point, Workspaces};
use crate::disk_tree::DiskTree;

impl Workspaces {
    /// Makes an image of a workspace's files as they are now, running or stopped. On failure, or when dropped half way,
    /// there is none; the workspace goes on either way.
    pub async fn commit_image(
        &self,
        workspace: WorkspaceId,
        name: &ImageName,
        replace: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Image, Failure> {
        let installation = &self.installation;
        let pending = installation.begin_image(name, replace)?;
        let workspace = self.meta.read(|read| read.workspace(workspace))?;
        let view = self.view_to_keep(Point::Now(workspace.id)).await?;
        let fs_bytes = view.size();
        // An image that is gone had nothing to say about how it is run.
        let image = installation.images()?.get(&workspace.image).ok();
        let source =
            ImageSource { kind: SourceKind::Workspace, reference: format!("workspace {}", workspace.name) };
        let tree = DiskTree { view, source, defaults: image.and_then(|image| image.meta.defaults) };
        installation.finish_image(pending, Box::new(tree), fs_bytes, replace, progress).await
    }

    /// The disk at a point, found in a task of its own: a caller that goes away leaves no machine standing still.
    pub(super) async fn view_to_keep(
        &self,
        point: Point,
    ) -> Result<Box<dyn agentiso_core::ports::DiskView>, Failure> {
        let workspaces = self.clone();
        let looking = tokio::spawn(async move { workspaces.view_of(point).await });
        looking.await.map_err(|error| Failure::new(Code::Internal, format!("reading the disk: {error}")))?
    }
}
