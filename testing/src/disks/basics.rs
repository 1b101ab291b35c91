//! Making, freezing and reading.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;

use agentiso_core::ports::{DiskError, DiskSource, Freezing};

use super::Lab;

const MIB: usize = 1 << 20;
const SIZE: u64 = 10 << 30;

pub(super) fn all(lab: Lab<'_>) {
    let raw = lab.dir.join("base.img");
    fs::write(&raw, vec![7; MIB]).expect("a raw image");
    let source = DiskSource::Raw(raw.clone());
    a_new_disk_reads_as_its_source_and_as_zeros_beyond(lab, &source);
    disks_on_one_source_are_independent(lab, &source);
    a_frozen_disk_keeps_what_it_held(lab, &source);
    a_copy_has_what_was_written_when_it_was_held(lab, &source);
    a_source_that_is_larger_is_refused(lab);
    an_existing_file_is_never_overwritten(lab, &source);
    a_refused_disk_leaves_nothing(lab, &raw);
    a_stale_partial_file_is_in_nobodys_way(lab, &source);
    reading_beyond_the_end_is_refused(lab);
    what_is_no_disk_is_refused(lab);
    assert!(fs::read(&raw).expect("the source") == vec![7; MIB], "the source was written to");
}

fn a_new_disk_reads_as_its_source_and_as_zeros_beyond(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("fresh", source, SIZE);
    let view = lab.disks.open(&disk).expect("a disk that opens");
    assert_eq!(view.size(), SIZE);
    assert_eq!(lab.read(&disk, MIB as u64 - 100, 200), [[7; 100], [0; 100]].concat());
    assert_eq!(lab.read(&disk, SIZE - 100, 100), [0; 100]);
}

fn disks_on_one_source_are_independent(lab: Lab<'_>, source: &DiskSource) {
    let (first, second) = (lab.create("twin-1", source, SIZE), lab.create("twin-2", source, SIZE));
    lab.scribe.write(&first, 100, b"first");
    lab.scribe.write(&second, 102, b"second");
    assert_eq!(lab.read(&first, 99, 10), *b"\x07first\x07\x07\x07\x07");
    assert_eq!(lab.read(&second, 99, 10), *b"\x07\x07\x07second\x07");
}

fn a_frozen_disk_keeps_what_it_held(lab: Lab<'_>, source: &DiskSource) {
    let active = lab.create("active", source, SIZE);
    lab.scribe.write(&active, 5, b"before");
    let (frozen, active) = lab.freeze(&active, "fresh-one", SIZE);
    lab.scribe.write(&active, 5, b"after!");
    let child = lab.create("child", &DiskSource::Layer(frozen.clone()), 2 * SIZE);
    lab.scribe.write(&child, 5, b"child!");
    lab.scribe.write(&child, 2 * SIZE - 3, b"end");
    assert_eq!(lab.read(&frozen, 5, 6), b"before");
    assert_eq!(lab.read(&active, 5, 6), b"after!");
    assert_eq!(lab.read(&child, 5, 6), b"child!");
    assert_eq!(lab.read(&child, 2 * SIZE - 4, 4), b"\0end");
    let expected = match lab.disks.freezing() {
        Freezing::Overlay => Some(DiskSource::Layer(frozen.canonicalize().expect("a path"))),
        Freezing::Copy => None,
    };
    assert_eq!(lab.disks.parent(&active).expect("a parent"), expected);
    assert_eq!(lab.disks.parent(&child).expect("a parent"), expected);
}

/// The writer has the disk open all the time, as a machine has.
fn a_copy_has_what_was_written_when_it_was_held(lab: Lab<'_>, source: &DiskSource) {
    if lab.disks.freezing() != Freezing::Copy {
        return;
    }
    let active = lab.create("written", source, SIZE);
    let writer = OpenOptions::new().write(true).open(&active).expect("a disk");
    let write = |bytes: &[u8]| writer.write_all_at(bytes, 5).expect("a write");
    let copy = lab.path("held");
    write(b"first!");
    let prepared = lab.disks.prepare_copy(&copy, &active, SIZE).expect("a copy");
    write(b"second");
    match prepared {
        Some(mut held) => {
            held.hold().expect("what is there");
            write(b"third!");
            held.finish().expect("a copy");
        }
        None => {
            lab.disks.create(&copy, &DiskSource::Layer(active.clone()), SIZE).expect("a copy");
            write(b"third!");
        }
    }
    assert_eq!((lab.read(&copy, 5, 6), lab.read(&active, 5, 6)), (b"second".to_vec(), b"third!".to_vec()));
    // One that is given up leaves nothing.
    let names = lab.names();
    drop(lab.disks.prepare_copy(&lab.path("given-up"), &active, SIZE).expect("a copy"));
    assert_eq!(lab.names(), names);
}

