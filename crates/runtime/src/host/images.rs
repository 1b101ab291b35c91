//! The images of an installation as a part of the host port.

use std::path::Path;
use std::sync::Arc;

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::ports::host::{ImageHost, ImageRequest, ImageView, OpenArchive, RecipeView};
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, ImageName, WorkspaceId};
use agentiso_images::store::ImageMeta;
use agentiso_images::{default_image_name, recipes};
use async_trait::async_trait;

use super::archives::Archive;
use crate::workspaces::Workspaces;

#[async_trait]
impl ImageHost for Workspaces {
    async fn image(&self, name: &ImageName) -> Result<ImageView, Failure> {
        Ok(image_view(self.installation.image(name)?.meta))
    }

    async fn images(&self) -> Result<Vec<ImageView>, Failure> {
        let images = in_place(|| Ok::<_, Failure>(self.installation.images()?.list()?))?;
        Ok(images.into_iter().map(|image| image_view(image.meta)).collect())
    }

    fn recipes(&self) -> Vec<RecipeView> {
        let recipe =
            |(name, summary): (&str, &str)| RecipeView { name: name.to_owned(), summary: summary.to_owned() };
        recipes().map(recipe).collect()
    }

    async fn make_image(
        &self,
        request: &ImageRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure> {
        let ImageRequest { name, origin, replace, login } = request;
        let name = name.clone().map_or_else(|| default_image_name(origin), Ok)?;
        let made = self.installation.make_image(&name, origin, *replace, *login, progress).await?;
        Ok(image_view(made.meta))
    }

    async fn commit_image(
        &self,
        workspace: WorkspaceId,
        name: &ImageName,
        replace: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure> {
        Ok(image_view(Self::commit_image(self, workspace, name, replace, progress).await?.meta))
    }

    async fn remove_image(&self, name: &ImageName) -> Result<(), Failure> {
        let (installation, name) = (self.installation.clone(), name.clone());
        off_thread(move || installation.remove_images(&[name])).await
    }

    async fn open_archive(&self, path: &Path, origin: &str) -> Result<Box<dyn OpenArchive>, Failure> {
        let archive = Self::open_archive(self, path, origin).await?;
        Ok(Box::new(Archive::new(self.clone(), archive)))
    }
}

pub(super) fn image_view(meta: ImageMeta) -> ImageView {
    ImageView {
        name: meta.name,
        source_kind: meta.source.kind,
        source: meta.source.reference,
        created: meta.created,
        digest: meta.digest,
        file_system_bytes: meta.fs_bytes,
        content_bytes: meta.content_bytes,
        files: meta.entries,
        defaults: meta.defaults.unwrap_or_default(),
    }
}
