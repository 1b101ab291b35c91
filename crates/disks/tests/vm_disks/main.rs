//! A real QEMU and our code agree about the content of a disk.

#![expect(clippy::unwrap_used, reason = "test fixtures may panic")]

mod qemu;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use agentiso_core::ports::{DiskSource, Disks};
use agentiso_disks::Qcow2Layers;
use agentiso_testing::disks::{ImagoScribe, Lab};

use qemu::Qemu;

const SIZE: u64 = 2 << 30;
const KIB: u64 = 1 << 10;

fn lab(dir: &Path) -> (Lab<'_>, DiskSource) {
    let image = dir.join("base.img");
    fs::write(&image, vec![7; 1 << 20]).unwrap();
    (Lab::new(&Qcow2Layers, &ImagoScribe, dir), DiskSource::Raw(image))
}

#[test]
fn qemu_reads_and_writes_a_collapsed_disk() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, image) = lab(dir.path());
    let mut active = lab.create("layer-0", &image, SIZE);
    for layer in 1..=4_u8 {
        let at = u64::from(layer) * 100 * KIB;
        lab.scribe.write(&active, at, &[0x50 + layer; 64 << 10]);
        lab.scribe.write(&active, (1 << 30) + at, &[0x60 + layer; 4 << 10]);
        active = lab.freeze(&active, &format!("layer-{layer}"), SIZE).1;
    }
    lab.scribe.zero(&active, 512 * KIB, 128 * KIB);
    Qcow2Layers.collapse(&active, &image).unwrap();

    let mut qemu = Qemu::start(dir.path(), &active);
    qemu.io("read -P 7 0 64k");
    for layer in 1..=4 {
        qemu.io(&format!("read -P {} {}k 64k", 0x50 + layer, layer * 100));
        qemu.io(&format!("read -P {} {}k 4k", 0x60 + layer, (1 << 20) + layer * 100));
    }
    qemu.io("read -P 0 512k 128k");
    qemu.io("read -P 7 640k 384k");
    qemu.io("read -P 0 1M 64M");
    qemu.io("write -P 0x5a 500k 300k");
    qemu.io("write -P 0x5b 1500M 1M");
    qemu.quit();

    assert_eq!(lab.read(&active, 499 * KIB, 2048)[1024..], [0x5a; 1024]);
    assert_eq!(lab.read(&active, 1500 << 20, 1 << 20), vec![0x5b; 1 << 20]);
    assert_eq!(lab.read(&active, (1 << 30) + 100 * KIB, 4 << 10), vec![0x61; 4 << 10]);
}

#[test]
fn flushed_data_of_a_killed_qemu_is_read_and_collapsed() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, image) = lab(dir.path());
    let lower = lab.create("lower", &image, SIZE);
    lab.scribe.write(&lower, 0, &vec![1; 256 << 10]);
    let disk = lab.create("disk", &DiskSource::Layer(lower), SIZE);

    let mut qemu = Qemu::start(dir.path(), &disk);
    qemu.io("write -P 0x5a 60k 100k");
    qemu.io("write -z -u 192k 64k");
    qemu.io("write -P 0x5b 700M 3M");
    qemu.io("flush");
    qemu.io("write -P 0x5c 1G 1M");
    qemu.kill();

    let check = || {
        assert_eq!(lab.read(&disk, 0, 60 << 10), vec![1; 60 << 10]);
        assert_eq!(lab.read(&disk, 60 * KIB, 100 << 10), vec![0x5a; 100 << 10]);
        assert_eq!(lab.read(&disk, 160 * KIB, 32 << 10), vec![1; 32 << 10]);
        assert_eq!(lab.read(&disk, 192 * KIB, 64 << 10), vec![0; 64 << 10]);
        assert_eq!(lab.read(&disk, 256 * KIB, 64 << 10), vec![7; 64 << 10]);
        assert_eq!(lab.read(&disk, 700 << 20, 3 << 20), vec![0x5b; 3 << 20]);
        // Unflushed data may or may not be present, but each sector is complete.
        lab.read(&disk, 1 << 30, 1 << 20)
    };
    let unflushed = check();
    assert!(unflushed.iter().all(|&byte| byte == unflushed[0]), "a cluster that is neither old nor new");
    Qcow2Layers.collapse(&disk, &image).unwrap();
    assert_eq!(check(), unflushed);

    let mut qemu = Qemu::start(dir.path(), &disk);
    qemu.io("read -P 0x5a 60k 100k");
    qemu.io("read -P 0 192k 64k");
    qemu.io("read -P 0x5b 700M 3M");
    qemu.io("write -P 0x5d 0 2M");
    qemu.quit();
}

#[test]
fn a_disk_can_be_collapsed_while_qemu_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, image) = lab(dir.path());
    let first = lab.create("first", &image, SIZE);
    lab.scribe.write(&first, 0, &vec![1; 64 << 10]);
    let second = lab.create("second", &DiskSource::Layer(first.clone()), SIZE);
    lab.scribe.write(&second, 64 * KIB, &vec![2; 64 << 10]);
    let active = lab.create("active", &DiskSource::Layer(second.clone()), SIZE);

    let mut qemu = Qemu::start(dir.path(), &active);
    qemu.io("write -P 3 128k 64k");
    // QEMU has locked the frozen disk; it can be read and replaced anyway.
    assert_eq!(lab.read(&second, 0, 64 << 10), vec![1; 64 << 10]);
    Qcow2Layers.collapse(&second, &image).unwrap();
    fs::remove_file(&first).unwrap();
    qemu.io("read -P 1 0 64k");
    qemu.io("read -P 2 64k 64k");
    qemu.quit();

    assert_eq!(lab.read(&active, 0, 64 << 10), vec![1; 64 << 10]);
    assert_eq!(lab.read(&active, 64 * KIB, 64 << 10), vec![2; 64 << 10]);
    assert_eq!(lab.read(&active, 128 * KIB, 64 << 10), vec![3; 64 << 10]);
}

#[test]
fn data_beyond_the_end_of_a_smaller_layer_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let (lab, image) = lab(dir.path());
    let small = (1 << 20) + 512;
    let lower = lab.create("lower", &image, small);
    lab.scribe.write(&lower, 1 << 20, &[0x5a; 512]);
    let stored = fs::read(&lower).unwrap();
    let at = stored.windows(512).position(|bytes| bytes == [0x5a; 512]).unwrap();
    File::options().write(true).open(&lower).unwrap().write_all_at(&[0x66; 4096], at as u64 + 512).unwrap();
    let middle = lab.create("middle", &DiskSource::Layer(lower), small);
    let disk = lab.create("disk", &DiskSource::Layer(middle), SIZE);

    let ours = || lab.read(&disk, 1 << 20, 8192);
    assert_eq!(ours(), [[0x5a; 512].as_slice(), &[0; 7680]].concat());
    for _ in ["as it is", "collapsed"] {
        let mut qemu = Qemu::start(dir.path(), &disk);
        qemu.io("read -P 0x5a 1M 512");
        qemu.io("read -P 0 1049088 64k");
        qemu.quit();
        Qcow2Layers.collapse(&disk, &image).unwrap();
        assert_eq!(ours(), [[0x5a; 512].as_slice(), &[0; 7680]].concat());
    }
}
