//! `agentiso image`.

use std::io::Write;
use std::path::Path;

use agentiso_core::Failure;
use agentiso_core::action::ImageCommit;
use agentiso_runtime::{ArchiveFormat, ImageMeta, ImageOrigin, Installation, default_image_name};
use serde_json::json;

use super::Daemon;
use super::archive_file::Target;
use crate::args::{ExportFormat, ImageVerb, Names, NewImage};
use crate::output::Output;
use crate::ui::{Table, bytes};

/// Performs a verb of `agentiso image`.
pub async fn image(here: &Installation, verb: ImageVerb, output: Output) -> Result<u8, Failure> {
    let make = |origin, new| make(here, origin, new, output);
    match verb {
        ImageVerb::Build { recipe, new } => make(ImageOrigin::Recipe(recipe), new).await,
        ImageVerb::Import { source, new } => make(ImageOrigin::Path(source), new).await,
        ImageVerb::Pull { reference, new } => make(ImageOrigin::Reference(reference), new).await,
        ImageVerb::Commit { workspace, name, replace } => {
            commit(here, workspace, name, replace, output).await
        }
        ImageVerb::Export { name, file, format } => export(here, &name, &file, format, output).await,
        ImageVerb::Ls { only } => ls(here, only, output),
        ImageVerb::Info { name } => info(here, &name, output),
        ImageVerb::Kernel(verb) => super::kernel::kernel(here, verb, output).await,
        ImageVerb::Rm { names } => rm(here, &names, output),
    }
    .map(|()| 0)
}

/// Makes an image, wherever it comes from.
async fn make(
    installation: &Installation,
    origin: ImageOrigin,
    new: NewImage,
    output: Output,
) -> Result<(), Failure> {
    let name = match &new.name {
        Some(name) => name.parse()?,
        None => default_image_name(&origin)?,
    };
    let progress = output.progress();
    let image =
        super::interruptible(installation.make_image(&name, &origin, new.replace, true, &progress)).await?;
    drop(progress);
    output.result(&image.meta, |out| {
        writeln!(out, "Image {name}: {} in {} files.", bytes(image.meta.content_bytes), image.meta.entries)?;
        writeln!(out, "Try: agentiso run --image {name} -- CMD")
    })
}

/// Makes an image of a workspace. The daemon does it, because the workspace is its own; it ends with this process.
async fn commit(
    here: &Installation,
    workspace: String,
    name: String,
    replace: bool,
    output: Output,
) -> Result<(), Failure> {
    let request = ImageCommit { workspace_id: workspace, name, replace };
    let made = Daemon::reach(&here.paths, output).await?.ask("Still copying files", &request).await?;
    output.result(&made, |out| {
        writeln!(out, "Image {}: {} in {} files.", made.name, bytes(made.content_bytes), made.files)?;
        writeln!(out, "Try: agentiso create --image {}", made.name)
    })
}

/// Writes an image to a file or to standard output.
async fn export(
    installation: &Installation,
    name: &str,
    file: &Path,
    format: ExportFormat,
    output: Output,
) -> Result<(), Failure> {
    let format = match format {
        ExportFormat::Tar => ArchiveFormat::Tar,
        ExportFormat::Oci => ArchiveFormat::Oci,
    };
    let name = name.parse()?;
    let (target, out) = Target::open(file)?;
    let progress = output.progress();
    let exported = super::interruptible(installation.export_image(&name, format, out, &progress)).await?;
    drop(progress);
    let (image, out) = exported;
    let Some(size) = target.finish(out)? else { return Ok(()) };
    let result = json!({ "name": name, "file": file, "bytes": size, "files": image.meta.entries });
    output.result(&result, |out| writeln!(out, "Wrote {name} to {} ({}).", file.display(), bytes(size)))
}

/// Lists images.
fn ls(installation: &Installation, only: Names, output: Output) -> Result<(), Failure> {
    let images: Vec<ImageMeta> = installation.images()?.list()?.into_iter().map(|image| image.meta).collect();
    output.result(&images, |out| {
        if only.names {
            return images.iter().try_for_each(|image| writeln!(out, "{}", image.name));
        }
        let mut table =
            Table::new(["NAME", "CONTENT", "FILES", "CREATED", "SOURCE"]).align_right(1).align_right(2);
        for image in &images {
            table.row([
                image.name.to_string(),
                bytes(image.content_bytes),
                image.entries.to_string(),
                day(image),
                image.source.reference.clone(),
            ]);
        }
        table.write(out)?;
        if images.is_empty() && out.is_terminal() {
            writeln!(out, "No images yet. Try: agentiso init")?;
        }
        Ok(())
    })
}

/// Shows one image.
fn info(installation: &Installation, name: &str, output: Output) -> Result<(), Failure> {
    let image = installation.images()?.get(&name.parse()?)?;
    let meta = &image.meta;
    output.result(meta, |out| {
        writeln!(out, "name         {}", meta.name)?;
        writeln!(out, "source       {}", meta.source.reference)?;
        writeln!(out, "created      {}", meta.created)?;
        writeln!(out, "content      {} in {} files", bytes(meta.content_bytes), meta.entries)?;
        writeln!(out, "file system  {}, {}", bytes(meta.fs_bytes), meta.fs_uuid)?;
        if let Some(digest) = &meta.digest {
            writeln!(out, "digest       {digest}")?;
        }
        if let Some(defaults) = &meta.defaults {
            writeln!(out, "command      {}", defaults.cmd.join(" "))?;
        }
        writeln!(out, "path         {}", image.rootfs().display())
    })
}

/// Removes images.
fn rm(installation: &Installation, names: &[String], output: Output) -> Result<(), Failure> {
    let names = names.iter().map(|name| name.parse()).collect::<Result<Vec<_>, _>>()?;
    installation.remove_images(&names)?;
    output.result(&json!({ "removed": names }), |out| {
        names.iter().try_for_each(|name| writeln!(out, "Removed {name}."))
    })
}

fn day(image: &ImageMeta) -> String {
    let text = image.created.to_string();
    text.split('T').next().unwrap_or_default().to_owned()
}
