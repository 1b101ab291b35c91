//! Images.

use std::path::PathBuf;
use std::time::Instant;

use agentiso_core::action::{
    ImageBrief, ImageBuild, ImageCommit, ImageDetails, ImageImport, ImageInfo, ImageList, ImageListed,
    ImageMade, ImagePull, ImageRecipe, ImageRemove, ImageRemoved,
};
use agentiso_core::ports::host::{ImageOrigin, ImageRequest, ImageView, RecipeView};
use agentiso_core::ports::records::Workspace;
use agentiso_core::{Code, Failure, ImageAccess, ImageName};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::act::Context;
use crate::views::{shown, took_ms};
use crate::{Access, Perform};

/// How many images are built at a time: each needs a machine, the network or a core for minutes.
static BUILDS: Semaphore = Semaphore::const_new(2);

impl Context {
    /// Refuses what the operator does not allow agents to do with images.
    pub(super) fn require_image_access(&self, needed: ImageAccess) -> Result<(), Failure> {
        if self.caller.is_operator() || self.engine.settings.image_access >= needed {
            return Ok(());
        }
        let (message, value) = match needed {
            ImageAccess::Manage => ("only the operator may add, replace or remove images", "manage"),
            _ => ("agents may not list images here", "list"),
        };
        Err(Failure::new(Code::NotPermitted, message).with_remedy(format!(
            "ask the operator; agents = \"{value}\" in [images] of the configuration allows it"
        )))
    }

    /// The workspace to copy files from. A suspended one is refused: some of its files may be in memory only.
    pub(super) async fn workspace_to_copy(&self) -> Result<&Workspace, Failure> {
        let workspace = self.workspace()?;
        if self.engine.records.settings(workspace.id).await?.suspended.is_none() {
            return Ok(workspace);
        }
        let message = format!(
            "workspace {} is suspended: some of its files may still be in its memory",
            workspace.name
        );
        Err(Failure::new(Code::WorkspaceNotRunning, message)
            .with_remedy("workspace_resume resumes it; then try again"))
    }

    /// Removes an image that no workspace needs.
    pub(super) async fn remove_image(&self, name: ImageName) -> Result<(), Failure> {
        self.engine.host.remove_image(&name).await
    }

    async fn make_image(
        &self,
        origin: ImageOrigin,
        name: Option<&str>,
        replace: bool,
    ) -> Result<ImageMade, Failure> {
        let name = name.map(str::parse).transpose()?;
        let began = Instant::now();
        let _permit = build_permit().await?;
        // An agent must not pull images with the operator's credentials.
        let login = self.caller.is_operator();
        let request = ImageRequest { name, origin, replace, login };
        let made = self.engine.host.make_image(&request, &self.progress).await?;
        Ok(shown_made(&made, began))
    }
}

pub(super) async fn build_permit() -> Result<SemaphorePermit<'static>, Failure> {
    BUILDS.acquire().await.map_err(|error| Failure::new(Code::Internal, error.to_string()))
}

fn shown_made(image: &ImageView, began: Instant) -> ImageMade {
    ImageMade {
        name: image.name.to_string(),
        source: image.source.clone(),
        content_bytes: image.content_bytes,
        files: image.files,
        took_ms: took_ms(began),
    }
}

impl Perform for ImageList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<ImageListed, Failure> {
        context.require_image_access(ImageAccess::List)?;
        let engine = &context.engine;
        let images = engine.host.images().await?;
        let briefs = images.into_iter().map(|image| ImageBrief {
            name: image.name.to_string(),
            source: image.source,
            created_at: shown(image.created),
            content_bytes: image.content_bytes,
            files: image.files,
        });
        let recipe = |recipe: RecipeView| ImageRecipe { name: recipe.name, summary: recipe.summary };
        Ok(ImageListed {
            default_image: engine.settings.default_image.clone(),
            images: briefs.collect(),
            recipes: engine.host.recipes().into_iter().map(recipe).collect(),
            may_change: context.require_image_access(ImageAccess::Manage).is_ok(),
        })
    }
}

impl Perform for ImageInfo {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<ImageDetails, Failure> {
        context.require_image_access(ImageAccess::List)?;
        let engine = &context.engine;
        let name: ImageName = self.name.parse()?;
        let image = engine.host.image(&name).await?;
        let mut workspaces = engine.briefs(Some(&context.caller)).await?;
        workspaces
            .retain(|one| one.base_image == name.as_str() && (one.owned || context.caller.is_operator()));
        let defaults = image.defaults;
        Ok(ImageDetails {
            name: image.name.to_string(),
            source_kind: image.source_kind,
            source: image.source,
            created_at: shown(image.created),
            content_bytes: image.content_bytes,
            files: image.files,
            file_system_bytes: image.file_system_bytes,
            digest: image.digest,
            env: defaults.env,
            workdir: defaults.workdir,
            user: defaults.user,
            command: defaults.cmd,
            workspaces: workspaces.into_iter().map(|one| one.name).collect(),
        })
    }
}

impl Perform for ImagePull {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<ImageMade, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        let origin = ImageOrigin::Reference(self.reference);
        context.make_image(origin, self.name.as_deref(), self.replace).await
    }

    fn changed(outcome: &ImageMade) -> Option<String> {
        Some(format!("pulled image {}", outcome.name))
    }
}

impl Perform for ImageImport {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<ImageMade, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        let source = context.host_source(&self.host_path)?;
        let path = PathBuf::from(&self.host_path);
        let origin = match source.path() == path {
            true => ImageOrigin::Path(path),
            false => ImageOrigin::Open { file: source.path().to_owned(), path },
        };
        let made = context.make_image(origin, self.name.as_deref(), self.replace).await;
        made.map_err(|failure| source.explained(failure, &self.host_path))
    }

    fn changed(outcome: &ImageMade) -> Option<String> {
        Some(format!("imported image {}", outcome.name))
    }
}

impl Perform for ImageBuild {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<ImageMade, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        context.make_image(ImageOrigin::Recipe(self.recipe), self.name.as_deref(), self.replace).await
    }

    fn changed(outcome: &ImageMade) -> Option<String> {
        Some(format!("built image {}", outcome.name))
    }
}

impl Perform for ImageCommit {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<ImageMade, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        let name: ImageName = self.name.parse()?;
        let (engine, workspace) = (&context.engine, context.workspace_to_copy().await?.id);
        let began = Instant::now();
        let _permit = build_permit().await?;
        let made = engine.host.commit_image(workspace, &name, self.replace, &context.progress).await?;
        Ok(shown_made(&made, began))
    }

    fn changed(outcome: &ImageMade) -> Option<String> {
        Some(format!("made image {}", outcome.name))
    }
}

impl Perform for ImageRemove {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<ImageRemoved, Failure> {
        context.require_image_access(ImageAccess::Manage)?;
        let name: ImageName = self.name.parse()?;
        context.remove_image(name.clone()).await?;
        Ok(ImageRemoved { name: name.to_string(), removed: true })
    }

    fn changed(outcome: &ImageRemoved) -> Option<String> {
        Some(format!("removed image {}", outcome.name))
    }
}
