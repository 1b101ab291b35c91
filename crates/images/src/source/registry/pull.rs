//! Pulling an image.
//!
//! The image becomes an OCI layout in a scratch directory, so that it can be read like any other. It is removed when it
//! has been read, and when the pull fails or is dropped.

use std::path::Path;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::progress::Progress;
use oci_spec::distribution::{ParseError, Reference};
use oci_spec::image::{Descriptor, Digest, ImageIndex, ImageManifest, MediaType};
use reqwest::Response;
use sha2::{Digest as _, Sha256};
use tokio::fs::File;
use tokio::io::AsyncWriteExt as _;

use super::client::{Fault, RegistryClient};
use super::login;
use crate::partial::{self, PartialDir};
use crate::source::oci::{self, OciSource, digest_of, digest_text, sha256_hex};
use crate::source::{RootfsSource as _, SourceError};

const MANIFEST_MAX: u64 = 8 << 20;
const CONFIG_MAX: u64 = 8 << 20;
const LAYERS_MAX: usize = 1000;
/// The most nested indexes.
const DEPTH_MAX: usize = 4;
/// The time limit for a blob: this, plus its size at a slow rate.
const BLOB_WITHIN: Duration = Duration::from_secs(600);
const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 10;

/// Pulls an image for linux/amd64 into `scratch`, an existing directory. Layers of more than `max_bytes` in total are
/// refused before any is downloaded.
///
/// Registries are contacted over TLS, except those on this machine. `docker_config` is a docker `config.json` whose
/// logins are used.
pub async fn pull(
    reference: &str,
    scratch: &Path,
    docker_config: Option<&Path>,
    max_bytes: u64,
    progress: &dyn Progress,
) -> Result<OciSource, SourceError> {
    let parsed: Reference = reference.parse().map_err(|error: ParseError| SourceError::Reference {
        reference: reference.to_owned(),
        reason: error.to_string(),
    })?;
    // Fails only if a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = || SourceError::io("prepare", scratch.display());
    let prepared = in_place(|| {
        partial::sweep(scratch)?;
        Ok((PartialDir::create(scratch, "pull")?, login::find(docker_config, parsed.resolve_registry())))
    });
    let (layout, login) = prepared.map_err(failed())?;
    let client = RegistryClient::new(&parsed, login).map_err(|fault| explained(&parsed, fault))?;
    let pull = Pull { client, reference: parsed, layout: layout.path(), max_bytes, progress };
    pull.everything().await?;
    let whole = pull.reference.whole();
    let source = in_place(|| OciSource::of_pulled(layout, whole))?;
    progress.done(&format!("about {} MiB of files", source.size_hint() >> 20));
    Ok(source)
}

struct Pull<'a> {
    client: RegistryClient,
    reference: Reference,
    layout: &'a Path,
    max_bytes: u64,
    progress: &'a dyn Progress,
}

