//! Disks that are written, frozen, grown and collapsed at random, beside plain bytes that are too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use agentiso_core::ports::{DiskSource, DiskView, Extent, Freezing, Origin};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::Lab;
use crate::seeded;

/// Everything happens around the place where one table of a qcow2 file ends and the next begins.
const WINDOW_START: u64 = (512 << 20) - (1 << 20);
const WINDOW: usize = 2 << 20;
/// The image ends within the window and within a cluster.
const IMAGE_IN_WINDOW: usize = (1 << 20) + (300 << 10) + 512;
const FIRST_SIZE: u64 = WINDOW_START + (3 << 19) + 512;
const LAST_SIZE: u64 = WINDOW_START + WINDOW as u64;

#[derive(Clone, Debug)]
enum Step {
    Write { at: usize, length: usize, byte: u8 },
    Zero { at: usize, length: usize },
}

#[derive(Clone, Debug)]
struct Era {
    steps: Vec<Step>,
    /// By how much the disk grows when it is frozen, in sectors.
    growth: u64,
}

/// Runs a back end through histories of `layers` freezes each, compares all disks with what should be in them,
/// before and after collapsing, and checks that nothing is said to be equal that is not.
///
/// # Panics
///
/// If something differs.
pub fn random_histories(lab: Lab<'_>, layers: usize, cases: u32) {
    let history = (proptest::collection::vec(era(), layers), 0..=layers);
    TestRunner::new(seeded(cases))
        .run(&history, |(eras, onto)| {
            let dir = tempfile::tempdir_in(lab.dir).expect("a directory");
            play(Lab { dir: dir.path(), ..lab }, &eras, onto);
            Ok(())
        })
        .expect("disks that hold what was written to them");
}

fn era() -> impl Strategy<Value = Era> {
    (proptest::collection::vec(step(), 0..6), prop_oneof![Just(0), 0..600_u64])
        .prop_map(|(steps, growth)| Era { steps, growth })
}

fn step() -> impl Strategy<Value = Step> {
    // Offsets in sectors, as machines write; some whole clusters, so that zeros need no data.
    let place = prop_oneof![
        (0..WINDOW / 512, 1..400_usize).prop_map(|(at, length)| (at * 512, length * 512)),
        (0..WINDOW >> 16, 1..4_usize).prop_map(|(at, length)| (at << 16, length << 16)),
    ];
    (place, any::<bool>(), 1..=u8::MAX).prop_map(|((at, length), is_zero, byte)| match is_zero {
        true => Step::Zero { at, length },
        false => Step::Write { at, length, byte },
    })
}

/// A frozen disk and what it should hold.
struct Known {
    path: PathBuf,
    size: u64,
    bytes: Vec<u8>,
}

fn play(lab: Lab<'_>, eras: &[Era], onto: usize) {
    let (image, mut bytes) = make_image(lab);
    let mut size = FIRST_SIZE / lab.grain * lab.grain;
    let mut active = lab.create("disk", &image, size);
    let mut known = Vec::new();
    for (number, era) in eras.iter().enumerate() {
        for step in &era.steps {
            apply(lab, step, &active, size, &mut bytes);
        }
        let old_size = size;
        size = (size + (era.growth * 512).next_multiple_of(lab.grain)).min(LAST_SIZE);
        let grown = match lab.disks.freezing() {
            Freezing::Overlay => size,
            // The writer stays on its disk, which does not grow by being copied.
            Freezing::Copy => old_size,
        };
        let (frozen, next) = lab.freeze(&active, &format!("disk-{number}"), grown);
        known.push(Known { path: frozen, size: old_size, bytes: bytes.clone() });
        (active, size) = (next, grown);
    }
    known.push(Known { path: active.clone(), size, bytes });
    check(lab, &known);

    // Onto the image, or onto any of the frozen ones; then nobody needs those in between.
    let onto_disk = match onto.checked_sub(1) {
        None => image,
        Some(index) => DiskSource::Layer(known[index].path.clone()),
    };
    lab.disks.collapse(&active, &onto_disk).expect("a collapsed disk");
    check(lab, &known);
    let last = known.len() - 1;
    for between in known.drain(onto..last) {
        std::fs::remove_file(between.path).expect("a disk removed");
    }
    check(lab, &known);
}

