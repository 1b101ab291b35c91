//! Manifests: choosing the image for this platform, its layers and its configuration.

use std::io;

use oci_spec::image::{Descriptor, ImageConfiguration, ImageIndex, ImageManifest};
use serde::Deserialize;

use super::blobs::Blobs;
use super::verified::{digest_of, sha256_hex};
use crate::store::OciDefaults;

const OS: &str = "linux";
const ARCHITECTURE: &str = "amd64";
/// The most nested indexes.
const DEPTH_MAX: usize = 4;
const LAYERS_MAX: usize = 1000;

/// One layer: where it is and what it must be.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) name: String,
    /// Digest of the file as stored.
    pub(super) digest: Option<String>,
    /// Digest of its content.
    pub(super) diff_id: String,
    pub(super) length: u64,
}

/// What is to be unpacked.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) layers: Vec<Layer>,
    pub(super) digest: Option<String>,
    pub(super) defaults: OciDefaults,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    layers: Vec<String>,
    repo_tags: Option<Vec<String>>,
}

/// Reads an OCI layout.
pub(super) fn of_layout(blobs: &Blobs) -> io::Result<Plan> {
    let mut descriptor = choose(&parse::<ImageIndex>("index.json", &blobs.small("index.json")?)?)?;
    for _ in 0..DEPTH_MAX {
        let bytes = checked_blob(blobs, &descriptor)?;
        // An index has `manifests`, a manifest has `layers`: no need to trust the media type.
        if let Ok(index) = serde_json::from_slice::<ImageIndex>(&bytes) {
            descriptor = choose(&index)?;
            continue;
        }
        let manifest: ImageManifest = parse("the manifest", &bytes)?;
        return of_manifest(blobs, &manifest, descriptor.digest().to_string());
    }
    Err(invalid("its indexes are nested too deeply"))
}

/// Reads what `docker save` wrote.
pub(super) fn of_docker(blobs: &Blobs) -> io::Result<Plan> {
    let mut images: Vec<DockerImage> = parse("manifest.json", &blobs.small("manifest.json")?)?;
    let image = match (images.pop(), images.is_empty()) {
        (Some(image), true) => image,
        (None, _) => return Err(invalid("it holds no image")),
        (Some(last), false) => {
            let names: Vec<String> = images
                .into_iter()
                .chain([last])
                .flat_map(|image| image.repo_tags.unwrap_or_default())
                .collect();
            return Err(invalid(format!("it holds several images ({}): save only one", names.join(", "))));
        }
    };
    let config = blobs.small(&image.config)?;
    let named = image.config.strip_prefix("blobs/sha256/").unwrap_or(&image.config).trim_end_matches(".json");
    if digest_of(&config) != format!("sha256:{named}") {
        return Err(invalid("the configuration does not match its digest"));
    }
    let config: ImageConfiguration = parse("the configuration", &config)?;
    let files: Vec<_> = image.layers.into_iter().map(|name| (name, None)).collect();
    plan(blobs, files, &config, None)
}

/// The image of an index that runs here.
pub(in crate::source) fn choose(index: &ImageIndex) -> io::Result<Descriptor> {
    let fits = |descriptor: &&Descriptor| {
        descriptor.platform().as_ref().is_none_or(|platform| {
            platform.os().to_string() == OS && platform.architecture().to_string() == ARCHITECTURE
        })
    };
    let fitting: Vec<&Descriptor> = index.manifests().iter().filter(fits).collect();
    match fitting[..] {
        [one] => Ok(one.clone()),
        [] => {
            let offered: Vec<String> = index
                .manifests()
                .iter()
                .filter_map(|descriptor| descriptor.platform().as_ref())
                .map(|platform| format!("{}/{}", platform.os(), platform.architecture()))
                .collect();
            Err(invalid(format!(
                "it has no image for {OS}/{ARCHITECTURE}, only for [{}]",
                offered.join(", ")
            )))
        }
        // The same image may have two names. Otherwise an entry with a platform takes precedence over one without.
        [first, .., _] if fitting.iter().all(|other| other.digest() == first.digest()) => Ok(first.clone()),
        _ => {
            let stated: Vec<_> =
                fitting.iter().filter(|descriptor| descriptor.platform().is_some()).collect();
            match stated[..] {
                [one] => Ok((*one).clone()),
                _ => Err(invalid(format!(
                    "it holds {} images for {OS}/{ARCHITECTURE}: keep only one",
                    fitting.len()
                ))),
            }
        }
    }
}

fn of_manifest(blobs: &Blobs, manifest: &ImageManifest, digest: String) -> io::Result<Plan> {
    let config: ImageConfiguration = parse("the configuration", &checked_blob(blobs, manifest.config())?)?;
    let mut files = Vec::new();
    for layer in manifest.layers() {
        let name = blob_name(layer)?;
        if blobs.open(&name)?.1 != layer.size() {
            return Err(invalid(format!("the layer {} has not the size the manifest says", layer.digest())));
        }
        files.push((name, Some(layer.digest().to_string())));
    }
    plan(blobs, files, &config, Some(digest))
}

fn plan(
    blobs: &Blobs,
    files: Vec<(String, Option<String>)>,
    config: &ImageConfiguration,
    digest: Option<String>,
) -> io::Result<Plan> {
    let (os, architecture) = (config.os().to_string(), config.architecture().to_string());
    if (os.as_str(), architecture.as_str()) != (OS, ARCHITECTURE) {
        return Err(invalid(format!("it is for {os}/{architecture}, not for {OS}/{ARCHITECTURE}")));
    }
    let diff_ids = config.rootfs().diff_ids();
    if files.len() != diff_ids.len() || files.len() > LAYERS_MAX {
        return Err(invalid(format!("it has {} layers, but names {}", files.len(), diff_ids.len())));
    }
    let mut layers = Vec::with_capacity(files.len());
    for ((name, digest), diff_id) in files.into_iter().zip(diff_ids) {
        let length = blobs.open(&name)?.1;
        layers.push(Layer { name, digest, diff_id: diff_id.clone(), length });
    }
    Ok(Plan { layers, digest, defaults: defaults(config) })
}

fn defaults(config: &ImageConfiguration) -> OciDefaults {
    let Some(config) = config.config() else { return OciDefaults::default() };
    let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let entry_point = config.entrypoint().iter().flatten();
    OciDefaults {
        env: config.env().clone().unwrap_or_default(),
        workdir: filled(config.working_dir()),
        user: filled(config.user()),
        cmd: entry_point.chain(config.cmd().iter().flatten()).cloned().collect(),
    }
}

fn checked_blob(blobs: &Blobs, descriptor: &Descriptor) -> io::Result<Vec<u8>> {
    let bytes = blobs.small(&blob_name(descriptor)?)?;
    let expected = descriptor.digest().to_string();
    if bytes.len() as u64 != descriptor.size() || digest_of(&bytes) != expected {
        return Err(invalid(format!("{expected} does not match its digest")));
    }
    Ok(bytes)
}

fn blob_name(descriptor: &Descriptor) -> io::Result<String> {
    let digest = descriptor.digest().to_string();
    let hex =
        sha256_hex(&digest).ok_or_else(|| invalid(format!("the digest {digest:?} is not supported")))?;
    Ok(format!("blobs/sha256/{hex}"))
}

fn parse<T: serde::de::DeserializeOwned>(what: &str, bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| invalid(format!("{what} cannot be understood: {error}")))
}

fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.into())
}
