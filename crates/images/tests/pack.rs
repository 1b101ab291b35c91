//! Written archives can be read back, by us and by other tools.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::fs::{self, File};
use std::io;
use std::path::Path;

use agentiso_core::ports::{EntryKind, RootfsEntry, RootfsSink, Timestamp};
use agentiso_images::pack::{TarSink, write_oci_archive};
use agentiso_images::store::{ImageMeta, ImageSource, OciDefaults, SourceKind};
use common::{Memory, read, run};

fn entry(path: &str, kind: EntryKind) -> RootfsEntry {
    RootfsEntry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o640,
        uid: 1000,
        gid: 3_000_000,
        mtime: Timestamp { seconds: 1_700_000_000, nanos: 0 },
        xattrs: Vec::new(),
    }
}

fn long(length: usize) -> String {
    format!("etc/{}/{}", "d".repeat(120), "f".repeat(length))
}

/// One entry of every kind, with values that do not fit in a tar header.
fn sample(sink: &mut dyn RootfsSink) -> io::Result<()> {
    let mut add = |entry: RootfsEntry, content: &str| sink.entry(&entry, &mut content.as_bytes());
    add(entry("", EntryKind::Directory), "")?;
    add(entry("etc", EntryKind::Directory), "")?;
    add(entry(&format!("etc/{}", "d".repeat(120)), EntryKind::Directory), "")?;
    let attributes =
        vec![(b"user.bin".to_vec(), vec![0, 255, b'\n', b'=']), (b"security.capability".to_vec(), vec![1])];
    add(RootfsEntry { xattrs: attributes, ..entry("etc/data", EntryKind::File { size: 4 }) }, "data")?;
    add(entry(&long(200), EntryKind::File { size: 3 }), "far")?;
    add(entry("etc/same", EntryKind::Hardlink { target: b"etc/data".to_vec() }), "")?;
    add(entry("link", EntryKind::Symlink { target: "t".repeat(300).into_bytes() }), "")?;
    add(entry("null", EntryKind::CharDevice { major: 1, minor: 3 }), "")?;
    add(entry("disk", EntryKind::BlockDevice { major: 259, minor: 70_000 }), "")?;
    add(entry("pipe", EntryKind::Fifo), "")
}

fn check(memory: &Memory) {
    let deep = format!("etc/{}", "d".repeat(120));
    let far = long(200);
    let expected = ["", "disk", "etc", "etc/data", &deep, &far, "etc/same", "link", "null", "pipe"];
    assert_eq!(memory.names(), expected);
    let data = memory.entry("etc/data");
    assert_eq!((data.mode, data.uid, data.gid, data.mtime.seconds), (0o640, 1000, 3_000_000, 1_700_000_000));
    let mut attributes = data.xattrs.clone();
    attributes.sort();
    assert_eq!(attributes[1], (b"user.bin".to_vec(), vec![0, 255, b'\n', b'=']));
    assert_eq!(memory.content(&far), b"far");
    assert_eq!(memory.entry("etc/same").kind, EntryKind::Hardlink { target: b"etc/data".to_vec() });
    assert_eq!(memory.entry("link").kind, EntryKind::Symlink { target: "t".repeat(300).into_bytes() });
    assert_eq!(memory.entry("disk").kind, EntryKind::BlockDevice { major: 259, minor: 70_000 });
    assert_eq!(memory.entry("pipe").kind, EntryKind::Fifo);
}

#[test]
fn a_tarball_survives_a_round_trip() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.tar");
    let mut sink = TarSink::new(File::create(&path).unwrap());
    sample(&mut sink).unwrap();
    let (_, entries, bytes) = sink.finish().unwrap();
    assert_eq!((entries, bytes), (9, 7));
    let (memory, summary) = read(&path).unwrap();
    check(&memory);
    assert_eq!((summary.entries, summary.bytes), (9, 7));
    let listed = std::process::Command::new("tar").arg("-tf").arg(&path).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    assert!(String::from_utf8_lossy(&listed.stdout).contains(&long(200)));
}

fn meta() -> ImageMeta {
    ImageMeta {
        name: "web".parse().unwrap(),
        source: ImageSource { kind: SourceKind::Workspace, reference: "workspace web".to_owned() },
        created: "2026-11-15T10:20:30Z".parse().unwrap(),
        digest: None,
        fs_bytes: 1 << 30,
        content_bytes: 7,
        entries: 9,
        fs_uuid: "8f1b5a52-6c0e-4b0c-9d0e-0a4f6f8f3c11".to_owned(),
        defaults: Some(OciDefaults {
            env: vec!["PATH=/bin".to_owned()],
            workdir: Some("/srv".to_owned()),
            user: Some("www".to_owned()),
            cmd: vec!["/bin/sh".to_owned()],
        }),
    }
}

fn write_archive(path: &Path, scratch: &Path) {
    write_oci_archive(File::create(path).unwrap(), scratch, &meta(), |sink| sample(sink)).unwrap();
}

#[test]
fn an_oci_archive_keeps_the_image_configuration_and_skopeo_reads_it() {
    let place = tempfile::tempdir().unwrap();
    let scratch = place.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let path = place.path().join("web.tar");
    write_archive(&path, &scratch);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
    let (memory, summary) = read(&path).unwrap();
    check(&memory);
    assert_eq!(summary.defaults, meta().defaults);
    assert!(summary.digest.unwrap().starts_with("sha256:"));
    let copy = format!("oci:{}", place.path().join("copy").display());
    let source = format!("oci-archive:{}", path.display());
    run("skopeo", &["copy", "--insecure-policy", "--quiet", &source, &copy]);
}

#[test]
fn entries_that_remove_others_cannot_be_written() {
    let mut sink = TarSink::new(Vec::new());
    let refused = sink.entry(&entry("etc", EntryKind::Removed), &mut io::empty());
    assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
