//! Archives of workspaces as a part of the host port.

use std::sync::Arc;

use agentiso_core::ports::host::{ArchivedWorkspace, ImageView, OpenArchive};
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, ImageName, Resources};
use agentiso_images::archive::WorkspaceArchive;
use async_trait::async_trait;

use super::images::image_view;
use crate::workspaces::Workspaces;

/// An open archive, and where its image will be.
pub(super) struct Archive {
    host: Workspaces,
    archive: WorkspaceArchive,
    workspace: ArchivedWorkspace,
}

impl Archive {
    pub fn new(host: Workspaces, archive: WorkspaceArchive) -> Self {
        let about = &archive.description;
        let workspace = ArchivedWorkspace {
            name: about.name.clone(),
            resources: Resources { vcpus: about.vcpus, memory_mb: about.memory_mb, disk_gb: about.disk_gb },
            labels: about.labels.clone(),
        };
        Self { host, archive, workspace }
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
        file_system_bytes: u64,
        progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure> {
        let Self { host, archive, .. } = *self;
        Ok(image_view(host.image_of_archive(archive, name, file_system_bytes, progress).await?.meta))
    }
}
