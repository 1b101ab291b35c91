//! Workspace archives: the recorded format, and hostile archives.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use std::fs;
use std::io::Write;
use std::path::Path;

use agentiso_core::progress::Silent;
use agentiso_core::{Code, Explain, chain};
use agentiso_images::archive::{ArchiveWriter, WorkspaceArchive, WorkspaceDescription};
use agentiso_images::source::{ImportLimits, RootfsSource, SourceError};
use common::{Memory, Tar};

/// Recorded once and never changed: the description and one piece, which is an uncompressed tarball.
const FROZEN: &[u8] = include_bytes!("samples/workspace-1.agentiso");

const DESCRIPTION: &str = r#"{"name":"web","image":"debian","vcpus":2,"memory_mb":1024,"disk_gb":20,"labels":{"team":"blue"},"created":"2026-11-15T10:20:30Z","exported":"2026-11-16T10:20:30Z","defaults":{"env":["PATH=/bin"],"workdir":"/srv"}}"#;

fn description() -> WorkspaceDescription {
    serde_json::from_str(DESCRIPTION).unwrap()
}

fn files() -> Vec<u8> {
    Tar::new().dir("etc").file("etc/a", "1").symlink("link", "etc/a").bytes()
}

fn archive(payload: &[u8]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new(), &description()).unwrap();
    writer.write_all(payload).unwrap();
    let (bytes, length) = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, length);
    bytes
}

/// Builds an archive from arbitrary parts, with the right checksum.
fn forged(version: u32, description: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut bytes = b"agentiso-wspace\n".to_vec();
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&u32::try_from(description.len()).unwrap().to_le_bytes());
    bytes.extend_from_slice(description);
    bytes.extend_from_slice(rest);
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

fn piece(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
}

const END: [u8; 4] = [0; 4];

fn read(bytes: &[u8]) -> Result<(Memory, WorkspaceDescription), SourceError> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("archive");
    fs::write(&path, bytes).unwrap();
    let mut archive = WorkspaceArchive::open(&path, "the archive")?;
    let mut memory = Memory::default();
    let summary = archive.stream(&mut memory, &Silent, ImportLimits::for_content(1 << 20))?;
    assert_eq!(summary.defaults, archive.description.defaults);
    Ok((memory, archive.description))
}

fn refused(bytes: &[u8]) -> String {
    let error = read(bytes).err().expect("it was accepted");
    assert_eq!(error.code(), Code::ImageRejected, "{}", chain(&error));
    chain(&error)
}

#[test]
fn version_1_is_written_and_read_as_recorded() {
    let written = archive(&files());
    if std::env::var_os("UPDATE_SAMPLES").is_some() {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
        fs::create_dir_all(&samples).unwrap();
        fs::write(samples.join("workspace-1.agentiso"), &written).unwrap();
    }
    assert!(written == FROZEN, "the format has changed: it needs a new version");
    assert!(written == forged(1, DESCRIPTION.as_bytes(), &[&piece(&files())[..], &END].concat()));
    let (memory, about) = read(FROZEN).unwrap();
    assert_eq!(about, description());
    assert_eq!(memory.names(), ["etc", "etc/a", "link"]);
    assert_eq!(memory.content("etc/a"), b"1");
}

#[test]
fn compressed_files_in_many_pieces_are_read_back() {
    let noise: Vec<u8> =
        (0..3_000_000_u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let mut tar = Tar::new();
    tar.add(tar::EntryType::Regular, "noise", "", &noise[..900_000]);
    let packed = zstd::encode_all(&tar.bytes()[..], 1).unwrap();
    let (memory, _) = read(&archive(&packed)).unwrap();
    assert_eq!(memory.content("noise"), &noise[..900_000]);
    let mut writer = ArchiveWriter::new(Vec::new(), &description()).unwrap();
    writer.write_all(&noise).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    let head = 16 + 4 + 4 + DESCRIPTION.len();
    assert_eq!(bytes[head..head + 4], (1_u32 << 20).to_le_bytes(), "no piece is longer than a MiB");
    assert_eq!(bytes.len(), head + 3 * 4 + noise.len() + 4 + 32);
}

#[test]
fn a_truncated_or_changed_archive_is_rejected() {
    for length in (0..FROZEN.len()).step_by(37).chain([FROZEN.len() - 1]) {
        refused(&FROZEN[..length]);
    }
    for at in (0..FROZEN.len()).step_by(41).chain([FROZEN.len() - 1]) {
        let mut changed = FROZEN.to_vec();
        changed[at] ^= 0x20;
        refused(&changed);
    }
    refused(&[FROZEN, b"more"].concat());
}

#[test]
fn a_forged_archive_with_the_right_checksum_is_rejected_with_the_reason() {
    let good = DESCRIPTION.as_bytes();
    let whole = [&piece(&files())[..], &END].concat();
    let climbs = [&piece(&Tar::new().file("../evil", "x").bytes())[..], &END].concat();
    let huge = vec![0; (1 << 20) + 1];
    let cases: [(Vec<u8>, &str); 9] = [
        (forged(2, good, &whole), "version 2"),
        (forged(1, b"{}", &whole), "description cannot be understood"),
        (forged(1, DESCRIPTION.replace("\"web\"", "\"../web\"").as_bytes(), &whole), "cannot be understood"),
        (forged(1, &vec![b' '; (256 << 10) + 1], &whole), "description is too long"),
        (forged(1, good, &[&piece(&huge)[..], &END].concat()), "piece of it is too long"),
        (forged(1, good, &piece(&files())), "piece of it is too long"),
        (forged(1, good, &[&whole[..], b"x"].concat()), "does not end where it should"),
        (forged(1, good, &END), "not a tar archive"),
        (forged(1, good, &climbs), "'..'"),
    ];
    for (bytes, why) in cases {
        let said = refused(&bytes);
        assert!(said.contains(why), "{why}: {said}");
        assert!(said.contains("the archive"), "{said}");
    }
    let bomb = zstd::encode_all(
        &Tar::new().add(tar::EntryType::Regular, "bomb", "", &vec![0; 2 << 20]).bytes()[..],
        19,
    );
    assert!(refused(&archive(&bomb.unwrap())).contains("more than 1048576 bytes"));
}

#[test]
fn an_overlong_description_is_not_written() {
    let mut long = description();
    long.labels.insert("key".to_owned(), "x".repeat(300 << 10));
    assert!(ArchiveWriter::new(Vec::new(), &long).is_err());
}
