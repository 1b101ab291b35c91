//! How much disks take, hold and would give back.

use std::fs;

use agentiso_core::ports::{DiskSource, Freezing};

use super::Lab;

const CLUSTER: u64 = 64 << 10;
const SIZE: u64 = 10 << 30;
/// What a disk may take beside its data.
const OVERHEAD: u64 = 3 * CLUSTER;

pub(super) fn all(lab: Lab<'_>) {
    let raw = lab.dir.join("base.img");
    fs::write(&raw, vec![7; 16 * CLUSTER as usize]).expect("a raw image");
    let source = DiskSource::Raw(raw);
    a_new_disk_takes_next_to_nothing_and_holds_what_its_source_does(lab, &source);
    what_is_written_is_counted(lab, &source);
    zeros_are_not_counted(lab, &source);
    what_a_removal_frees_is_told_beforehand(lab, &source);
}

fn a_new_disk_takes_next_to_nothing_and_holds_what_its_source_does(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("fresh", source, SIZE);
    let own = lab.disks.own_bytes(&disk).expect("bytes");
    assert!(own <= CLUSTER, "a new disk takes {own} bytes");
    assert_eq!(lab.disks.referenced_bytes(&disk).expect("bytes"), 16 * CLUSTER);
}

fn what_is_written_is_counted(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("written", source, SIZE);
    let before = lab.disks.own_bytes(&disk).expect("bytes");
    lab.scribe.write(&disk, 14 * CLUSTER, &vec![1; 5 * CLUSTER as usize]);
    // Of the five, two replace what the source has.
    assert_eq!(lab.disks.referenced_bytes(&disk).expect("bytes"), 19 * CLUSTER);
    let grown = lab.disks.own_bytes(&disk).expect("bytes") - before;
    assert!((5 * CLUSTER..=5 * CLUSTER + OVERHEAD).contains(&grown), "grew by {grown} bytes");
}

fn zeros_are_not_counted(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("zeroed", source, SIZE);
    lab.scribe.zero(&disk, 2 * CLUSTER, 3 * CLUSTER);
    assert_eq!(lab.disks.referenced_bytes(&disk).expect("bytes"), 13 * CLUSTER);
    let (frozen, active) = lab.freeze(&disk, "zeroed-again", SIZE);
    lab.scribe.write(&active, 2 * CLUSTER, &vec![1; CLUSTER as usize]);
    assert_eq!(lab.disks.referenced_bytes(&active).expect("bytes"), 14 * CLUSTER);
    assert_eq!(lab.disks.referenced_bytes(&frozen).expect("bytes"), 13 * CLUSTER);
}

fn what_a_removal_frees_is_told_beforehand(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("middle", source, SIZE);
    lab.scribe.write(&disk, 20 * CLUSTER, &vec![1; 8 * CLUSTER as usize]);
    let (frozen, active) = lab.freeze(&disk, "top", SIZE);
    lab.scribe.write(&active, 22 * CLUSTER, &vec![2; 4 * CLUSTER as usize]);

    let freed = |children: &[_]| lab.disks.freed_by_removal(&frozen, children).expect("bytes");
    let told = freed(std::slice::from_ref(&active));
    let own = lab.disks.own_bytes(&frozen).expect("bytes");
    assert_eq!(freed(&[]), own);
    assert!((4 * CLUSTER..=4 * CLUSTER + OVERHEAD).contains(&told), "{told} bytes would be freed");
    match lab.disks.freezing() {
        Freezing::Overlay => {
            let other = lab.create("other", &DiskSource::Layer(frozen.clone()), SIZE);
            assert_eq!(freed(&[active.clone(), other.clone()]), 0);
            assert!(lab.disks.freed_by_removal(&active, &[other]).is_err(), "it does not stand on it");
            let before = own + lab.disks.own_bytes(&active).expect("bytes");
            lab.disks.collapse(&active, source).expect("a collapsed disk");
            let really = before - lab.disks.own_bytes(&active).expect("bytes");
            assert!(really.abs_diff(told) <= OVERHEAD, "{told} bytes told, {really} freed");
        }
        Freezing::Copy => assert_eq!(own, 4 * CLUSTER),
    }
}
