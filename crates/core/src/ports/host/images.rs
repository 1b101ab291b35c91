//! Images that workspaces start from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::action::ImageSource;
use crate::progress::Progress;
use crate::{Failure, ImageName, Resources, WorkspaceId, WorkspaceName};

/// The defaults that an OCI image defines for running it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct OciDefaults {
    /// Environment, `NAME=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// User, `name[:group]` or numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The command, entry point included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cmd: Vec<String>,
}

/// Where an image comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ImageOrigin {
    /// A recipe of our own.
    Recipe(String),
    /// A tarball, a directory, or an OCI or docker archive.
    Path(PathBuf),
    /// An archive that is open already, and the path it was found at.
    Open {
        /// Where it can be read.
        file: PathBuf,
        /// Where it was found.
        path: PathBuf,
    },
    /// A registry.
    Reference(String),
}

/// An image to make.
#[derive(Clone, Debug)]
pub struct ImageRequest {
    /// Its name; one is derived from the origin if absent.
    pub name: Option<ImageName>,
    /// Where it comes from.
    pub origin: ImageOrigin,
    /// Replaces an image of the same name.
    pub replace: bool,
    /// Whether the user's own logins for registries are used.
    pub login: bool,
}

/// The details of an image.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImageView {
    /// Its name.
    pub name: ImageName,
    /// The kind of source it came from.
    pub source_kind: ImageSource,
    /// The recipe, path or reference it came from.
    pub source: String,
    /// Creation time.
    pub created: Timestamp,
    /// The digest of the OCI manifest it came from.
    pub digest: Option<String>,
    /// The size of its file system.
    pub file_system_bytes: u64,
    /// The size of its files.
    pub content_bytes: u64,
    /// The number of files, directories and links.
    pub files: u64,
    /// Its defaults for running commands.
    pub defaults: OciDefaults,
}

/// A recipe that images can be built from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecipeView {
    /// Its name.
    pub name: String,
    /// What its images contain.
    pub summary: String,
}

/// The workspace that an archive describes. Its sizes are not checked against any limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ArchivedWorkspace {
    /// Its name.
    pub name: WorkspaceName,
    /// Its size.
    pub resources: Resources,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// An archive of a workspace that is open and was found to be complete.
#[async_trait]
pub trait OpenArchive: Send {
    /// The workspace in it.
    fn workspace(&self) -> &ArchivedWorkspace;

    /// Makes an image of its files. On failure, or when the future is dropped, nothing of it is left.
    async fn into_image(
        self: Box<Self>,
        name: &ImageName,
        file_system_bytes: u64,
        progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure>;
}

/// The images of a host.
#[async_trait]
pub trait ImageHost: Send + Sync {
    /// An image; fails with `image_not_found` if there is none of that name.
    async fn image(&self, name: &ImageName) -> Result<ImageView, Failure>;

    /// All images.
    async fn images(&self) -> Result<Vec<ImageView>, Failure>;

    /// The recipes images can be built from.
    fn recipes(&self) -> Vec<RecipeView>;

    /// Makes an image. On failure, or when the future is dropped, nothing of it is left.
    async fn make_image(
        &self,
        request: &ImageRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure>;

    /// Makes an image of a workspace's files as they are now. The workspace keeps running.
    async fn commit_image(
        &self,
        workspace: WorkspaceId,
        name: &ImageName,
        replace: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<ImageView, Failure>;

    /// Removes an image; fails with `image_in_use` if a workspace needs it.
    async fn remove_image(&self, name: &ImageName) -> Result<(), Failure>;

    /// Opens an archive of a workspace and checks that it is complete. Errors call it `origin`.
    async fn open_archive(&self, path: &Path, origin: &str) -> Result<Box<dyn OpenArchive>, Failure>;
}
