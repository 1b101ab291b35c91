//! Reflink copies keep what is promised of all back ends. Needs root, for a file system to run on.

use std::fs::{self, File};
use std::io::Write;

use agentiso_core::Explain;
use agentiso_core::ports::{DiskError, DiskSource, Disks};
use agentiso_disks::{Reflinks, Wanted, choose};
use agentiso_testing::TestXfs;
use agentiso_testing::disks::{Lab, RawScribe, conformance, random_histories};

#[test]
fn reflinks_pass_the_conformance_tests() {
    let xfs = TestXfs::mount();
    conformance(Lab::new(&Reflinks, &RawScribe, &xfs.path()));
}

#[test]
fn random_writes_are_read_back() {
    let xfs = TestXfs::mount();
    let dir = xfs.path();
    let lab = Lab::new(&Reflinks, &RawScribe, &dir);
    random_histories(lab, 1, 20);
    random_histories(lab, 3, 15);
    random_histories(lab, 12, 8);
}

#[test]
fn reflinks_are_selected_where_they_work() {
    let xfs = TestXfs::mount();
    for wanted in [Wanted::Auto, Wanted::Reflink] {
        let choice = choose(&xfs.path(), wanted).unwrap();
        assert_eq!(choice.disks.name(), "reflink");
        assert!(choice.why.contains("XFS"), "{}", choice.why);
    }
    assert_eq!(choose(&xfs.path(), Wanted::Qcow2).unwrap().disks.name(), "qcow2");
    assert_eq!(fs::read_dir(xfs.path()).unwrap().count(), 0);
}

#[test]
fn a_source_on_another_file_system_is_rejected_with_a_remedy() {
    let xfs = TestXfs::mount();
    let elsewhere = tempfile::tempdir().unwrap();
    let image = elsewhere.path().join("base.img");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let refused =
        Reflinks.create(&xfs.path().join("disk.raw"), &DiskSource::Raw(image), 1 << 30).unwrap_err();
    assert!(matches!(refused, DiskError::OtherFileSystem { .. }), "{refused:?}");
    assert!(refused.remedy().is_some());
    assert_eq!(fs::read_dir(xfs.path()).unwrap().count(), 0);
}

#[test]
fn a_full_file_system_leaves_no_incomplete_disk() {
    let xfs = TestXfs::mount();
    let image = xfs.path().join("base.img");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    let filler = File::create(xfs.path().join("filler")).unwrap();
    let mut chunk = vec![1; 1 << 20];
    while !chunk.is_empty() {
        if (&filler).write_all(&chunk).and_then(|()| filler.sync_all()).is_err() {
            chunk.truncate(chunk.len() / 2);
        }
    }
    // Copies use little space, so some of them still fit.
    let source = DiskSource::Raw(image);
    let disk = |number: usize| xfs.path().join(format!("{number}.raw"));
    let failed = (0..100_000).find_map(|number| {
        Reflinks.create(&disk(number), &source, 1 << 30).err().map(|error| (number, error))
    });
    let (number, error) = failed.expect("the file system never became full");
    assert!(matches!(error, DiskError::Io { .. }), "{error:?}");
    assert_eq!(error.code(), agentiso_core::Code::DiskFull);
    assert_eq!(fs::read_dir(xfs.path()).unwrap().count(), number + 2);
    for number in 0..number {
        let mut start = [0; 10];
        Reflinks.open(&disk(number)).unwrap().read_at(0, &mut start).unwrap();
        assert_eq!(start, [7; 10]);
    }
}
