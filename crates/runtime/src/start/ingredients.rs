//! What a machine is started from.

use std::sync::Arc;

use agentiso_core::ports::Disks;
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, Resources};
use agentiso_images::store::Image;
use agentiso_vmm::template::{ImageDisk, base_key, restore_key, warm_key};
use agentiso_vmm::{GuestKernel, Hardware, Host};

use crate::Installation;

/// Everything a machine is started from.
#[derive(Clone)]
pub(crate) struct Ingredients {
    pub host: Host,
    pub kernel: GuestKernel,
    pub hardware: Hardware,
    pub image: ImageDisk,
}

impl Ingredients {
    /// The key of the base template.
    pub(crate) fn base_key(&self) -> String {
        base_key(&self.host, &self.kernel, &self.hardware)
    }

    /// The key of the warm template.
    pub(crate) fn warm_key(&self, disks: &dyn Disks) -> String {
        warm_key(&self.base_key(), &self.image.identity, self.image.bytes, disks)
    }

    /// The key that a memory image must have been made with to be restored here.
    pub(crate) fn restore_key(&self) -> String {
        restore_key(&self.host, &self.hardware)
    }
}

impl Installation {
    /// Finds or prepares everything that a new machine of this image and size needs.
    pub(crate) async fn ingredients(
        &self,
        image: &Image,
        resources: &Resources,
        progress: &Arc<dyn Progress>,
    ) -> Result<Ingredients, Failure> {
        let raw = self.sized_base(image, resources.disk_bytes()).await?;
        let with = self.ingredients_but_disk(image, resources, progress).await?;
        Ok(Ingredients { image: ImageDisk { raw, ..with.image }, ..with })
    }

    /// The same for a machine that has its disk already.
    pub(crate) async fn ingredients_but_disk(
        &self,
        image: &Image,
        resources: &Resources,
        progress: &Arc<dyn Progress>,
    ) -> Result<Ingredients, Failure> {
        let host = self.host()?;
        let kernel = self.prepare_kernel(progress).await?;
        let hardware = self.hardware(&host, &kernel, resources.vcpus, resources.memory_mb).await;
        let image =
            ImageDisk { raw: image.rootfs(), identity: image_identity(image), bytes: resources.disk_bytes() };
        Ok(Ingredients { host, kernel, hardware, image })
    }
}

/// Identifies the content of an image.
pub(crate) fn image_identity(image: &Image) -> String {
    format!("{} {}", image.meta.fs_uuid, image.meta.created)
}
