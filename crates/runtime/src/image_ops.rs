//! Making and removing images.
//!
//! A new image has a partial name until it is complete, so a failed or cancelled operation leaves no image behind.
//! Workspaces read through the image they were created from, so an image in use is neither replaced nor removed. If
//! that cannot be determined, the image stays.

use std::sync::Arc;

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::ports::host::ImageOrigin;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, ImageName};
use agentiso_images::source::{ImportLimits, RootfsSource, docker_config};
use agentiso_images::store::{Image, ImageMeta, PendingImage};
use agentiso_images::{ext4, open_origin};
use agentiso_meta::Meta;

use crate::Installation;

impl Installation {
    /// Makes an image. On failure, or when dropped, nothing of it is left. `login` says whether the user's own logins for
    /// registries are used.
    pub async fn make_image(
        &self,
        name: &ImageName,
        origin: &ImageOrigin,
        replace: bool,
        login: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Image, Failure> {
        let pending = self.begin_image(name, replace)?;
        let fs_bytes = self.config.defaults.resources().disk_bytes();
        let docker_config = login.then(docker_config).flatten();
        let scratch = in_place(|| pending.scratch())?;
        let source = open_origin(origin, scratch, docker_config, fs_bytes, progress).await?;
        self.finish_image(pending, source, fs_bytes, replace, progress).await
    }

    /// Starts a new image. Fails if the name is taken and the image must not be replaced, or is in use.
    pub(crate) fn begin_image(&self, name: &ImageName, replace: bool) -> Result<PendingImage, Failure> {
        if replace {
            self.require_unused_image(name)?;
        }
        in_place(|| Ok(self.images()?.begin(name, replace)?))
    }

    /// Fills a new image from a source and makes it visible.
    pub(crate) async fn finish_image(
        &self,
        pending: PendingImage,
        source: Box<dyn RootfsSource>,
        fs_bytes: u64,
        replace: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Image, Failure> {
        let name = pending.name().clone();
        let kind = source.describe();
        let rootfs = pending.rootfs();
        off_thread({
            let rootfs = rootfs.clone();
            move || ext4::make_blank(&rootfs, fs_bytes)
        })
        .await?;
        let limits = ImportLimits::for_content(fs_bytes);
        let summary = self.fill(&rootfs, source, limits, progress).await?;
        progress.step("Checking the file system", None);
        let check = move || ext4::check(&rootfs).and_then(|()| ext4::superblock(&rootfs));
        let superblock = off_thread(check).await?;
        let meta = ImageMeta {
            name: name.clone(),
            source: kind,
            created: jiff::Timestamp::now(),
            digest: summary.digest,
            fs_bytes,
            content_bytes: summary.bytes,
            entries: summary.entries,
            fs_uuid: superblock.uuid,
            defaults: summary.defaults,
        };
        if replace {
            // A workspace may have been created from the old image in the meantime.
            self.require_unused_image(&name)?;
        }
        let image = off_thread(move || pending.commit(&meta)).await?;
        progress.done(&format!("{} files", image.meta.entries));
        Ok(image)
    }

    /// Removes images: all of them, or none if one does not exist or is in use.
    pub fn remove_images(&self, names: &[ImageName]) -> Result<(), Failure> {
        self.make_room();
        in_place(|| {
            let store = self.images()?;
            for name in names {
                store.get(name)?;
                self.require_unused_image(name)?;
            }
            for name in names {
                store.remove(name)?;
            }
            Ok::<_, Failure>(())
        })?;
        self.keep_reserve();
        Ok(())
    }

    /// Fails if workspaces were created from an image: their disks read through it, so it must not change.
    pub fn require_unused_image(&self, name: &ImageName) -> Result<(), Failure> {
        let users = in_place(|| self.users_of_image(name))?;
        if users.is_empty() {
            return Ok(());
        }
        let message = format!("the image {:?} is needed by: {}", name.as_str(), users.join(", "));
        Err(Failure::new(Code::ImageInUse, message)
            .with_remedy("remove those workspaces first, or give the new image another name"))
    }

    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn users_of_image(&self, name: &ImageName) -> Result<Vec<String>, Failure> {
        let state = self.paths.state_file();
        // An installation without a database has no workspaces. One whose database cannot be looked at may have some.
        if !state.try_exists().map_err(|error| self.io("look for the database", error))? {
            return Ok(Vec::new());
        }
        let workspaces = Meta::open(&state)?.read(|read| read.workspaces())?;
        let users = workspaces.into_iter().filter(|workspace| workspace.image == *name);
        Ok(users.map(|user| user.name.to_string()).collect())
    }
}
