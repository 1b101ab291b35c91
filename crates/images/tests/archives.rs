//! Tarballs and directories, valid and hostile.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

mod common;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{EntryKind, Timestamp};
use agentiso_core::{Code, Explain, chain};
use agentiso_images::source::{ImportLimits, SourceError};
use common::{Memory, Tar, read, read_within, run};
use tempfile::TempDir;

fn archive(bytes: &[u8]) -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rootfs.tar");
    fs::write(&path, bytes).unwrap();
    (place, path)
}

fn read_tar(bytes: &[u8]) -> Result<Memory, SourceError> {
    let (_place, path) = archive(bytes);
    read(&path).map(|(memory, _)| memory)
}

fn refused(bytes: &[u8]) -> String {
    match read_tar(bytes) {
        Ok(memory) => panic!("accepted as {:?}", memory.names()),
        Err(error) => {
            assert_eq!(error.code(), Code::ImageRejected, "{error}");
            chain(&error)
        }
    }
}

/// A directory with every kind of entry of a root file system.
fn sample_root() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("usr/bin")).unwrap();
    fs::write(at("usr/bin/sh"), "#!shell\n").unwrap();
    fs::set_permissions(at("usr/bin/sh"), fs::Permissions::from_mode(0o4755)).unwrap();
    fs::hard_link(at("usr/bin/sh"), at("usr/bin/ash")).unwrap();
    symlink("usr/bin", at("bin")).unwrap();
    symlink("/nowhere/at/all", at("dangling")).unwrap();
    fs::create_dir(at("tmp")).unwrap();
    fs::set_permissions(at("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at(&"n".repeat(200)), "a long name").unwrap();
    fs::create_dir_all(at(&format!("{0}/{0}", "d".repeat(120)))).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(at("usr/bin/sh"), "user.note", b"line\nbreak=\0", flags).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let sparse = fs::File::create(at("sparse")).unwrap();
    sparse.set_len(300_000).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"island", 150_000).unwrap();
    root
}

fn assert_is_sample(memory: &Memory, root: &Path) {
    let sh = memory.entry("usr/bin/sh");
    let ash = memory.entry("usr/bin/ash");
    let (file, link) = if matches!(sh.kind, EntryKind::File { .. }) { (sh, ash) } else { (ash, sh) };
    assert_eq!(file.mode, 0o4755);
    assert_eq!(link.kind, EntryKind::Hardlink { target: file.path.clone() });
    assert_eq!(file.xattrs, [(b"user.note".to_vec(), b"line\nbreak=\0".to_vec())]);
    assert_eq!(memory.content("usr/bin/sh"), b"#!shell\n");
    assert_eq!(memory.content("usr/bin/ash"), b"#!shell\n");
    assert_eq!(memory.entry("bin").kind, EntryKind::Symlink { target: b"usr/bin".to_vec() });
    assert_eq!(memory.entry("dangling").kind, EntryKind::Symlink { target: b"/nowhere/at/all".to_vec() });
    assert_eq!(memory.entry("tmp").mode, 0o1777);
    assert_eq!(memory.entry("pipe").kind, EntryKind::Fifo);
    assert_eq!(memory.content(&"n".repeat(200)), b"a long name");
    assert_eq!(memory.entry(&format!("{0}/{0}", "d".repeat(120))).kind, EntryKind::Directory);
    let sparse = memory.content("sparse");
    assert_eq!(sparse.len(), 300_000);
    assert_eq!(&sparse[150_000..150_006], b"island");
    assert!(sparse[..150_000].iter().chain(&sparse[150_006..]).all(|byte| *byte == 0));
    let meta = fs::metadata(root.join("usr/bin/sh")).unwrap();
    assert_eq!((file.uid, file.gid), (meta.uid(), meta.gid()));
    assert_eq!(file.mtime.seconds, meta.mtime());
}

#[test]
fn a_directory_is_imported_completely() {
    let root = sample_root();
    let _socket = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    let (memory, summary) = read(root.path()).unwrap();
    assert_is_sample(&memory, root.path());
    assert!(!memory.names().contains(&"socket"));
    assert_eq!(summary.entries, memory.files.len() as u64 - 1);
    let nanos = fs::metadata(root.path().join("empty")).unwrap().mtime_nsec();
    assert_eq!(i64::from(memory.entry("empty").mtime.nanos), nanos);
}

