//! An OCI archive with one layer.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use agentiso_core::ports::RootfsSink;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tar::{Builder, Header};

use super::TarSink;
use crate::store::ImageMeta;

/// Writes an image as an OCI archive. `feed` writes the layer's entries, which are stored in `scratch` until their digest
/// is known. Returns the writer.
pub fn write_oci_archive<W: Write, E: From<io::Error>>(
    out: W,
    scratch: &Path,
    meta: &ImageMeta,
    feed: impl FnOnce(&mut dyn RootfsSink) -> Result<(), E>,
) -> Result<W, E> {
    let mut layer = TarSink::new(Hashed::new(tempfile::tempfile_in(scratch)?));
    feed(&mut layer)?;
    let (layer, ..) = layer.finish()?;
    let (mut layer, layer_digest, layer_size) = layer.finish();
    let mut config = json!({
        "created": meta.created.to_string(),
        "os": "linux",
        "architecture": "amd64",
        "config": {},
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer_digest}")] },
        "history": [{ "created": meta.created.to_string(), "created_by": "agentiso" }],
    });
    if let Some(defaults) = &meta.defaults {
        let run = &mut config["config"];
        run["Env"] = json!(defaults.env);
        run["Cmd"] = json!(defaults.cmd);
        run["WorkingDir"] = json!(defaults.workdir.clone().unwrap_or_default());
        run["User"] = json!(defaults.user.clone().unwrap_or_default());
    }
    let config = config.to_string();
    let descriptor = |kind: &str, digest: &str, size: u64| json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": size });
    let config_digest = hex(&Sha256::digest(config.as_bytes()));
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config_digest, config.len() as u64),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer_digest, layer_size)],
    });
    let manifest = manifest.to_string();
    let manifest_digest = hex(&Sha256::digest(manifest.as_bytes()));
    let mut named =
        descriptor("application/vnd.oci.image.manifest.v1+json", &manifest_digest, manifest.len() as u64);
    named["annotations"] = json!({ "org.opencontainers.image.ref.name": meta.name.as_str() });
    let index = json!({ "schemaVersion": 2, "manifests": [named] }).to_string();

    let mut archive = Builder::new(out);
    let small = [
        ("oci-layout".to_owned(), r#"{"imageLayoutVersion":"1.0.0"}"#.to_owned()),
        ("index.json".to_owned(), index),
        (format!("blobs/sha256/{manifest_digest}"), manifest),
        (format!("blobs/sha256/{config_digest}"), config),
    ];
    for (name, text) in small {
        append(&mut archive, &name, text.len() as u64, text.as_bytes())?;
    }
    layer.seek(SeekFrom::Start(0))?;
    append(&mut archive, &format!("blobs/sha256/{layer_digest}"), layer_size, layer)?;
    Ok(archive.into_inner()?)
}

fn append(archive: &mut Builder<impl Write>, name: &str, size: u64, content: impl Read) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(size);
    header.set_mtime(0);
    archive.append_data(&mut header, name, content)
}

/// Writes a file and computes its digest.
struct Hashed {
    file: File,
    hasher: Sha256,
    length: u64,
}

impl Hashed {
    fn new(file: File) -> Self {
        Self { file, hasher: Sha256::new(), length: 0 }
    }

    fn finish(self) -> (File, String, u64) {
        (self.file, hex(&self.hasher.finalize()), self.length)
    }
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
