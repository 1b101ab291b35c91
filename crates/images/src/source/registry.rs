//! Pulling an image from a registry.
//!
//! What is pulled becomes an OCI layout in a scratch directory, so that one reader serves both, and is gone
//! when it has been read.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use agentiso_core::progress::Progress;
use base64::Engine as _;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use oci_client::{Reference, manifest as media};
use oci_spec::image::{Descriptor, ImageIndex, ImageManifest};
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use super::oci::{self, OciSource};
use super::{RootfsSource as _, SourceError};
use crate::partial::{self, PartialDir};

const CONNECT_WITHIN: Duration = Duration::from_secs(20);
const READ_WITHIN: Duration = Duration::from_secs(60);
const MANIFEST_MAX: usize = 8 << 20;
/// No single layer is larger, whatever a manifest claims.
const BLOB_MAX: u64 = 64 << 30;
const ACCEPTED: [&str; 4] = [
    media::OCI_IMAGE_INDEX_MEDIA_TYPE,
    media::IMAGE_MANIFEST_LIST_MEDIA_TYPE,
    media::OCI_IMAGE_MEDIA_TYPE,
    media::IMAGE_MANIFEST_MEDIA_TYPE,
];

/// Pulls an image for linux/amd64 into `scratch`, an existing directory.
///
/// Registries are spoken to over TLS, except those on this very machine. `docker_config` is a docker
/// `config.json` whose plain logins are used, if there is one.
pub async fn pull(
    reference: &str,
    scratch: &Path,
    docker_config: Option<&Path>,
    progress: &dyn Progress,
) -> Result<OciSource, SourceError> {
    let parsed: Reference = reference.parse().map_err(|error: oci_client::ParseError| {
        SourceError::Reference { reference: reference.to_owned(), reason: error.to_string() }
    })?;
    // Fails only if the program chose a provider before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let failed = || SourceError::io("prepare", scratch.display());
    partial::sweep(scratch).map_err(failed())?;
    let layout = PartialDir::create(scratch, "pull").map_err(failed())?;
    let pull = Pull {
        client: client(&parsed),
        auth: login(docker_config, parsed.resolve_registry()),
        reference: parsed,
        layout: layout.path(),
        progress,
    };
    pull.everything().await?;
    let whole = pull.reference.whole();
    let source = OciSource::of_pulled(layout, whole)?;
    progress.done(&format!("about {} MiB of files", source.size_hint() >> 20));
    Ok(source)
}

struct Pull<'a> {
    client: Client,
    auth: RegistryAuth,
    reference: Reference,
    layout: &'a Path,
    progress: &'a dyn Progress,
}

impl Pull<'_> {
    async fn everything(&self) -> Result<(), SourceError> {
        self.progress.step(&format!("asking for {}", self.reference), None);
        let blobs = self.layout.join("blobs/sha256");
        tokio::fs::create_dir_all(&blobs).await.map_err(SourceError::io("create", blobs.display()))?;
        let (descriptor, manifest) = self.manifest().await?;
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

    async fn manifest(&self) -> Result<(Descriptor, ImageManifest), SourceError> {
        let mut reference = self.reference.clone();
        for _ in 0..3 {
            let (bytes, digest) = self
                .client
                .pull_manifest_raw(&reference, &self.auth, &ACCEPTED)
                .await
                .map_err(|e| self.failed(e))?;
            if bytes.len() > MANIFEST_MAX {
                return Err(self.rejected("its manifest is far too large"));
            }
            if let Ok(index) = serde_json::from_slice::<ImageIndex>(&bytes) {
                let chosen = oci::choose(&index).map_err(|error| self.rejected(&error.to_string()))?;
                reference = reference.clone_with_digest(chosen.digest().to_string());
                continue;
            }
            let manifest: ImageManifest = serde_json::from_slice(&bytes)
                .map_err(|error| self.rejected(&format!("its manifest cannot be understood: {error}")))?;
            let digest: oci_spec::image::Digest = digest
                .parse()
                .map_err(|_| self.rejected(&format!("the registry calls its manifest {digest:?}")))?;
            let descriptor = Descriptor::new(
                oci_spec::image::MediaType::ImageManifest,
                bytes.len() as u64,
                digest.clone(),
            );
            self.write(&format!("blobs/sha256/{}", digest.digest()), &bytes).await?;
            return Ok((descriptor, manifest));
        }
        Err(self.rejected("its indexes are nested too deeply"))
    }

    async fn blob(&self, descriptor: &Descriptor, what: &str) -> Result<(), SourceError> {
        let Some(hex) = descriptor.as_digest_sha256() else {
            return Err(self.rejected(&format!("the digest {} is not supported", descriptor.digest())));
        };
        if descriptor.size() > BLOB_MAX {
            return Err(self.rejected(&format!("its {what} is said to be {} bytes large", descriptor.size())));
        }
        let path = self.layout.join("blobs/sha256").join(hex);
        // Layers may repeat; the empty one often does.
        if tokio::fs::try_exists(&path).await.unwrap_or(false) {
            return Ok(());
        }
        self.progress.step(&format!("pulling {what}"), Some(descriptor.size()));
        let failed = || SourceError::io("write", path.display());
        let file = File::create(&path).await.map_err(failed())?;
        let mut writer = BlobWriter { file, left: descriptor.size(), progress: self.progress };
        let digest = descriptor.digest().to_string();
        self.client
            .pull_blob(&self.reference, digest.as_str(), &mut writer)
            .await
            .map_err(|error| self.failed(error))?;
        writer.file.flush().await.map_err(failed())?;
        if writer.left > 0 {
            return Err(self.rejected(&format!("its {what} is {} bytes shorter than promised", writer.left)));
        }
        self.progress.done("");
        Ok(())
    }

    async fn write(&self, name: &str, bytes: &[u8]) -> Result<(), SourceError> {
        let path = self.layout.join(name);
        tokio::fs::write(&path, bytes).await.map_err(SourceError::io("write", path.display()))
    }

    fn rejected(&self, reason: &str) -> SourceError {
        SourceError::rejected(&self.reference.whole(), reason)
    }

    fn failed(&self, error: OciDistributionError) -> SourceError {
        use OciDistributionError as E;
        let reference = self.reference.whole();
        let (reason, hint) = match error {
            E::DigestError(error) => return self.rejected(&error.to_string()),
            E::IoError(source) => {
                return SourceError::Io { doing: "store what was pulled of", what: reference, source };
            }
            E::ImageManifestNotFoundError(_) => {
                ("the registry has no such image".to_owned(), Some("check the name and the tag"))
            }
            E::RegistryError { envelope, .. } => (
                envelope.errors.iter().map(|error| error.to_string()).collect::<Vec<_>>().join("; "),
                Some("check the name and the tag"),
            ),
            E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => (
                "the registry wants a login".to_owned(),
                Some("log in with `docker login` or `skopeo login`"),
            ),
            E::RequestError(error) if error.is_timeout() => {
                ("the registry did not answer in time".to_owned(), Some("check the network and try again"))
            }
            E::RequestError(error) => {
                (agentiso_core::chain(&error), Some("check the registry's address and the network"))
            }
            other => (other.to_string(), None),
        };
        SourceError::Fetch { reference, reason, hint }
    }
}