#[test]
fn a_tarball_is_imported_completely_in_every_format_and_compression() {
    let root = sample_root();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rootfs.tar");
    let out = path.to_str().unwrap();
    let from = root.path().to_str().unwrap();
    for packing in [&[][..], &["--gzip"], &["--xz"], &["--zstd"]] {
        for sparse in [
            &["--sparse"][..],
            &["--sparse", "--sparse-version=0.0"],
            &["--sparse", "--sparse-version=0.1"],
            &[],
        ] {
            let options =
                [&["--format=pax", "--xattrs", "-C", from, "-cf", out], packing, sparse, &["."]].concat();
            run("tar", &options);
            let (memory, _) = read(&path).unwrap_or_else(|e| panic!("{options:?}: {}", chain(&e)));
            assert_is_sample(&memory, root.path());
        }
    }
}

#[test]
fn the_old_gnu_format_supports_long_names_and_sparse_files() {
    let root = sample_root();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("rootfs.tar");
    run(
        "tar",
        &[
            "--format=gnu",
            "--sparse",
            "-C",
            root.path().to_str().unwrap(),
            "-cf",
            path.to_str().unwrap(),
            ".",
        ],
    );
    let (memory, _) = read(&path).unwrap();
    assert_eq!(memory.content(&"n".repeat(200)), b"a long name");
    assert_eq!(&memory.content("sparse")[150_000..150_006], b"island");
    assert_eq!(memory.content("sparse").len(), 300_000);
}

#[test]
fn large_owner_ids_are_kept_and_impossible_ones_are_rejected() {
    let mut header = tar::Header::new_gnu();
    header.set_path("file").unwrap();
    header.set_size(0);
    header.set_mode(0o600);
    header.set_uid(4_000_000_000);
    header.set_gid(3_000_000_000);
    header.set_cksum();
    let mut tar = Tar::new();
    tar.0.append(&header, &b""[..]).unwrap();
    let memory = read_tar(&tar.bytes()).unwrap();
    assert_eq!((memory.entry("file").uid, memory.entry("file").gid), (4_000_000_000, 3_000_000_000));

    header.set_uid(u64::from(u32::MAX));
    header.set_cksum();
    tar.0.append(&header, &b""[..]).unwrap();
    assert!(refused(&tar.bytes()).contains("owner"));
}

#[test]
fn missing_parents_are_created_and_paths_are_normalised() {
    let memory = read_tar(&Tar::new().file("/abs/./deep//file", "x").dir("./").bytes()).unwrap();
    assert_eq!(memory.content("abs/deep/file"), b"x");
    let made = memory.entry("abs/deep");
    assert_eq!((made.mode, made.uid, made.mtime), (0o755, 0, Timestamp::default()));
}

#[test]
fn the_last_of_several_entries_wins() {
    let memory = read_tar(
        &Tar::new()
            .file("a", "old")
            .hardlink("keeps", "a")
            .file("a", "new")
            .dir("d")
            .file("d/below", "x")
            .file("d", "now a file")
            .symlink("s", "elsewhere")
            .dir("s")
            .file("s/inside", "fine: it is a directory now")
            .bytes(),
    )
    .unwrap();
    assert_eq!(memory.content("a"), b"new");
    assert_eq!(memory.content("keeps"), b"old");
    assert_eq!(memory.content("d"), b"now a file");
    assert_eq!(memory.names(), ["a", "d", "keeps", "s", "s/inside"]);
}

#[test]
fn paths_with_parent_components_are_rejected() {
    for path in ["../evil", "a/../../evil", "/..", ".."] {
        assert!(refused(&Tar::new().file(path, "x").bytes()).contains("'..'"), "{path}");
    }
    assert!(refused(&Tar::new().dir("ok").hardlink("ok/link", "../../etc/passwd").bytes()).contains("'..'"));
}

#[test]
fn nothing_is_written_through_a_symbolic_link() {
    for target in ["/etc", "../..", "inside"] {
        let said = refused(&Tar::new().dir("inside").symlink("way", target).file("way/passwd", "x").bytes());
        assert!(said.contains("way/passwd") && said.contains("symbolic link \"way\""), "{said}");
    }
    let said = refused(&Tar::new().file("file", "x").file("file/below", "x").bytes());
    assert!(said.contains("not a directory"), "{said}");
}

#[test]
fn hard_links_can_only_refer_to_earlier_files() {
    for (link, why) in [
        ("/etc/shadow", "did not come before"),
        ("later", "did not come before"),
        ("dir", "directory"),
        ("self", "did not come before"),
    ] {
        let said = refused(&Tar::new().dir("dir").hardlink("self", link).file("later", "x").bytes());
        assert!(said.contains(why), "{link}: {said}");
    }
    let said = refused(&Tar::new().file("a", "x").hardlink("a", "a").bytes());
    assert!(said.contains("itself"), "{said}");
    let said = refused(&Tar::new().dir("d").file("d/f", "x").hardlink("d", "d/f").bytes());
    assert!(said.contains("holds its link target"), "{said}");
}

