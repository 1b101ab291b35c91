//! Preparing everything in one go.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Failure, ImageName, WorkspaceId};
use agentiso_images::debian::Recipe;
use agentiso_vmm::Acceleration;
use serde::Serialize;
use uuid::Uuid;

use crate::config::Config;
use crate::image_ops::ImageOrigin;
use crate::{Installation, StartRequest, Tier};

/// What there is after `init`.
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
    /// What a first machine was started from.
    pub tier: Tier,
}

impl Installation {
    /// Prepares configuration, kernel, image and template. What is there already is left as it is.
    pub async fn init(&self, image: &ImageName, progress: &Arc<dyn Progress>) -> Result<Prepared, Failure> {
        self.write_config(progress)?;
        progress.step("Finding QEMU", None);
        let host = self.host()?;
        progress.done(&format!("{} at {}", host.qemu.version, host.qemu.path.display()));
        let kernel = self.prepare_kernel(progress).await?;
        progress.step("Finding out how guests run here", None);
        let acceleration = self.acceleration(&host, &kernel).await;
        progress.done(&format!("{}: {}", acceleration.accel, acceleration.reason));
        self.have_image(image, progress).await?;
        let resources = self.config.defaults.resources();
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
            tier,
        })
    }

    /// Writes a configuration file in which everything is explained and nothing is set.
    fn write_config(&self, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
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
                .write_all(Config::commented().as_bytes())
        };
        match write() {
            Ok(()) => progress.done(&format!("written to {}", path.display())),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                progress.done(&format!("{} is there", path.display()));
            }
            Err(error) => return Err(self.io(&format!("write {}", path.display()), error)),
        }
        Ok(())
    }

    async fn have_image(&self, image: &ImageName, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        match self.images()?.get(image) {
            Ok(found) => {
                progress.step(&format!("Image {image}"), None);
                progress.done(&format!("{} files", found.meta.entries));
                Ok(())
            }
            // Only recipes can be made from nothing.
            Err(_) if image.as_str().parse::<Recipe>().is_ok() => {
                let origin = ImageOrigin::Recipe(image.to_string());
                self.make_image(image, &origin, false, progress).await.map(drop)
            }
            Err(missing) => Err(missing.into()),
        }
    }
}