fn client(reference: &Reference) -> Client {
    let registry = reference.resolve_registry();
    let protocol = if is_loopback(registry) { ClientProtocol::Http } else { ClientProtocol::Https };
    Client::new(ClientConfig {
        protocol,
        connect_timeout: Some(CONNECT_WITHIN),
        read_timeout: Some(READ_WITHIN),
        user_agent: concat!("agentiso/", env!("CARGO_PKG_VERSION")),
        ..ClientConfig::default()
    })
}

/// Whether a registry, `host[:port]`, is on this very machine.
fn is_loopback(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.rsplit_once(':').map_or(registry, |(host, _)| host),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: std::collections::HashMap<String, DockerAuth>,
}

#[derive(Deserialize)]
struct DockerAuth {
    auth: Option<String>,
}

/// The plain login a docker configuration has for a registry, if any; helpers and stores are not asked.
fn login(config: Option<&Path>, registry: &str) -> RegistryAuth {
    let found = || {
        let config: DockerConfig = serde_json::from_slice(&std::fs::read(config?).ok()?).ok()?;
        let names = match registry {
            "index.docker.io" | "docker.io" => {
                vec!["https://index.docker.io/v1/", "docker.io", "index.docker.io"]
            }
            other => vec![other],
        };
        let auth = names.iter().find_map(|name| config.auths.get(*name)?.auth.as_deref())?;
        let plain = base64::engine::general_purpose::STANDARD.decode(auth).ok()?;
        let (user, password) = std::str::from_utf8(&plain).ok()?.split_once(':')?;
        Some(RegistryAuth::Basic(user.to_owned(), password.to_owned()))
    };
    found().unwrap_or(RegistryAuth::Anonymous)
}

/// Writes a blob to a file, but not more than was promised.
struct BlobWriter<'a> {
    file: File,
    left: u64,
    progress: &'a dyn Progress,
}

impl AsyncWrite for BlobWriter<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.len() as u64 > self.left {
            return Poll::Ready(Err(io::Error::other("the registry sends more than it promised")));
        }
        let written = std::task::ready!(Pin::new(&mut self.file).poll_write(context, bytes))?;
        self.left -= written as u64;
        self.progress.advance(written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.file).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        for near in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.9.1", "[::1]:5000"] {
            assert!(is_loopback(near), "{near}");
        }
        for far in ["docker.io", "localhost.example:5000", "10.0.0.1:5000", "127.0.0.1.example", "[::2]:5000"]
        {
            assert!(!is_loopback(far), "{far}");
        }
    }

    #[test]
    fn a_plain_login_is_found_and_nonsense_is_anonymous() {
        let config = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            config.path(),
            r#"{"auths":{"r.example:5000":{"auth":"YW5uOnMzY3JldDp4"},"h.example":{}}}"#,
        )
        .unwrap();
        let RegistryAuth::Basic(user, password) = login(Some(config.path()), "r.example:5000") else {
            panic!("no login found");
        };
        assert_eq!((user.as_str(), password.as_str()), ("ann", "s3cret:x"));
        for (config, registry) in
            [(Some(config.path()), "h.example"), (Some(config.path()), "o.example"), (None, "x")]
        {
            assert!(matches!(login(config, registry), RegistryAuth::Anonymous));
        }
    }
}