fn make_image(lab: Lab<'_>) -> (DiskSource, Vec<u8>) {
    let path = lab.dir.join("base.img");
    let mut bytes = vec![0; WINDOW];
    for (index, byte) in bytes[..IMAGE_IN_WINDOW].iter_mut().enumerate() {
        // Every fourth piece of 128 KiB is a hole.
        *byte = if index >> 17 & 3 == 3 { 0 } else { (index >> 9) as u8 | 1 };
    }
    let file = File::create(&path).expect("an image");
    file.set_len(WINDOW_START + IMAGE_IN_WINDOW as u64).expect("an image with holes");
    for (index, piece) in bytes[..IMAGE_IN_WINDOW].chunks(1 << 17).enumerate() {
        if index & 3 != 3 {
            file.write_all_at(piece, WINDOW_START + (index as u64) * (1 << 17)).expect("an image");
        }
    }
    (DiskSource::Raw(path), bytes)
}

fn apply(lab: Lab<'_>, step: &Step, disk: &std::path::Path, size: u64, bytes: &mut [u8]) {
    let room = (size - WINDOW_START) as usize;
    let within = |at: usize, length: usize| (at, length.min(room.saturating_sub(at)));
    match *step {
        Step::Write { at, length, byte } => {
            let (at, length) = within(at, length);
            if length > 0 {
                bytes[at..at + length].fill(byte);
                lab.scribe.write(disk, WINDOW_START + at as u64, &bytes[at..at + length]);
            }
        }
        Step::Zero { at, length } => {
            let (at, length) = within(at, length);
            if length > 0 {
                bytes[at..at + length].fill(0);
                lab.scribe.zero(disk, WINDOW_START + at as u64, length as u64);
            }
        }
    }
}

fn check(lab: Lab<'_>, known: &[Known]) {
    let views: Vec<_> =
        known.iter().map(|disk| lab.disks.open(&disk.path).expect("a disk that opens")).collect();
    for (disk, view) in known.iter().zip(&views) {
        assert_eq!(view.size(), disk.size);
        let room = (disk.size - WINDOW_START) as usize;
        let mut found = vec![0xee; room];
        view.read_at(WINDOW_START, &mut found).expect("a disk that reads");
        // Whole slices first: this is the hot path of the test.
        if found != disk.bytes[..room] {
            let at = found.iter().zip(&disk.bytes).position(|(found, expected)| found != expected);
            panic!("{} differs at {at:?}", disk.path.display());
        }
        check_zeros_and_count(lab, disk, view.as_ref());
    }
    for second in 1..known.len() {
        for first in 0..second {
            check_equality((&known[first], views[first].as_ref()), (&known[second], views[second].as_ref()));
        }
    }
}

fn check_zeros_and_count(lab: Lab<'_>, disk: &Known, view: &dyn DiskView) {
    let (mut offset, mut stored, mut is_known) = (0, 0, true);
    while offset < disk.size {
        let extent = view.extent_at(offset).expect("an extent");
        assert!(extent.length > 0 && extent.length <= disk.size - offset, "{extent:?} at {offset}");
        if extent.origin == Origin::Zeros {
            let from = offset.max(WINDOW_START);
            let to = (offset + extent.length).max(from);
            let piece = &disk.bytes[(from - WINDOW_START) as usize..(to - WINDOW_START) as usize];
            assert!(piece == vec![0; piece.len()], "what is said to be zeros is not, at {offset}");
        } else {
            stored += extent.length;
            is_known &= extent.origin != Origin::Unknown;
            check_middle(view, offset, extent);
        }
        offset += extent.length;
    }
    if !is_known {
        return;
    }
    // A file system may keep more than what was written; the last block goes beyond the end.
    let referenced = lab.disks.referenced_bytes(&disk.path).expect("bytes");
    assert!(referenced.abs_diff(stored) < 4096, "{referenced} bytes referenced, {stored} found");
}

/// Whoever asks in the middle of an extent is told the middle of its place.
fn check_middle(view: &dyn DiskView, offset: u64, extent: Extent) {
    let skipped = extent.length / 2;
    if let Origin::Stored { place, at } = extent.origin {
        let rest = view.extent_at(offset + skipped).expect("an extent");
        assert_eq!(rest.origin, Origin::Stored { place, at: at + skipped }, "{skipped} into {extent:?}");
        assert!(rest.length >= extent.length - skipped, "{rest:?} is the end of {extent:?}");
    }
}

fn check_equality(first: (&Known, &dyn DiskView), second: (&Known, &dyn DiskView)) {
    let end = first.0.size.min(second.0.size);
    let mut offset = WINDOW_START;
    while offset < end {
        let (one, other) =
            (first.1.extent_at(offset).expect("an extent"), second.1.extent_at(offset).expect("an extent"));
        let length = one.length.min(other.length).min(end - offset);
        let range = (offset - WINDOW_START) as usize..(offset + length - WINDOW_START) as usize;
        if one.surely_equals(&other) {
            assert!(first.0.bytes[range.clone()] == second.0.bytes[range], "not equal at {offset}: {one:?}");
        }
        offset += length;
    }
}
