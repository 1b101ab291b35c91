//! Making an image from a workspace.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName, WorkspaceId};
use agentiso_images::store::{Image, ImageSource, SourceKind};

use super::{Point, Workspaces};
use crate::disk_tree::DiskTree;

impl Workspaces {
    /// Makes an image from the current files of a workspace, running or stopped. On failure, or when dropped, there is no
    /// image.
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
        // The workspace's image may have been removed; then the new image has no defaults.
        let image = installation.image_if_known(&workspace.image)?;
        let source =
            ImageSource { kind: SourceKind::Workspace, reference: format!("workspace {}", workspace.name) };
        let tree = DiskTree { view, source, defaults: image.and_then(|image| image.meta.defaults) };
        installation.finish_image(pending, Box::new(tree), fs_bytes, replace, progress).await
    }

    /// The disk at a point. Runs in its own task, so that a cancelled caller leaves no machine paused.
    pub(super) async fn view_to_keep(
        &self,
        point: Point,
    ) -> Result<Box<dyn agentiso_core::ports::DiskView>, Failure> {
        let workspaces = self.clone();
        let looking = tokio::spawn(async move { workspaces.view_of(point).await });
        looking.await.map_err(|error| Failure::new(Code::Internal, format!("reading the disk: {error}")))?
    }
}