impl Pull<'_> {
    async fn everything(&self) -> Result<(), SourceError> {
        self.progress.step(&format!("asking for {}", self.reference), None);
        let blobs = self.layout.join("blobs/sha256");
        tokio::fs::create_dir_all(&blobs).await.map_err(SourceError::io("create", blobs.display()))?;
        let (descriptor, manifest) = self.manifest().await?;
        self.check_sizes(&manifest)?;
        let index = serde_json::json!({ "schemaVersion": 2, "manifests": [descriptor] });
        self.write("index.json", index.to_string().as_bytes()).await?;
        self.write("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#).await?;
        self.blob(manifest.config(), "configuration").await?;
        let count = manifest.layers().len();
        for (index, layer) in manifest.layers().iter().enumerate() {
            self.blob(layer, &format!("layer {} of {count}", index + 1)).await?;
        }
        Ok(())
    }

    /// The manifest for this platform, through indexes, each checked against the digest and size it was named by.
    async fn manifest(&self) -> Result<(Descriptor, ImageManifest), SourceError> {
        let mut wanted = self.reference.digest().map(str::to_owned);
        let mut size = None;
        for _ in 0..DEPTH_MAX {
            let name = wanted.as_deref().or(self.reference.tag()).unwrap_or("latest");
            let max = size.unwrap_or(MANIFEST_MAX).min(MANIFEST_MAX);
            let bytes = self.client.manifest(name, max).await.map_err(|fault| self.failed(fault))?;
            let digest = digest_of(&bytes);
            if wanted.as_ref().is_some_and(|wanted| *wanted != digest) {
                return Err(self.rejected(&format!("its manifest does not match the digest {name}")));
            }
            if size.is_some_and(|size| size != bytes.len() as u64) {
                return Err(self.rejected("its manifest is shorter than its index says"));
            }
            if let Ok(index) = serde_json::from_slice::<ImageIndex>(&bytes) {
                let chosen = oci::choose(&index).map_err(|error| self.rejected(&error.to_string()))?;
                let chosen_digest = chosen.digest().to_string();
                self.checked_hex(&chosen_digest)?;
                (wanted, size) = (Some(chosen_digest), Some(chosen.size()));
                continue;
            }
            let manifest: ImageManifest = serde_json::from_slice(&bytes)
                .map_err(|error| self.rejected(&format!("its manifest cannot be understood: {error}")))?;
            self.write(&format!("blobs/sha256/{}", self.checked_hex(&digest)?), &bytes).await?;
            let digest: Digest =
                digest.parse().map_err(|_| self.rejected("its manifest has no usable digest"))?;
            return Ok((Descriptor::new(MediaType::ImageManifest, bytes.len() as u64, digest), manifest));
        }
        Err(self.rejected("its indexes are nested too deeply"))
    }

    /// Rejects an image that exceeds the limits, before any of it is downloaded.
    fn check_sizes(&self, manifest: &ImageManifest) -> Result<(), SourceError> {
        if manifest.config().size() > CONFIG_MAX {
            return Err(self.rejected("its configuration is far too large"));
        }
        if manifest.layers().len() > LAYERS_MAX {
            return Err(self.rejected(&format!("it has more than {LAYERS_MAX} layers")));
        }
        let total = manifest.layers().iter().try_fold(0_u64, |sum, layer| sum.checked_add(layer.size()));
        match total {
            Some(total) if total <= self.max_bytes => Ok(()),
            _ => Err(SourceError::TooLarge { origin: self.reference.whole(), limit: self.max_bytes }),
        }
    }

    async fn blob(&self, descriptor: &Descriptor, what: &str) -> Result<(), SourceError> {
        let digest = descriptor.digest().to_string();
        let path = self.layout.join("blobs/sha256").join(self.checked_hex(&digest)?);
        // Layers may repeat, often the empty one.
        if tokio::fs::try_exists(&path).await.unwrap_or(false) {
            return Ok(());
        }
        self.progress.step(&format!("pulling {what}"), Some(descriptor.size()));
        let answer = self.client.blob(&digest).await.map_err(|fault| self.failed(fault))?;
        let within = BLOB_WITHIN + Duration::from_secs(descriptor.size() / SLOWEST_BYTES_PER_SECOND);
        let storing = self.store(answer, &path, descriptor.size(), what);
        let stored = tokio::time::timeout(within, storing).await;
        let found = stored.unwrap_or_else(|_| Err(self.failed(Fault::TooSlow { what: "layer" })))?;
        if found != digest {
            return Err(self.rejected(&format!("its {what} does not match the digest {digest}")));
        }
        self.progress.done("");
        Ok(())
    }

    /// Writes exactly the declared number of bytes to a file and returns their digest.
    async fn store(
        &self,
        mut answer: Response,
        path: &Path,
        size: u64,
        what: &str,
    ) -> Result<String, SourceError> {
        let longer = || self.rejected(&format!("its {what} is longer than the {size} bytes promised"));
        if answer.content_length().is_some_and(|length| length > size) {
            return Err(longer());
        }
        let failed = || SourceError::io("write", path.display());
        let mut file = File::create(path).await.map_err(failed())?;
        let mut hasher = Sha256::new();
        let mut left = size;
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.failed(error.into()))? {
            left = left.checked_sub(chunk.len() as u64).ok_or_else(longer)?;
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(failed())?;
            self.progress.advance(chunk.len() as u64);
        }
        file.flush().await.map_err(failed())?;
        if left > 0 {
            return Err(self.rejected(&format!("its {what} is {left} bytes shorter than promised")));
        }
        Ok(digest_text(&hasher.finalize()))
    }

    async fn write(&self, name: &str, bytes: &[u8]) -> Result<(), SourceError> {
        let path = self.layout.join(name);
        tokio::fs::write(&path, bytes).await.map_err(SourceError::io("write", path.display()))
    }

    fn checked_hex<'d>(&self, digest: &'d str) -> Result<&'d str, SourceError> {
        sha256_hex(digest).ok_or_else(|| self.rejected(&format!("the digest {digest:?} is not supported")))
    }

    fn rejected(&self, reason: &str) -> SourceError {
        SourceError::rejected(&self.reference.whole(), reason)
    }

    fn failed(&self, fault: Fault) -> SourceError {
        explained(&self.reference, fault)
    }
}

fn explained(reference: &Reference, fault: Fault) -> SourceError {
    let reference = reference.whole();
    let (reason, hint) = match fault {
        Fault::TooLarge { .. } | Fault::Nonsense { .. } => {
            return SourceError::rejected(&reference, fault.to_string());
        }
        Fault::NotFound | Fault::Refused { .. } => (fault.to_string(), Some("check the name and the tag")),
        Fault::Login => (fault.to_string(), Some("log in with `docker login` or `skopeo login`")),
        Fault::TooSlow { .. } => (fault.to_string(), Some("check the network and try again")),
        Fault::Http(error) if error.is_timeout() => {
            ("the registry did not answer in time".to_owned(), Some("check the network and try again"))
        }
        Fault::Http(error) => {
            (agentiso_core::chain(&error), Some("check the registry's address and the network"))
        }
    };
    SourceError::Fetch { reference, reason, hint }
}
