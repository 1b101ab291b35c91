//! Conformance tests of the qcow2 back end.

#![expect(clippy::unwrap_used, reason = "test fixtures may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use agentiso_core::Explain;
use agentiso_core::ports::{DiskError, DiskSource, Disks};
use agentiso_disks::{Qcow2Layers, Reflinks, Wanted, choose};
use agentiso_testing::disks::{ImagoScribe, Lab, Scribe, conformance, random_histories};

fn lab(dir: &Path) -> Lab<'_> {
    Lab::new(&Qcow2Layers, &ImagoScribe, dir)
}

/// A directory where flushing is free.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn qcow2_layers_pass_the_conformance_tests() {
    let dir = tempfile::tempdir().unwrap();
    conformance(lab(dir.path()));
}

#[test]
fn random_writes_to_one_layer_are_read_back() {
    random_histories(lab(in_memory().path()), 1, 30);
}

#[test]
fn random_writes_to_three_layers_are_read_back() {
    random_histories(lab(in_memory().path()), 3, 20);
}

#[test]
fn random_writes_to_twelve_layers_are_read_back() {
    random_histories(lab(in_memory().path()), 12, 6);
}

#[test]
fn a_raw_image_is_not_a_layer() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("base.img");
    fs::write(&raw, vec![7; 1 << 20]).unwrap();
    let refused = Qcow2Layers.create(&dir.path().join("disk"), &DiskSource::Layer(raw.clone()), 1 << 30);
    assert!(matches!(refused, Err(DiskError::BadSource { .. })), "{refused:?}");
    assert!(matches!(Qcow2Layers.open(&raw), Err(DiskError::BadDisk { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_disk_that_backs_itself_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(dir.path());
    fs::write(dir.path().join("base.img"), vec![7; 1 << 20]).unwrap();
    let first = lab.create("a", &DiskSource::Raw(dir.path().join("base.img")), 1 << 30);
    let second = lab.create("b", &DiskSource::Layer(first.clone()), 1 << 30);
    fs::remove_file(&first).unwrap();
    fs::copy(&second, &first).unwrap();
    let third = lab.create("c", &DiskSource::Layer(second.clone()), 1 << 30);
    fs::rename(third, second).unwrap();
    assert!(matches!(Qcow2Layers.open(&first), Err(DiskError::BadDisk { .. })));
}

#[test]
fn a_disk_with_damaged_tables_is_rejected_or_read_without_panicking() {
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(dir.path());
    fs::write(dir.path().join("base.img"), vec![7; 1 << 20]).unwrap();
    let image = DiskSource::Raw(dir.path().join("base.img"));
    let lower = lab.create("a", &image, 1 << 30);
    let disk = lab.create("b", &DiskSource::Layer(lower), 1 << 30);
    ImagoScribe.write(&disk, 0, &vec![1; 1 << 20]);
    let sound = fs::read(&disk).unwrap();
    let mut refused = 0;
    // Change every non-zero byte of the tables, one at a time.
    for index in (0..sound.len()).filter(|&index| sound[index] != 0 && sound[index] != 1) {
        for value in [0x40, 0xff, sound[index] ^ 1] {
            let mut odd = sound.clone();
            odd[index] = value;
            fs::write(&disk, &odd).unwrap();
            let read = Qcow2Layers.open(&disk).map(|view| view.read_at(0, &mut vec![0; 1 << 20]));
            refused += usize::from(!matches!(read, Ok(Ok(()))));
            if Qcow2Layers.collapse(&disk, &image).is_err() {
                assert_eq!(fs::read(&disk).unwrap(), odd, "a failed collapse changed the disk");
            }
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
        }
    }
    assert!(refused > 10, "only {refused} kinds of damage were seen");
}

/// Set in the process that may only write small files.
const LIMITED: &str = "AGENTISO_TEST_LIMITED_DISK";

#[test]
fn a_full_disk_changes_nothing() {
    if let Some(dir) = std::env::var_os(LIMITED) {
        return fail_to_create_and_collapse(lab(Path::new(&dir)));
    }
    let dir = tempfile::tempdir().unwrap();
    let lab = lab(dir.path());
    fs::write(dir.path().join("base.img"), vec![7; 1 << 20]).unwrap();
    let lower = lab.create("lower", &DiskSource::Raw(dir.path().join("base.img")), 1 << 30);
    ImagoScribe.write(&lower, 0, &vec![1; 1 << 20]);
    let disk = lab.create("disk", &DiskSource::Layer(lower), 1 << 30);
    // 64 KiB: less than a disk needs. The shell ignores SIGXFSZ, so that the write fails instead.
    let limited = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_full_disk_changes_nothing"])
        .env(LIMITED, dir.path())
        .output()
        .unwrap();
    assert!(limited.status.success(), "{}", String::from_utf8_lossy(&limited.stdout));
    assert_eq!(lab.read(&disk, 0, 1 << 20), vec![1; 1 << 20]);
}

fn fail_to_create_and_collapse(lab: Lab<'_>) {
    let names = || fs::read_dir(lab.dir).unwrap().count();
    let before = names();
    let image = DiskSource::Raw(lab.dir.join("base.img"));
    let created = Qcow2Layers.create(&lab.path("more"), &image, 1 << 30);
    assert!(matches!(created, Err(DiskError::Io { .. })), "{created:?}");
    let collapsed = Qcow2Layers.collapse(&lab.path("disk"), &image);
    assert!(matches!(collapsed, Err(DiskError::Io { .. })), "{collapsed:?}");
    assert_eq!(names(), before);
}

#[test]
fn an_unusable_directory_does_not_select_another_back_end() {
    let missing = Path::new("/no/such/directory");
    assert!(matches!(choose(missing, Wanted::Auto), Err(DiskError::Io { .. })));
    assert!(matches!(choose(missing, Wanted::Reflink), Err(DiskError::Io { .. })));
    assert_eq!(choose(missing, Wanted::Qcow2).unwrap().disks.name(), "qcow2");
}

#[test]
fn tmpfs_does_not_support_reflinks() {
    let dir = in_memory();
    let choice = choose(dir.path(), Wanted::Auto).unwrap();
    assert_eq!(choice.disks.name(), "qcow2");
    assert!(choice.why.contains("tmpfs"), "{}", choice.why);
    assert!(matches!(choose(dir.path(), Wanted::Reflink), Err(DiskError::NoReflinks { .. })));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn without_reflinks_the_reason_is_told() {
    let dir = in_memory();
    let image = dir.path().join("base.img");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let refused =
        Reflinks.create(&dir.path().join("disk.raw"), &DiskSource::Raw(image), 1 << 30).unwrap_err();
    assert!(
        matches!(&refused, DiskError::NoReflinks { file_system, .. } if file_system == "tmpfs"),
        "{refused:?}"
    );
    assert!(refused.remedy().is_some());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}
