//! OCI layouts, Docker archives and a real registry.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

mod common;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use agentiso_core::ports::EntryKind;
use agentiso_core::progress::Silent;
use agentiso_core::{Code, Explain, chain};
use agentiso_images::source::{ImportLimits, OciSource, RootfsSource, SourceError, Summary, pull};
use agentiso_images::store::SourceKind;
use common::{Memory, Tar, read, run};
use sha2::Digest as _;
use tempfile::TempDir;

fn sha256(bytes: &[u8]) -> String {
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An OCI layout on disk, built from layers.
struct Layout {
    place: TempDir,
}

impl Layout {
    fn new(layers: &[Vec<u8>]) -> Self {
        Self::for_architecture(layers, "amd64", true)
    }

    /// With `mixed`, layers alternate between gzip, zstd and no compression; otherwise all use gzip.
    fn for_architecture(layers: &[Vec<u8>], architecture: &str, mixed: bool) -> Self {
        let layout = Self { place: tempfile::tempdir().unwrap() };
        fs::create_dir_all(layout.path().join("blobs/sha256")).unwrap();
        fs::write(layout.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        let diff_ids: Vec<String> = layers.iter().map(|layer| format!("sha256:{}", sha256(layer))).collect();
        let config = serde_json::json!({
            "os": "linux", "architecture": architecture,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
            "config": {
                "Env": ["PATH=/bin"], "WorkingDir": "/srv", "User": "www",
                "Entrypoint": ["/bin/sh"], "Cmd": ["-c", "true"],
            },
        });
        let config = layout.blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
        let layers: Vec<_> = layers
            .iter()
            .enumerate()
            .map(|(index, layer)| match if mixed { index % 3 } else { 0 } {
                0 => layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", &gzip(layer)),
                1 => {
                    let packed = zstd::encode_all(&layer[..], 1).unwrap();
                    layout.blob("application/vnd.oci.image.layer.v1.tar+zstd", &packed)
                }
                _ => layout.blob("application/vnd.oci.image.layer.v1.tar", layer),
            })
            .collect();
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config, "layers": layers,
        });
        let manifest =
            layout.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
        layout.index(&[manifest]);
        layout
    }

    fn blob(&self, media_type: &str, bytes: &[u8]) -> serde_json::Value {
        let hex = sha256(bytes);
        fs::write(self.path().join("blobs/sha256").join(&hex), bytes).unwrap();
        serde_json::json!({ "mediaType": media_type, "digest": format!("sha256:{hex}"), "size": bytes.len() })
    }

    fn index(&self, manifests: &[serde_json::Value]) {
        let index = serde_json::json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.path().join("index.json"), index.to_string()).unwrap();
    }

    fn manifests(&self) -> Vec<serde_json::Value> {
        let index: serde_json::Value =
            serde_json::from_slice(&fs::read(self.path().join("index.json")).unwrap()).unwrap();
        index["manifests"].as_array().unwrap().clone()
    }

    fn manifest_digest(&self) -> String {
        self.manifests()[0]["digest"].as_str().unwrap().to_owned()
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    fn skopeo_copy_to(&self, destination: &str) {
        let source = format!("oci:{}", self.path().display());
        run(
            "skopeo",
            &["copy", "--insecure-policy", "--dest-tls-verify=false", "--quiet", &source, destination],
        );
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Three layers: the second deletes entries, the third empties a directory, with the opaque marker after its own file.
fn sample_layers() -> [Vec<u8>; 3] {
    [
        Tar::new().dir("etc").file("etc/a", "1").file("etc/b", "1").dir("var").file("var/old", "1").bytes(),
        Tar::new()
            .file("etc/.wh.a", "")
            .file("etc/c", "2")
            .hardlink("etc/b2", "etc/b")
            .file(".wh.nothing", "")
            .bytes(),
        Tar::new().dir("var").file("var/new", "3").file("var/.wh..wh..opq", "").file("etc/b", "3").bytes(),
    ]
}

fn sample() -> Layout {
    Layout::new(&sample_layers())
}

fn assert_is_sample(memory: &Memory, summary: &Summary) {
    assert_eq!(memory.names(), ["etc", "etc/b", "etc/b2", "etc/c", "var", "var/new"]);
    assert_eq!(memory.content("etc/b"), b"3");
    assert_eq!(memory.content("etc/b2"), b"1");
    assert_eq!(memory.entry("etc/b2").kind, EntryKind::Hardlink { target: b"etc/b".to_vec() });
    assert_eq!(memory.content("var/new"), b"3");
    let emptied = memory.order.iter().position(|(path, kind)| path == "var" && *kind == EntryKind::Emptied);
    let new = memory.order.iter().position(|(path, _)| path == "var/new");
    assert!(emptied.unwrap() < new.unwrap());
    let defaults = summary.defaults.as_ref().unwrap();
    assert_eq!(defaults.cmd, ["/bin/sh", "-c", "true"]);
    assert_eq!(defaults.env, ["PATH=/bin"]);
    assert_eq!((defaults.workdir.as_deref(), defaults.user.as_deref()), (Some("/srv"), Some("www")));
    assert_eq!(summary.entries, 6);
}

fn refused(path: &Path) -> String {
    let error = read(path).err().expect("it was accepted");
    assert_eq!(error.code(), Code::ImageRejected, "{error}");
    chain(&error)
}

#[test]
fn a_layout_is_flattened_layer_by_layer() {
    let layout = sample();
    let (memory, summary) = read(layout.path()).unwrap();
    assert_is_sample(&memory, &summary);
    assert_eq!(summary.digest.unwrap(), layout.manifest_digest());
}

#[test]
fn archives_written_by_skopeo_can_be_read() {
    // Docker's format does not support zstd.
    let layout = Layout::for_architecture(&sample_layers(), "amd64", false);
    let place = tempfile::tempdir().unwrap();
    for kind in ["oci-archive", "docker-archive"] {
        let path = place.path().join(kind);
        layout.skopeo_copy_to(&format!("{kind}:{}:sample:latest", path.display()));
        let (memory, summary) = read(&path).unwrap_or_else(|e| panic!("{kind}: {}", chain(&e)));
        assert_is_sample(&memory, &summary);
        assert_eq!(summary.digest.is_some(), kind == "oci-archive");

        fs::write(&path, gzip(&fs::read(&path).unwrap())).unwrap();
        let (memory, summary) = read(&path).unwrap();
        assert_is_sample(&memory, &summary);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = read(&path).err().unwrap();
        assert_eq!(error.code(), Code::ImageRejected, "{}", chain(&error));
    }
}

#[test]
fn the_image_for_this_platform_is_selected_from_an_index() {
    let layout = sample();
    let mut ours = layout.manifests().remove(0);
    let mut other = layout.blob("application/vnd.oci.image.manifest.v1+json", b"{}");
    ours["platform"] = serde_json::json!({ "os": "linux", "architecture": "amd64" });
    other["platform"] = serde_json::json!({ "os": "linux", "architecture": "arm64" });
    let inner = serde_json::json!({ "schemaVersion": 2, "manifests": [other, ours] });
    let nested = layout.blob("application/vnd.oci.image.index.v1+json", inner.to_string().as_bytes());
    layout.index(&[nested]);
    let (memory, summary) = read(layout.path()).unwrap();
    assert_is_sample(&memory, &summary);
    assert_eq!(summary.digest.as_deref(), ours["digest"].as_str());

    layout.index(&[other]);
    assert!(refused(layout.path()).contains("only for [linux/arm64]"));
    let foreign = Layout::for_architecture(&[Tar::new().dir("etc").bytes()], "arm64", true);
    assert!(refused(foreign.path()).contains("linux/arm64, not for linux/amd64"));
}

#[test]
fn content_that_does_not_match_its_digest_is_rejected() {
    let layer = Tar::new().file("etc/a", "1").bytes();
    for (what, victim) in [("manifest", 0), ("configuration", 1), ("layer", 2)] {
        let layout = Layout::new(std::slice::from_ref(&layer));
        let manifest_hex = layout.manifest_digest().replace("sha256:", "");
        let blobs = layout.path().join("blobs/sha256");
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(blobs.join(&manifest_hex)).unwrap()).unwrap();
        let hex =
            |descriptor: &serde_json::Value| descriptor["digest"].as_str().unwrap().replace("sha256:", "");
        let path = match victim {
            0 => blobs.join(&manifest_hex),
            1 => blobs.join(hex(&manifest["config"])),
            _ => blobs.join(hex(&manifest["layers"][0])),
        };
        // Of the same length, and the layer is still a valid archive with other content.
        let bytes = fs::read(&path).unwrap();
        let forged = if victim == 2 {
            let mut forged = gzip(&Tar::new().file("etc/b", "1").bytes());
            forged.resize(bytes.len(), 0);
            forged
        } else {
            String::from_utf8(bytes).unwrap().replace("sha256", "sha512").into_bytes()
        };
        fs::write(&path, forged).unwrap();
        let said = refused(layout.path());
        assert!(said.ends_with("does not match its digest"), "{what}: {said}");
    }
}

#[test]
fn a_layer_that_does_not_match_its_diff_id_is_rejected_before_anything_is_written() {
    let layout = Layout::new(&[Tar::new().file("etc/a", "1").bytes()]);
    // A valid manifest whose configuration promises other content.
    let other = Layout::new(&[Tar::new().file("etc/evil", "1").bytes()]);
    let read_json = |layout: &Layout, digest: &str| -> serde_json::Value {
        let path = layout.path().join("blobs/sha256").join(digest.replace("sha256:", ""));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let mut manifest = read_json(&layout, &layout.manifest_digest());
    let evil = read_json(&other, &other.manifest_digest())["layers"][0].clone();
    let hex = evil["digest"].as_str().unwrap().replace("sha256:", "");
    fs::copy(other.path().join("blobs/sha256").join(&hex), layout.path().join("blobs/sha256").join(&hex))
        .unwrap();
    manifest["layers"][0] = evil;
    let forged = layout.blob("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
    layout.index(&[forged]);

    let mut memory = Memory::default();
    let error = OciSource::open_layout(layout.path())
        .unwrap()
        .stream(&mut memory, &Silent, ImportLimits::for_content(1 << 20))
        .unwrap_err();
    assert!(chain(&error).contains("content digest"), "{}", chain(&error));
    assert!(memory.order.is_empty());
}

#[test]
fn hostile_layers_are_rejected() {
    let cases = [
        (Tar::new().file("../evil", "x").bytes(), "'..'"),
        (Tar::new().file("a/../.wh.b", "").bytes(), "'..'"),
        (Tar::new().symlink("way", "way").file("way/x", "x").bytes(), "too many symbolic links"),
        (Tar::new().file("file", "x").symlink("way", "file").file("way/x", "x").bytes(), "not a directory"),
        (Tar::new().hardlink("x", "/etc/shadow").bytes(), "did not come before"),
    ];
    for (layer, why) in cases {
        let said = refused(Layout::new(&[layer]).path());
        assert!(said.contains(why), "{why}: {said}");
    }
    let bomb = Tar::new().add(tar::EntryType::Regular, "bomb", "", &vec![0; 2 << 20]).bytes();
    assert!(refused(Layout::new(&[bomb]).path()).contains("more than 1048576 bytes"));
}

#[test]
fn a_layer_follows_links_of_lower_layers_but_never_leaves_the_image() {
    let lower = Tar::new()
        .dir("usr/bin")
        .file("usr/bin/old", "1")
        .file("usr/bin/tool", "1")
        .symlink("bin", "usr/bin")
        .symlink("sbin", "/bin")
        .symlink("out", "../../../../srv")
        .dir("opt/data")
        .file("opt/data/stale", "1")
        .symlink("data", "opt/data")
        .bytes();
    let upper = Tar::new()
        .file("bin/new", "2")
        .file("sbin/.wh.old", "")
        .hardlink("sbin/same", "bin/tool")
        .file("out/page", "2")
        .file("data/.wh..wh..opq", "")
        .bytes();
    let (memory, _) = read(Layout::new(&[lower, upper]).path()).unwrap();
    assert_eq!(
        memory.names(),
        [
            "bin",
            "data",
            "opt",
            "opt/data",
            "out",
            "sbin",
            "srv",
            "srv/page",
            "usr",
            "usr/bin",
            "usr/bin/new",
            "usr/bin/same",
            "usr/bin/tool",
        ]
    );
    assert_eq!(memory.entry("usr/bin/same").kind, EntryKind::Hardlink { target: b"usr/bin/tool".to_vec() });
    assert_eq!(memory.entry("bin").kind, EntryKind::Symlink { target: b"usr/bin".to_vec() });
}

#[test]
fn a_layer_can_replace_or_remove_a_link_itself() {
    let lower =
        Tar::new().dir("usr/bin").file("usr/bin/tool", "1").symlink("a", "usr").symlink("b", "usr").bytes();
    let upper = Tar::new().dir("a").file("a/x", "2").file(".wh.b", "").bytes();
    let (memory, _) = read(Layout::new(&[lower, upper]).path()).unwrap();
    assert_eq!(memory.names(), ["a", "a/x", "usr", "usr/bin", "usr/bin/tool"]);
}

#[test]
fn missing_and_invalid_parts_are_rejected() {
    let layout = sample();
    fs::write(layout.path().join("index.json"), "{").unwrap();
    assert!(refused(layout.path()).contains("index.json"));
    fs::write(layout.path().join("index.json"), r#"{"schemaVersion":2,"manifests":[]}"#).unwrap();
    assert!(refused(layout.path()).contains("no image for linux/amd64"));
    let layout = sample();
    fs::remove_file(layout.path().join("blobs/sha256").join(layout.manifest_digest().replace("sha256:", "")))
        .unwrap();
    assert!(refused(layout.path()).contains("missing"));
}

/// A real registry on this machine.
struct Registry {
    child: Child,
    address: String,
    place: TempDir,
}

impl Registry {
    fn start(password_file: Option<&str>) -> Self {
        let place = tempfile::tempdir().unwrap();
        // Another process may take the port first: then the registry exits and the next port is tried.
        loop {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let address = format!("127.0.0.1:{port}");
            let auth = password_file.map_or(String::new(), |line| {
                let path = place.path().join("htpasswd");
                fs::write(&path, line).unwrap();
                format!("auth:\n  htpasswd:\n    realm: test\n    path: {}\n", path.display())
            });
            let config = format!(
                "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}\n{auth}",
                place.path().join("data").display()
            );
            let path = place.path().join("config.yml");
            fs::write(&path, config).unwrap();
            let mut child = Command::new("docker-registry")
                .arg("serve")
                .arg(&path)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            loop {
                if TcpStream::connect(&address).is_ok() {
                    return Self { child, address, place };
                }
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    fn push(&self, layout: &Layout, name: &str) -> String {
        let reference = format!("{}/{name}", self.address);
        layout.skopeo_copy_to(&format!("docker://{reference}"));
        reference
    }

    fn blob_file(&self, hex: &str) -> PathBuf {
        self.place.path().join("data/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pull_here(reference: &str, scratch: &Path, config: Option<&Path>) -> Result<OciSource, SourceError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(pull(reference, scratch, config, 1 << 30, &Silent))
}

#[test]
fn an_image_is_pulled_from_a_registry_without_leftovers() {
    let registry = Registry::start(None);
    let layout = sample();
    let reference = registry.push(&layout, "team/sample:1.0");
    let scratch = tempfile::tempdir().unwrap();
    let mut source = pull_here(&reference, scratch.path(), None).unwrap_or_else(|e| panic!("{}", chain(&e)));
    assert_eq!(source.describe().kind, SourceKind::Registry);
    assert_eq!(source.describe().reference, reference);
    let mut memory = Memory::default();
    let summary = source.stream(&mut memory, &Silent, ImportLimits::for_content(1 << 20)).unwrap();
    assert_is_sample(&memory, &summary);
    drop(source);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);

    // By digest, too.
    let by_digest = format!("{}/team/sample@{}", registry.address, summary.digest.unwrap());
    assert!(pull_here(&by_digest, scratch.path(), None).is_ok());
}

#[test]
fn a_blob_with_wrong_content_is_rejected() {
    let registry = Registry::start(None);
    let layout = Layout::new(&[Tar::new().file("etc/a", "1").bytes()]);
    let reference = registry.push(&layout, "sample:1.0");
    let manifest =
        fs::read(layout.path().join("blobs/sha256").join(layout.manifest_digest().replace("sha256:", "")));
    let manifest: serde_json::Value = serde_json::from_slice(&manifest.unwrap()).unwrap();
    let hex = manifest["layers"][0]["digest"].as_str().unwrap().replace("sha256:", "");
    let file = registry.blob_file(&hex);
    let mut bytes = fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&file, bytes).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let error = pull_here(&reference, scratch.path(), None).err().unwrap();
    assert_eq!(error.code(), Code::ImageRejected, "{}", chain(&error));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn unknown_images_and_unreachable_registries_are_fetch_failures() {
    let registry = Registry::start(None);
    let scratch = tempfile::tempdir().unwrap();
    let error = pull_here(&format!("{}/nobody:1", registry.address), scratch.path(), None).err().unwrap();
    assert_eq!(error.code(), Code::FetchFailed, "{}", chain(&error));
    assert!(error.remedy().unwrap().contains("name"), "{error}");
    let address = registry.address.clone();
    drop(registry);
    let error = pull_here(&format!("{address}/sample:1"), scratch.path(), None).err().unwrap();
    assert_eq!(error.code(), Code::FetchFailed, "{}", chain(&error));
    // Other registries require TLS. A name that can never exist is as far as a test may go.
    let error = pull_here("registry.invalid/sample:1", scratch.path(), None).err().unwrap();
    assert_eq!(error.code(), Code::FetchFailed, "{}", chain(&error));
    let error = pull_here("NOT A REFERENCE", scratch.path(), None).err().unwrap();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn a_registry_login_is_read_from_the_docker_configuration() {
    // "ann" with the password "s3cret".
    let registry =
        Registry::start(Some("ann:$2b$05$9jl9MfDBEh7npf/RDv1Mr.oqYeEYM.E7DFSkjBVgZ9a1uTSaQNZ6C\n"));
    let layout = Layout::new(&[Tar::new().file("etc/a", "1").bytes()]);
    let reference = format!("{}/sample:1", registry.address);
    let source = format!("oci:{}", layout.path().display());
    let destination = format!("docker://{reference}");
    run(
        "skopeo",
        &[
            "copy",
            "--insecure-policy",
            "--dest-tls-verify=false",
            "--quiet",
            "--dest-creds=ann:s3cret",
            &source,
            &destination,
        ],
    );
    let scratch = tempfile::tempdir().unwrap();
    let error = pull_here(&reference, scratch.path(), None).err().unwrap();
    assert_eq!(error.code(), Code::FetchFailed, "{}", chain(&error));
    assert!(error.remedy().unwrap().contains("log in"), "{}", chain(&error));

    let config = tempfile::NamedTempFile::new().unwrap();
    // base64 of ann:s3cret
    let text = serde_json::json!({ "auths": { &registry.address: { "auth": "YW5uOnMzY3JldA==" } } });
    fs::write(config.path(), text.to_string()).unwrap();
    pull_here(&reference, scratch.path(), Some(config.path())).unwrap_or_else(|e| panic!("{}", chain(&e)));
}
