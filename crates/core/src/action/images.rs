//! Images that workspaces start from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::about::{Outcome, action};
use super::forms::{AbsolutePath, RegistryReference, WorkspaceReference};
use super::values::ImageSource;
use crate::ImageName;

/// Lists images.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageList {}
action! { ImageList -> ImageListed {
    name: "image_list",
    title: "List images",
    subjects: [],
    routes: [Get "/v1/images"],
    tools: [],
    effect: Reads,
    flags: [idempotent],
    description: "Lists the images that workspaces can start from, the default one, and the recipes that images can \
                  be built from.",
}}

/// The images and recipes of the host.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageListed {
    /// The image of a workspace that names none.
    pub default_image: String,
    /// The images, by name.
    pub images: Vec<ImageBrief>,
    /// The recipes that images can be built from.
    pub recipes: Vec<ImageRecipe>,
    /// Whether the caller may pull, import, build, commit and remove images.
    pub may_change: bool,
}

/// An image in a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageBrief {
    /// Its name.
    pub name: String,
    /// Where it came from: a recipe, a path, a reference or a workspace.
    pub source: String,
    /// Creation time.
    pub created_at: String,
    /// Bytes of its files.
    pub content_bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
}

/// A recipe for an image.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageRecipe {
    /// Its name, which is also the usual name of its image.
    pub name: String,
    /// What the image contains.
    pub summary: String,
}

/// Shows an image.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageInfo {
    /// The image.
    #[schemars(with = "ImageName")]
    pub name: String,
}
action! { ImageInfo -> ImageDetails {
    name: "image_info",
    title: "Show an image",
    subjects: [],
    routes: [Get "/v1/images/{name}"],
    tools: [],
    effect: Reads,
    flags: [idempotent],
    description: "Shows where an image came from, how large it is, what it says about how it is run, and which of \
                  your workspaces started from it.",
}}

/// The details of an image.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageDetails {
    /// Its name.
    pub name: String,
    /// The kind of source it was made from.
    pub source_kind: ImageSource,
    /// The recipe, path, reference or workspace it was made from.
    pub source: String,
    /// Creation time.
    pub created_at: String,
    /// Bytes of its files.
    pub content_bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
    /// Size of its file system in bytes.
    pub file_system_bytes: u64,
    /// Digest of the manifest it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Environment that the image defines, as NAME=value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Working directory that the image defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// User that the image defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Command that the image defines. It is never run automatically.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Names of the caller's workspaces that started from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspaces: Vec<String>,
}

/// Pulls an image from a registry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImagePull {
    /// Reference: name, name:tag, registry/name:tag or name@digest.
    #[schemars(with = "RegistryReference")]
    pub reference: String,
    /// Name of the image; made from the reference if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ImageName>")]
    pub name: Option<String>,
    /// Replace an existing image of that name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}
action! { ImagePull -> ImageMade {
    name: "image_pull",
    title: "Pull an image",
    subjects: [],
    routes: [Post "/v1/images/pull"],
    tools: [],
    effect: Changes,
    rate: Create,
    flags: [open_world],
    description: "Pulls an OCI image for linux/amd64 from a registry and makes an image of it. Needs the operator's \
                  permission. A call that is cancelled leaves nothing.",
}}

/// Imports an image from an archive.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageImport {
    /// Absolute path of a tarball, or an OCI or docker archive, in the host's transfer directory.
    #[schemars(with = "AbsolutePath")]
    pub host_path: String,
    /// Name of the image; made from the file's name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ImageName>")]
    pub name: Option<String>,
    /// Replace an existing image of that name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}
action! { ImageImport -> ImageMade {
    name: "image_import",
    title: "Import an image",
    subjects: [],
    routes: [Post "/v1/images/import"],
    tools: [],
    effect: Changes,
    rate: Create,
    description: "Makes an image of a root file system in a tarball (gzip, xz, zstd or plain), or of an OCI or \
                  docker archive. Needs the operator's permission. A call that is cancelled leaves nothing.",
}}

