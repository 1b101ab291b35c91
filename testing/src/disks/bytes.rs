//! How much disks take, hold and would give back.

use std::fs;
use std::path::Path;

use agentiso_core::ports::{DiskSource, Freezing};

use super::Lab;

const CLUSTER: u64 = 64 << 10;
const SIZE: u64 = 10 << 30;
/// What a disk may take beside its data.
const OVERHEAD: u64 = 3 * CLUSTER;

pub(super) fn all(lab: Lab<'_>) {
    let raw = lab.dir.join("base.img");
    fs::write(&raw, noise(16, 7)).expect("a raw image");
    let source = DiskSource::Raw(raw);
    a_new_disk_takes_next_to_nothing_and_holds_what_its_source_does(lab, &source);
    what_is_written_is_counted(lab, &source);
    zeros_are_not_counted(lab, &source);
    what_a_removal_frees_is_told_beforehand(lab, &source);
}

/// So many clusters that no back end can keep in less space.
fn noise(clusters: u64, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(word).take((clusters * CLUSTER / 8) as usize).flatten().collect()
}

fn a_new_disk_takes_next_to_nothing_and_holds_what_its_source_does(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("fresh", source, SIZE);
    let own = lab.own_bytes(&disk);
    assert!(own <= CLUSTER, "a new disk takes {own} bytes");
    assert_referenced(lab, &disk, 16 * CLUSTER);
}

fn what_is_written_is_counted(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("written", source, SIZE);
    let before = lab.own_bytes(&disk);
    lab.scribe.write(&disk, 14 * CLUSTER, &noise(5, 1));
    // Of the five, two replace what the source has.
    assert_referenced(lab, &disk, 19 * CLUSTER);
    let grown = lab.own_bytes(&disk) - before;
    assert!((5 * CLUSTER..=5 * CLUSTER + OVERHEAD).contains(&grown), "grew by {grown} bytes");
}

fn zeros_are_not_counted(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("zeroed", source, SIZE);
    lab.scribe.zero(&disk, 2 * CLUSTER, 3 * CLUSTER);
    assert_referenced(lab, &disk, 13 * CLUSTER);
    let (frozen, active) = lab.freeze(&disk, "zeroed-again", SIZE);
    lab.scribe.write(&active, 2 * CLUSTER, &noise(1, 2));
    assert_referenced(lab, &active, 14 * CLUSTER);
    assert_referenced(lab, &frozen, 13 * CLUSTER);
}

fn what_a_removal_frees_is_told_beforehand(lab: Lab<'_>, source: &DiskSource) {
    let disk = lab.create("middle", source, SIZE);
    lab.scribe.write(&disk, 20 * CLUSTER, &noise(8, 3));
    let (frozen, active) = lab.freeze(&disk, "top", SIZE);
    lab.scribe.write(&active, 22 * CLUSTER, &noise(4, 4));

    lab.scribe.settle();
    let freed = |children: &[_]| lab.disks.freed_by_removal(&frozen, children).expect("bytes");
    let told = freed(std::slice::from_ref(&active));
    let own = lab.own_bytes(&frozen);
    assert_eq!(freed(&[]), own);
    assert!((4 * CLUSTER..=4 * CLUSTER + OVERHEAD).contains(&told), "{told} bytes would be freed");
    match lab.disks.freezing() {
        Freezing::Overlay => {
            let other = lab.create("other", &DiskSource::Layer(frozen.clone()), SIZE);
            assert_eq!(freed(&[active.clone(), other.clone()]), 0);
            assert!(lab.disks.freed_by_removal(&active, &[other]).is_err(), "it does not stand on it");
            let before = own + lab.own_bytes(&active);
            lab.disks.collapse(&active, source).expect("a collapsed disk");
            let really = before - lab.own_bytes(&active);
            assert!(really.abs_diff(told) <= OVERHEAD, "{told} bytes told, {really} freed");
        }
        Freezing::Copy => assert!(lab.agree(own, 4 * CLUSTER), "{own} bytes are its own"),
    }
}

fn assert_referenced(lab: Lab<'_>, disk: &Path, expected: u64) {
    let referenced = lab.referenced_bytes(disk);
    assert!(lab.agree(referenced, expected), "{referenced} bytes can be read, not {expected}");
}
