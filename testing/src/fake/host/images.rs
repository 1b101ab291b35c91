//! Images.

use std::path::Path;
use std::sync::Arc;

use agentiso_core::action::ImageSource;
use agentiso_core::ports::host::{
    ImageHost, ImageOrigin, ImageRequest, ImageView, OpenArchive, Point, RecipeView,
};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName, WorkspaceId};
use async_trait::async_trait;

use super::archives::Archive;
use super::state::{FakeHost, HostCall, StoredImage, now};
use crate::fake::machine::locked;
use crate::fake::tree::Tree;

impl FakeHost {
    pub(super) fn stored_image(&self, name: &ImageName) -> Result<StoredImage, Failure> {
        let image = locked(&self.inner.images).get(name).cloned();
        image.ok_or_else(|| Failure::new(Code::ImageNotFound, format!("no image is called {name}")))
    }

    pub(super) fn keep_image(
        &self,
        name: &ImageName,
        replace: bool,
        source: (ImageSource, String),
        files: Tree,
    ) -> Result<ImageView, Failure> {
        let mut images = locked(&self.inner.images);
        if images.contains_key(name) && !replace {
            return Err(Failure::new(Code::ImageExists, format!("an image is called {name} already")));
        }
        let view = ImageView {
            name: name.clone(),
            source_kind: source.0,
            source: source.1,
            created: now(),
            digest: None,
            file_system_bytes: 1 << 30,
            content_bytes: files.bytes(),
            files: files.under(b"/").count() as u64,
            defaults: Default::default(),
        };
        images.insert(name.clone(), StoredImage { view: view.clone(), files });
        Ok(view)
    }
}

#[async_trait]
impl ImageHost for FakeHost {
    async fn image(&self, name: &ImageName) -> Result<ImageView, Failure> {
        self.pass(HostCall::Image).await?;
        Ok(self.stored_image(name)?.view)
    }

    async fn images(&self) -> Result<Vec<ImageView>, Failure> {
        self.pass(HostCall::Images).await?;
        Ok(locked(&self.inner.images).values().map(|image| image.view.clone()).collect())
    }

    fn recipes(&self) -> Vec<RecipeView> {
        vec![RecipeView { name: "debian".to_owned(), summary: "a small system".to_owned() }]
    }

    async fn make_image(
        &self,
        request: &ImageRequest,
        _progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure> {
        self.pass(HostCall::MakeImage).await?;
        let source = match &request.origin {
            ImageOrigin::Recipe(name) if self.recipes().iter().any(|recipe| recipe.name == *name) => {
                (ImageSource::Debian, name.clone())
            }
            ImageOrigin::Recipe(name) => {
                return Err(Failure::new(Code::InvalidArgument, format!("no recipe is called {name}")));
            }
            ImageOrigin::Path(path) | ImageOrigin::Open { path, .. } => {
                (ImageSource::Tar, path.display().to_string())
            }
            ImageOrigin::Reference(reference) => (ImageSource::Registry, reference.clone()),
        };
        let name = request.name.clone().map_or_else(|| "made".parse(), Ok)?;
        self.keep_image(&name, request.replace, source, Tree::of_image())
    }

    async fn commit_image(
        &self,
        workspace: WorkspaceId,
        name: &ImageName,
        replace: bool,
        _progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure> {
        self.pass(HostCall::CommitImage).await?;
        let files = self.files_at(Point::Now(workspace))?;
        let source = (ImageSource::Workspace, format!("workspace {}", self.workspace(workspace)?.name));
        self.keep_image(name, replace, source, files)
    }

    async fn remove_image(&self, name: &ImageName) -> Result<(), Failure> {
        self.pass(HostCall::RemoveImage).await?;
        self.stored_image(name)?;
        let workspaces = self.inner.meta.read(|read| read.workspaces())?;
        if workspaces.iter().any(|workspace| workspace.image == *name) {
            return Err(Failure::new(Code::ImageInUse, format!("workspaces need the image {name}")));
        }
        locked(&self.inner.images).remove(name);
        Ok(())
    }

    async fn open_archive(&self, path: &Path, origin: &str) -> Result<Box<dyn OpenArchive>, Failure> {
        self.pass(HostCall::OpenArchive).await?;
        Ok(Box::new(Archive::open(self.clone(), path, origin)?))
    }
}