#[test]
fn the_number_of_devices_is_limited() {
    let devices = |count: usize| {
        let mut tar = Tar::new();
        for number in 0..count {
            tar.add(tar::EntryType::Char, &format!("dev/{number}"), "", b"");
        }
        tar.bytes()
    };
    let memory = read_tar(&devices(4096)).unwrap();
    assert_eq!(memory.entry("dev/7").kind, EntryKind::CharDevice { major: 1, minor: 3 });
    assert!(refused(&devices(4097)).contains("more than 4096 devices"));
}

#[test]
fn entries_beyond_the_limit_are_rejected() {
    let (_place, path) = archive(&Tar::new().file("a", "").file("b", "").file("c", "").bytes());
    let limits = |entries| ImportLimits { entries, ..ImportLimits::for_content(100) };
    assert!(read_within(&path, limits(3)).is_ok());
    let error = read_within(&path, limits(2)).err().unwrap();
    assert!(error.to_string().contains("more than 2 entries"), "{error}");
}

#[test]
fn size_bombs_are_rejected_early() {
    // Ten megabytes of zeros, compressed to almost nothing.
    let mut tar = Tar::new();
    tar.add(tar::EntryType::Regular, "bomb", "", &vec![0; 10 << 20]);
    let packed = zstd::encode_all(&tar.bytes()[..], 19).unwrap();
    assert!(packed.len() < 10_000);
    assert!(refused(&packed).contains("more than 1048576 bytes"));

    // A sparse file of a terabyte.
    let place = tempfile::tempdir().unwrap();
    fs::File::create(place.path().join("hole")).unwrap().set_len(1 << 40).unwrap();
    let path = place.path().join("sparse.tar");
    run("tar", &["--sparse", "-C", place.path().to_str().unwrap(), "-cf", path.to_str().unwrap(), "hole"]);
    let error = read(&path).err().unwrap();
    assert!(matches!(error, SourceError::TooLarge { limit: 1_048_576, .. }), "{error}");
    assert!(error.remedy().unwrap().contains("larger file system"));
}

#[test]
fn a_header_that_claims_gigabytes_is_rejected_without_reading_them() {
    let mut header = tar::Header::new_gnu();
    header.set_path("x").unwrap();
    header.set_entry_type(tar::EntryType::XHeader);
    header.set_size(4 << 30);
    header.set_cksum();
    let said = refused(header.as_bytes());
    assert!(said.contains("absurd"), "{said}");
}

#[test]
fn overlong_names_are_rejected() {
    let mut tar = Tar::new();
    let long = "n".repeat(256);
    tar.add(tar::EntryType::GNULongName, "././@LongLink", "", long.as_bytes()).file("short", "x");
    assert!(refused(&tar.bytes()).contains("too long"));
}

#[test]
fn truncated_archives_are_reported_as_incomplete() {
    let bytes = Tar::new().file("a", &"x".repeat(1000)).file("b", "y").bytes();
    for cut in [0, 100, 512, 600, 1536, 1600, 2048, 2560] {
        let said = refused(&bytes[..cut]);
        assert!(said.contains("damaged or incomplete"), "{cut}: {said}");
    }
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(&bytes).unwrap();
    let xz = xz.finish().unwrap();
    for cut in [xz.len() - 1, xz.len() / 2, 8] {
        let said = refused(&xz[..cut]);
        assert!(said.contains("damaged or incomplete"), "{cut}: {said}");
    }
}

#[test]
fn a_flipped_bit_in_a_header_is_detected() {
    let mut bytes = Tar::new().file("a", "x").bytes();
    bytes[0] ^= 1;
    assert!(refused(&bytes).contains("checksum"));
    assert!(
        refused(b"this is no archive at all, but it is long enough to be taken for one ............")
            .contains("incomplete")
    );
}

#[test]
fn a_missing_source_is_an_io_error() {
    let error = read(Path::new("/nonexistent/rootfs.tar")).err().unwrap();
    assert_eq!(error.code(), Code::Io);
    assert!(chain(&error).contains("/nonexistent/rootfs.tar"));
}

#[test]
fn a_full_sink_and_a_broken_source_are_different_errors() {
    struct Full;
    impl agentiso_core::ports::RootfsSink for Full {
        fn entry(
            &mut self,
            _entry: &agentiso_core::ports::RootfsEntry,
            _content: &mut dyn std::io::Read,
        ) -> std::io::Result<()> {
            Err(std::io::Error::from_raw_os_error(28))
        }
    }
    let (place, path) = archive(&Tar::new().file("a", "x").bytes());
    let mut source = agentiso_images::source::open(&path, place.path()).unwrap();
    let limits = ImportLimits::for_content(100);
    let error = source.stream(&mut Full, &agentiso_core::progress::Silent, limits).unwrap_err();
    assert_eq!(error.code(), Code::DiskFull);
}
