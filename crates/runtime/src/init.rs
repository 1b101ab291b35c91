//! `agentiso init`: preparing configuration, kernel, image and template.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use agentiso_blocking::in_place;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName, WorkspaceId};
use agentiso_images::debian::{self, DebianError, Recipe};
use agentiso_images::store::Image;
use agentiso_images::tools::Tool;
use agentiso_vmm::Acceleration;
use serde::Serialize;
use uuid::Uuid;

use crate::{Installation, StartRequest, Tier};
use agentiso_config::{Config, with_keys};
use agentiso_core::ports::host::ImageOrigin;

/// The result of `init`.
#[derive(Debug, Serialize)]
pub struct Prepared {
    /// The data directory.
    pub home: PathBuf,
    /// The configuration file.
    pub config: PathBuf,
    /// The guest kernel.
    pub kernel: PathBuf,
    /// QEMU's version.
    pub qemu: String,
    /// How guests run, and why.
    pub acceleration: Acceleration,
    /// The image.
    pub image: ImageName,
    /// Whether machines start from it unless another one is named.
    pub is_default: bool,
    /// What a first machine was started from.
    pub tier: Tier,
}

impl Installation {
    /// Prepares configuration, kernel, image and template. What is there already is left as it is.
    pub async fn init(&self, image: &ImageName, progress: &Arc<dyn Progress>) -> Result<Prepared, Failure> {
        progress.step("Finding QEMU", None);
        let host = self.host()?;
        in_place(|| self.require_tools(image))?;
        progress.done(&format!("{} at {}", host.qemu.version, host.qemu.path.display()));
        // After the check that the image exists or can be built, because it may become the default.
        let written = in_place(|| self.write_config(image, progress))?;
        let kernel = self.prepare_kernel(progress).await?;
        progress.step("Finding out how guests run here", None);
        let acceleration = self.acceleration(&host, &kernel).await;
        progress.done(&format!("{}: {}", acceleration.accel, acceleration.reason));
        self.have_image(image, progress).await?;
        let mut config = self.config.clone();
        config.suit(crate::installation::known(acceleration.accel));
        let resources = config.defaults.resources();
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let request = StartRequest { id, image: image.clone(), resources, cold: false };
        let running = self.start(&request, progress).await?;
        let tier = running.tier;
        running.destroy().await;
        Ok(Prepared {
            home: self.paths.home.clone(),
            config: self.paths.config_file.clone(),
            kernel: kernel.kernel,
            qemu: host.qemu.version,
            acceleration,
            image: image.clone(),
            is_default: written || self.config.defaults.image == image.as_str(),
            tier,
        })
    }

    /// Writes a commented configuration file in which nothing is set, except the default image if it is not the usual
    /// one. An existing file is not changed. Returns whether a file was written.
    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn write_config(&self, image: &ImageName, progress: &Arc<dyn Progress>) -> Result<bool, Failure> {
        let path = &self.paths.config_file;
        progress.step("Configuration", None);
        let write = || {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir)?;
            }
            OpenOptions::new()
                .create_new(true)
                .write(true)
                .open(path)?
                .write_all(new_config(image).as_bytes())
        };
        match write() {
            Ok(()) => {
                progress.done(&format!("written to {}", path.display()));
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                progress.done(&format!("{} is there", path.display()));
                Ok(false)
            }
            Err(error) => Err(self.io(&format!("write {}", path.display()), error)),
        }
    }

    /// Fails if a program is missing that will be needed, before anything is downloaded.
    fn require_tools(&self, image: &ImageName) -> Result<(), Failure> {
        let builds = self.find_image_or_recipe(image)?.is_none();
        let tools = ["mke2fs", "e2fsck", "resize2fs"].map(|name| Tool::find(name, "e2fsprogs"));
        let mut missing: Vec<Failure> =
            tools.into_iter().filter_map(|tool| Some(tool.err()?.into())).collect();
        if builds {
            let mmdebstrap = Tool::find("mmdebstrap", "mmdebstrap").map_err(DebianError::from);
            missing.extend(mmdebstrap.and_then(|_| debian::mode()).err().map(Failure::from));
        }
        all_of(missing)
    }

    async fn have_image(&self, image: &ImageName, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        match self.find_image_or_recipe(image)? {
            Some(found) => {
                progress.step(&format!("Image {image}"), None);
                progress.done(&format!("{} files", found.meta.entries));
                Ok(())
            }
            None => {
                let origin = ImageOrigin::Recipe(image.to_string());
                self.make_image(image, &origin, false, true, progress).await.map(drop)
            }
        }
    }

    /// The image; `None` if it does not exist and is the name of a recipe. Anything else is an error.
    fn find_image_or_recipe(&self, image: &ImageName) -> Result<Option<Image>, Failure> {
        match self.image(image) {
            Ok(found) => Ok(Some(found)),
            Err(failure) if failure.code() == Code::ImageNotFound && is_recipe(image) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

fn is_recipe(image: &ImageName) -> bool {
    image.as_str().parse::<Recipe>().is_ok()
}

/// The configuration of a new installation whose default is this image.
fn new_config(image: &ImageName) -> String {
    let commented = Config::commented();
    match image.as_str() == Config::default().defaults.image {
        true => commented,
        false => with_keys(&commented, "defaults", &[("image", image.as_str())]),
    }
}

/// Combines several failures into one, so that everything missing is reported at once.
fn all_of(failures: Vec<Failure>) -> Result<(), Failure> {
    let Some(first) = failures.first() else { return Ok(()) };
    let said = |words: Vec<&str>| {
        let mut words = words;
        words.dedup();
        words.join("; ")
    };
    let message = said(failures.iter().map(Failure::message).collect());
    let remedy = said(failures.iter().filter_map(Failure::remedy).collect());
    Err(Failure::new(first.code(), message).with_remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_a_new_installation_is_its_default() {
        let image = |name: &str| {
            let text = new_config(&name.parse().unwrap());
            agentiso_config::parse(&text, std::path::Path::new("c")).unwrap().defaults.image
        };
        assert_eq!(image("debian-slim"), "debian-slim");
        assert_eq!(new_config(&"debian".parse().unwrap()), Config::commented());
    }

    #[test]
    fn all_that_is_missing_is_told_at_once_and_each_remedy_once() {
        let missing = |tool: &str| {
            Failure::new(Code::ToolMissing, format!("the program {tool} is not installed"))
                .with_remedy("install e2fsprogs")
        };
        assert!(all_of(Vec::new()).is_ok());
        let failure = all_of(vec![missing("mke2fs"), missing("e2fsck")]).unwrap_err();
        assert_eq!(
            failure.message(),
            "the program mke2fs is not installed; the program e2fsck is not installed"
        );
        assert_eq!(failure.remedy(), Some("install e2fsprogs"));
    }
}