fn a_source_that_is_larger_is_refused(lab: Lab<'_>) {
    let source = DiskSource::Layer(lab.path("fresh"));
    let smaller = lab.disks.create(&lab.path("smaller"), &source, 1 << 30);
    assert!(matches!(smaller, Err(DiskError::TooSmall { .. })), "{smaller:?}");
    assert!(!lab.path("smaller").exists());
}

fn an_existing_file_is_never_overwritten(lab: Lab<'_>, source: &DiskSource) {
    let path = lab.path("precious");
    fs::write(&path, b"precious").expect("a file");
    let refused = lab.disks.create(&path, source, SIZE);
    assert!(matches!(refused, Err(DiskError::Exists(_))), "{refused:?}");
    assert_eq!(fs::read(&path).expect("the file"), b"precious");
    let dangling = lab.path("dangling");
    symlink("nowhere", &dangling).expect("a link");
    let refused = lab.disks.create(&dangling, source, SIZE);
    assert!(matches!(refused, Err(DiskError::Exists(_))), "{refused:?}");
    assert_eq!(fs::read_link(&dangling).expect("the link"), PathBuf::from("nowhere"));
}

fn a_refused_disk_leaves_nothing(lab: Lab<'_>, raw: &std::path::Path) {
    let names = lab.names();
    let path = lab.path("refused");
    let missing = lab.disks.create(&path, &DiskSource::Raw(lab.dir.join("missing.img")), SIZE);
    assert!(matches!(missing, Err(DiskError::BadSource { .. })), "{missing:?}");
    for source in [DiskSource::Raw(lab.dir.to_owned()), DiskSource::Layer(lab.dir.to_owned())] {
        let directory = lab.disks.create(&path, &source, SIZE);
        assert!(matches!(directory, Err(DiskError::BadSource { .. })), "{directory:?}");
    }
    let too_small = lab.disks.create(&path, &DiskSource::Raw(raw.to_owned()), 1 << 10);
    assert!(matches!(too_small, Err(DiskError::TooSmall { .. })), "{too_small:?}");
    let nowhere = lab.disks.create(&lab.dir.join("no/such/dir/disk"), &DiskSource::Raw(raw.to_owned()), SIZE);
    assert!(matches!(nowhere, Err(DiskError::Io { .. })), "{nowhere:?}");
    assert_eq!(lab.names(), names);
}

fn a_stale_partial_file_is_in_nobodys_way(lab: Lab<'_>, source: &DiskSource) {
    let path = lab.path("interrupted");
    let name = path.file_name().expect("a name");
    let partial = lab.dir.join(agentiso_core::ports::partial_name(name));
    fs::write(&partial, vec![9; MIB]).expect("a partial file");
    lab.create("interrupted", source, SIZE);
    assert!(!partial.exists());
    assert_eq!(lab.read(&path, 0, 10), [7; 10]);
}

fn reading_beyond_the_end_is_refused(lab: Lab<'_>) {
    let view = lab.disks.open(&lab.path("fresh")).expect("a disk that opens");
    assert!(view.read_at(SIZE - 1, &mut [0; 2]).is_err());
    assert!(view.read_at(u64::MAX, &mut [0; 2]).is_err());
    assert!(view.extent_at(SIZE - 1).is_ok());
    assert!(view.extent_at(SIZE).is_err());
    assert!(view.extent_at(u64::MAX).is_err());
}

fn what_is_no_disk_is_refused(lab: Lab<'_>) {
    let missing = lab.path("missing");
    assert!(matches!(lab.disks.open(&missing), Err(DiskError::Io { .. })));
    assert!(matches!(lab.disks.parent(&missing), Err(DiskError::Io { .. })));
    assert!(matches!(lab.disks.own_bytes(&missing), Err(DiskError::Io { .. })));
    assert!(matches!(lab.disks.referenced_bytes(&missing), Err(DiskError::Io { .. })));
    assert!(matches!(lab.disks.freed_by_removal(&missing, &[]), Err(DiskError::Io { .. })));
    let onto = DiskSource::Layer(lab.path("fresh"));
    assert!(matches!(lab.disks.collapse(&missing, &onto), Err(DiskError::Io { .. })));
    assert!(matches!(lab.disks.open(lab.dir), Err(DiskError::BadDisk { .. })));
}
