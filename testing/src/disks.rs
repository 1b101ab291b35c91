//! What every disk back end must do.

use std::fs;
use std::path::Path;

use agentiso_core::ports::{DiskError, DiskSource, Disks};

/// Runs a back end through everything that is promised of all of them.
///
/// # Panics
///
/// If the back end breaks a promise.
pub fn conformance(disks: &dyn Disks, dir: &Path) {
    let raw = dir.join("base.raw");
    fs::write(&raw, vec![7; 1 << 20]).expect("a raw image");
    let source = DiskSource::Raw(raw.clone());
    a_new_disk_is_small_and_leaves_its_source_alone(disks, dir, &source);
    a_layer_can_be_a_source(disks, dir);
    an_existing_file_is_never_overwritten(disks, dir, &source);
    a_refused_disk_leaves_nothing(disks, dir, &raw);
}

fn a_new_disk_is_small_and_leaves_its_source_alone(disks: &dyn Disks, dir: &Path, source: &DiskSource) {
    let before = fs::read(source.path()).expect("the source");
    let path = dir.join("disk");
    disks.create(&path, source, 10 << 30).expect("a disk");
    let taken = std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&path).expect("the disk")) * 512;
    assert!(taken <= 512 << 10, "a new disk takes {taken} bytes");
    assert!(fs::read(source.path()).expect("the source") == before);
}

fn a_layer_can_be_a_source(disks: &dyn Disks, dir: &Path) {
    let first = DiskSource::Layer(dir.join("disk"));
    disks.create(&dir.join("second"), &first, 10 << 30).expect("a disk on a layer");
    let smaller = disks.create(&dir.join("smaller"), &first, 1 << 30);
    assert!(matches!(smaller, Err(DiskError::TooSmall { .. })), "{smaller:?}");
}

fn an_existing_file_is_never_overwritten(disks: &dyn Disks, dir: &Path, source: &DiskSource) {
    let path = dir.join("precious");
    fs::write(&path, b"precious").expect("a file");
    let refused = disks.create(&path, source, 10 << 30);
    assert!(matches!(refused, Err(DiskError::Exists(_))), "{refused:?}");
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
}

fn a_refused_disk_leaves_nothing(disks: &dyn Disks, dir: &Path, raw: &Path) {
    let path = dir.join("refused");
    let missing = disks.create(&path, &DiskSource::Raw(dir.join("missing.raw")), 10 << 30);
    assert!(matches!(missing, Err(DiskError::BadSource { .. })), "{missing:?}");
    let not_a_layer = disks.create(&path, &DiskSource::Layer(raw.to_owned()), 10 << 30);
    assert!(matches!(not_a_layer, Err(DiskError::BadSource { .. })), "{not_a_layer:?}");
    let too_small = disks.create(&path, &DiskSource::Raw(raw.to_owned()), 1 << 10);
    assert!(matches!(too_small, Err(DiskError::TooSmall { .. })), "{too_small:?}");
    let nowhere = disks.create(&dir.join("no/such/dir/disk"), &DiskSource::Raw(raw.to_owned()), 10 << 30);
    assert!(matches!(nowhere, Err(DiskError::Io { .. })), "{nowhere:?}");
    assert!(!path.exists());
}