/// Builds an image from packages.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageBuild {
    /// Recipe to build; list shows all.
    #[schemars(length(min = 1))]
    pub recipe: String,
    /// Name of the image; the recipe's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<ImageName>")]
    pub name: Option<String>,
    /// Replace an existing image of that name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}
action! { ImageBuild -> ImageMade {
    name: "image_build",
    title: "Build an image",
    subjects: [],
    routes: [Post "/v1/images/build"],
    tools: [],
    effect: Changes,
    rate: Create,
    flags: [open_world],
    description: "Builds an image from Debian packages, which the host downloads. Needs the operator's permission. A \
                  call that is cancelled leaves nothing.",
}}

/// Creates an image from the files of a workspace.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageCommit {
    /// Id or name.
    #[schemars(with = "WorkspaceReference")]
    pub workspace_id: String,
    /// Name of the image.
    #[schemars(with = "ImageName")]
    pub name: String,
    /// Replace an existing image of that name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}
action! { ImageCommit -> ImageMade {
    name: "image_commit",
    title: "Make an image of a workspace",
    subjects: [Workspace(workspace_id)],
    routes: [Post "/v1/images/commit"],
    tools: [],
    effect: Changes,
    rate: Create,
    description: "Makes an image of a workspace's files as they are now. A running workspace is paused \
                  briefly; memory, processes, variables and snapshots are not part of an image. Needs \
                  the operator's permission.",
}}

/// An image that was created.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageMade {
    /// Its name: base_image of workspace_create.
    pub name: String,
    /// The recipe, path, reference or workspace it was made from.
    pub source: String,
    /// Bytes of its files.
    pub content_bytes: u64,
    /// Number of files, directories and links.
    pub files: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

/// Removes an image.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ImageRemove {
    /// The image.
    #[schemars(with = "ImageName")]
    pub name: String,
}
action! { ImageRemove -> ImageRemoved {
    name: "image_remove",
    title: "Remove an image",
    subjects: [],
    routes: [Delete "/v1/images/{name}"],
    tools: [],
    effect: Destroys,
    description: "Removes an image. Refused while workspaces need it. Needs the operator's permission.",
}}

/// An image that was removed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImageRemoved {
    /// Its name.
    pub name: String,
    /// Always true: a failure is an error.
    pub removed: bool,
}

impl Outcome for ImageListed {
    fn text(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for image in &self.images {
            let default = if image.name == self.default_image { ", the default" } else { "" };
            let (size, files) = (image.content_bytes >> 20, image.files);
            lines
                .push(format!("{}: {size} MiB in {files} files, from {}{default}", image.name, image.source));
        }
        if lines.is_empty() {
            lines.push("no images".to_owned());
        }
        for recipe in &self.recipes {
            lines.push(format!("recipe {}: {}", recipe.name, recipe.summary));
        }
        if !self.may_change {
            lines.push("only the operator may add or remove images".to_owned());
        }
        lines.join("\n")
    }
}

impl Outcome for ImageDetails {
    fn text(&self) -> String {
        let mut text = format!(
            "image {}: {} MiB in {} files, file system {} MiB, made {} from {} ({})",
            self.name,
            self.content_bytes >> 20,
            self.files,
            self.file_system_bytes >> 20,
            self.created_at,
            self.source,
            self.source_kind
        );
        let mut add = |what: &str, value: &str| {
            if !value.is_empty() {
                text.push_str(&format!("\n{what}: {value}"));
            }
        };
        add("digest", self.digest.as_deref().unwrap_or_default());
        add("environment", &self.env.join(" "));
        add("working directory", self.workdir.as_deref().unwrap_or_default());
        add("user", self.user.as_deref().unwrap_or_default());
        add("command", &self.command.join(" "));
        add("workspaces", &self.workspaces.join(", "));
        text
    }
}

impl Outcome for ImageMade {
    fn text(&self) -> String {
        let (size, files, seconds) = (self.content_bytes >> 20, self.files, self.took_ms / 1000);
        format!("image {}: {size} MiB in {files} files, made from {} in {seconds} s", self.name, self.source)
    }
}

impl Outcome for ImageRemoved {
    fn text(&self) -> String {
        format!("image {} removed", self.name)
    }
}
