//! Conformance tests of the ZFS back end. Needs root, ZFS, and a pool: `AGENTISO_TEST_ZFS=POOL/agentiso`.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "test fixtures may panic")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_core::ports::{Dataset, DiskError, DiskSource, Disks, ZpoolError};
use agentiso_core::{Code, Explain};
use agentiso_disks::{NewZpool, Zvols, prepare};
use agentiso_testing::disks::{Lab, Scribe, conformance, random_histories};

const GIB: u64 = 1 << 30;
const MIB: usize = 1 << 20;

fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Writes to volumes.
struct VolumeScribe {
    pool: String,
}

impl Scribe for VolumeScribe {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(path).expect("a disk");
        file.write_all_at(bytes, offset).expect("a write");
    }

    fn zero(&self, path: &Path, offset: u64, length: u64) {
        self.write(path, offset, &vec![0; length as usize]);
    }

    fn settle(&self) {
        // Data in the page cache of a device is not on its volume yet.
        rustix::fs::sync();
        run("zpool", &["sync", &self.pool]);
    }
}

/// The test's own installation in the dataset of the environment. Removed at the end.
struct Fixture {
    dir: tempfile::TempDir,
    dataset: Dataset,
    zvols: Zvols,
}

impl Fixture {
    fn new() -> Self {
        let name = std::env::var("AGENTISO_TEST_ZFS").expect("AGENTISO_TEST_ZFS: a dataset for the tests");
        let dataset = prepare(name.split('/').next().unwrap(), None).unwrap().keep();
        assert_eq!(dataset.as_str(), name);
        Self::in_dataset(dataset)
    }

    fn in_dataset(dataset: Dataset) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let zvols = Zvols::open(dataset.clone(), dir.path(), dir.path()).unwrap();
        Self { dir, dataset, zvols }
    }

    fn scribe(&self) -> VolumeScribe {
        VolumeScribe { pool: self.dataset.pool().to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name).with_extension("zvol")
    }

    fn image(&self) -> DiskSource {
        let path = self.dir.path().join("base.img");
        if !path.exists() {
            fs::write(&path, vec![7; MIB]).unwrap();
        }
        DiskSource::Raw(path)
    }

    fn create(&self, name: &str, source: &DiskSource) -> PathBuf {
        let path = self.path(name);
        self.zvols.create(&path, source, GIB).unwrap();
        self.zvols.admit(&path, None).unwrap();
        path
    }

    fn copy(&self, name: &str, from: &Path) -> PathBuf {
        self.create(name, &DiskSource::Layer(from.to_owned()))
    }

    fn part(&self) -> String {
        let home = fs::read_to_string(self.dir.path().join(".zfs/home")).unwrap();
        format!("{}/{home}", self.dataset.as_str())
    }

    /// Volumes and snapshots of this installation, except those of the image.
    fn names(&self) -> Vec<String> {
        let printed = run("zfs", &["list", "-Hr", "-t", "volume,snapshot", "-o", "name", &self.part()]);
        let inside = format!("{}/", self.part());
        let leaves = printed.lines().filter_map(|name| name.strip_prefix(&inside));
        leaves.filter(|leaf| !leaf.starts_with("base-")).map(str::to_owned).collect()
    }

    fn start_of(&self, path: &Path) -> Vec<u8> {
        let mut start = vec![0; 6];
        self.zvols.open(path).unwrap().read_at(0, &mut start).unwrap();
        start
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = Command::new("zfs").args(["destroy", "-R", &self.part()]).output();
    }
}

/// A pool in a file, for tests that damage it.
struct OwnZpool {
    name: String,
    dir: tempfile::TempDir,
}

impl OwnZpool {
    fn new(name: &str) -> Self {
        let name = format!("agentiso-{name}-{}", std::process::id());
        Self { name, dir: tempfile::tempdir_in("/var/tmp").unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("pool.img")
    }

    fn new_pool(&self) -> NewZpool {
        NewZpool { path: self.file(), bytes: Some(GIB) }
    }

    fn make(&self) -> Dataset {
        prepare(&self.name, Some(&self.new_pool())).unwrap().keep()
    }
}

impl Drop for OwnZpool {
    fn drop(&mut self) {
        let _ = Command::new("zpool").args(["destroy", "-f", &self.name]).output();
    }
}

#[test]
fn volumes_pass_the_conformance_tests() {
    let fixture = Fixture::new();
    let scribe = fixture.scribe();
    let lab =
        Lab { grain: 16 << 10, slack: 128 << 10, ..Lab::new(&fixture.zvols, &scribe, fixture.dir.path()) };
    conformance(lab);
}

#[test]
fn random_writes_are_read_back() {
    let fixture = Fixture::new();
    let scribe = fixture.scribe();
    let lab =
        Lab { grain: 16 << 10, slack: 128 << 10, ..Lab::new(&fixture.zvols, &scribe, fixture.dir.path()) };
    random_histories(lab, 1, 3);
    random_histories(lab, 4, 3);
    fixture.zvols.sweep().unwrap();
    assert_eq!(fixture.names(), Vec::<String>::new());
}

#[test]
fn a_source_can_be_removed_while_its_forks_exist() {
    let fixture = Fixture::new();
    let scribe = fixture.scribe();
    let source = fixture.create("source", &fixture.image());
    scribe.write(&source, 0, b"before");
    let frozen = fixture.copy("frozen", &source);
    scribe.write(&source, 0, b"after!");
    let late = fixture.copy("late", &source);
    let fork = fixture.copy("fork", &frozen);
    scribe.write(&fork, 2, b"!!");
    for gone in [&source, &frozen] {
        fs::remove_file(gone).unwrap();
        fixture.zvols.sweep().unwrap();
        assert_eq!(fixture.start_of(&fork), b"be!!re");
        assert_eq!(fixture.start_of(&late), b"after!");
    }
    let volumes = fixture.names().iter().filter(|name| !name.contains('@')).count();
    assert_eq!(volumes, 2, "{:?}", fixture.names());
    for gone in [&fork, &late] {
        fs::remove_file(gone).unwrap();
    }
    fixture.zvols.sweep().unwrap();
    assert_eq!(fixture.names(), Vec::<String>::new());
}

#[test]
fn only_leftovers_of_killed_processes_are_swept() {
    let fixture = Fixture::new();
    let (kept, lost) = (fixture.create("kept", &fixture.image()), fixture.create("lost", &fixture.image()));
    let other = Fixture::new();
    let others = other.create("others", &other.image());
    let part = fixture.part();
    let leaf = |path: &Path| fs::read_link(path).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let home = part.rsplit('/').next().unwrap();
    // Killed between the snapshot and the clone; a volume created by hand; another dataset.
    run("zfs", &["snapshot", &format!("{part}/{}@{home}.killed", leaf(&kept))]);
    run("zfs", &["snapshot", &format!("{part}/{}@by-hand", leaf(&kept))]);
    run("zfs", &["create", "-s", "-V", "16M", &format!("{part}/by-hand")]);
    fs::remove_file(&lost).unwrap();
    fixture.zvols.sweep().unwrap();
    let mut expected = vec![leaf(&kept), format!("{}@by-hand", leaf(&kept)), "by-hand".to_owned()];
    let mut found = fixture.names();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert!(others.metadata().is_ok() && other.names().len() == 1);
    // The volume of a removed image is not needed, but volumes based on it stay.
    fs::remove_file(fixture.dir.path().join("base.img")).unwrap();
    fixture.zvols.sweep().unwrap();
    let all = run("zfs", &["list", "-Hr", "-t", "volume", "-o", "name", &part]);
    assert!(!all.contains("/base-"), "{all}");
    assert_eq!(fixture.start_of(&kept), [7; 6]);
}

#[test]
fn a_disk_in_use_is_removed_once_it_is_closed() {
    let fixture = Fixture::new();
    let disk = fixture.create("read", &fixture.image());
    let view = fixture.zvols.open(&disk).unwrap();
    fs::remove_file(&disk).unwrap();
    fixture.zvols.sweep().unwrap();
    let mut start = [0; 6];
    view.read_at(0, &mut start).unwrap();
    assert_eq!(start, [7; 6]);
    assert_eq!(fixture.names().len(), 1);
    drop(view);
    fixture.zvols.sweep().unwrap();
    assert_eq!(fixture.names(), Vec::<String>::new());
}

#[test]
fn a_foreign_dataset_is_rejected_and_not_changed() {
    let pool = OwnZpool::new("foreign");
    let ours = pool.make();
    let foreign = Dataset::parse(&format!("{}/mine", pool.name)).unwrap();
    run("zfs", &["create", "-o", "mountpoint=none", foreign.as_str()]);
    // An inherited mark, or that of another dataset, does not count.
    let below = Dataset::parse(&format!("{}/below", ours.as_str())).unwrap();
    run("zfs", &["create", "-o", "mountpoint=none", below.as_str()]);
    let list = || run("zfs", &["list", "-Hr", "-t", "all", "-o", "name", &pool.name]);
    let before = list();
    for dataset in [foreign, below] {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("base.img");
        fs::write(&image, vec![7; MIB]).unwrap();
        let zvols = Zvols::open(dataset, dir.path(), dir.path()).unwrap();
        let refused = zvols.create(&dir.path().join("disk.zvol"), &DiskSource::Raw(image), GIB).unwrap_err();
        assert!(matches!(refused, DiskError::Pool(ZpoolError::NotOurs(_))), "{refused:?}");
        assert_eq!(refused.code(), Code::InvalidConfig);
        zvols.sweep().unwrap();
        assert_eq!(list(), before);
    }
    run("zfs", &["destroy", "-r", ours.as_str()]);
    run("zfs", &["create", "-o", "mountpoint=none", ours.as_str()]);
    let refused = prepare(&pool.name, None).unwrap_err();
    assert!(matches!(refused, DiskError::Pool(ZpoolError::NotOurs(_))), "{refused:?}");
}

#[test]
fn a_full_pool_is_reported_before_anything_changes() {
    let pool = OwnZpool::new("full");
    let fixture = Fixture::in_dataset(pool.make());
    let disk = fixture.create("disk", &fixture.image());
    run("zfs", &["create", "-V", "800M", &format!("{}/filler", pool.name)]);
    let before = fixture.names();
    // Another process, so that nothing is cached.
    let zvols = Zvols::open(fixture.dataset.clone(), fixture.dir.path(), fixture.dir.path()).unwrap();
    let refused = zvols.create(&fixture.path("more"), &DiskSource::Layer(disk.clone()), GIB).unwrap_err();
    assert!(matches!(refused, DiskError::Pool(ZpoolError::Full { .. })), "{refused:?}");
    assert_eq!(refused.code(), Code::DiskFull);
    assert!(matches!(zvols.let_grow(&disk, 2 * GIB), Err(DiskError::Pool(ZpoolError::Full { .. }))));
    assert_eq!(zvols.open(&disk).unwrap().size(), GIB);
    assert_eq!(fixture.names(), before);
    assert!(fixture.path("more").symlink_metadata().is_err());
    run("zfs", &["destroy", &format!("{}/filler", pool.name)]);
    zvols.create(&fixture.path("more"), &DiskSource::Layer(disk), GIB).unwrap();
}

#[test]
fn an_exported_pool_is_reported_and_nothing_is_lost() {
    let pool = OwnZpool::new("export");
    let fixture = Fixture::in_dataset(pool.make());
    let scribe = fixture.scribe();
    let disk = fixture.create("disk", &fixture.image());
    scribe.write(&disk, 0, b"before");
    run("udevadm", &["settle"]);
    run("zpool", &["export", &pool.name]);
    let layer = DiskSource::Layer(disk.clone());
    let failures = [
        fixture.zvols.create(&fixture.path("more"), &layer, GIB).unwrap_err(),
        fixture.zvols.open(&disk).err().unwrap(),
        fixture.zvols.own_bytes(&disk).unwrap_err(),
        fixture.zvols.sweep().unwrap_err(),
        fixture.zvols.storage_status().unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(failure.code(), Code::StorageUnavailable, "{failure:?}");
        assert!(failure.remedy().unwrap().contains("zpool import"), "{failure:?}");
    }
    assert!(fixture.path("more").symlink_metadata().is_err());
    run("zpool", &["import", "-d", pool.dir.path().to_str().unwrap(), &pool.name]);
    // The device is new and belongs to root again.
    fixture.zvols.admit(&disk, Some((65534, 65534))).unwrap();
    let node = fs::metadata(&disk).unwrap();
    assert_eq!((node.uid(), node.permissions().mode() & 0o600), (65534, 0o600));
    assert_eq!(fixture.start_of(&disk), b"before");
    fixture.zvols.create(&fixture.path("more"), &layer, GIB).unwrap();
}

#[test]
fn sizes_are_multiples_of_a_block_and_grow_only() {
    let fixture = Fixture::new();
    let refused = fixture.zvols.create(&fixture.path("odd"), &fixture.image(), GIB + 512).unwrap_err();
    assert!(matches!(refused, DiskError::BadSize { .. }), "{refused:?}");
    let disk = fixture.create("disk", &fixture.image());
    let larger = fixture.path("larger");
    fixture.zvols.create(&larger, &DiskSource::Layer(disk), 3 * GIB).unwrap();
    assert_eq!(fixture.zvols.open(&larger).unwrap().size(), 3 * GIB);
    let volume = fs::read_link(&larger).unwrap();
    let volume = volume.to_str().unwrap().strip_prefix("/dev/zvol/").unwrap();
    assert_eq!(run("zfs", &["get", "-Hpo", "value", "volsize", volume]).trim(), (3 * GIB).to_string());
    assert_eq!(run("zfs", &["get", "-Hpo", "value", "compression", volume]).trim(), "on");

    fixture.zvols.let_grow(&larger, 4 * GIB).unwrap();
    assert_eq!(fixture.zvols.open(&larger).unwrap().size(), 4 * GIB);
    fixture.zvols.let_grow(&larger, 2 * GIB).unwrap();
    assert_eq!(fixture.zvols.open(&larger).unwrap().size(), 4 * GIB);
    assert!(matches!(fixture.zvols.let_grow(&larger, 5 * GIB + 1), Err(DiskError::BadSize { .. })));
}

#[test]
fn a_pool_is_created_once_and_only_on_an_empty_device() {
    let pool = OwnZpool::new("make");
    fs::write(pool.file(), "precious").unwrap();
    let refused = prepare(&pool.name, Some(&pool.new_pool())).unwrap_err();
    assert!(matches!(refused, DiskError::Pool(ZpoolError::Occupied { .. })), "{refused:?}");
    assert_eq!(fs::read(pool.file()).unwrap(), b"precious");
    fs::remove_file(pool.file()).unwrap();

    // Everything is removed again unless it is kept.
    drop(prepare(&pool.name, Some(&pool.new_pool())).unwrap());
    assert!(!pool.file().exists());
    assert!(!Command::new("zpool").args(["list", &pool.name]).output().unwrap().status.success());

    let dataset = pool.make();
    assert_eq!(prepare(&pool.name, Some(&pool.new_pool())).unwrap().keep(), dataset);
    assert_eq!(prepare(&pool.name, None).unwrap().keep(), dataset);
    let elsewhere = NewZpool { path: pool.dir.path().join("other.img"), bytes: Some(GIB) };
    assert!(prepare(&pool.name, Some(&elsewhere)).is_err());
    assert!(!elsewhere.path.exists());
    assert!(matches!(
        prepare("no-such-pool", None).unwrap_err(),
        DiskError::Pool(ZpoolError::Unavailable { .. })
    ));
}

/// Set in the process whose calls are counted.
const COUNTED: &str = "AGENTISO_TEST_COUNTED";

#[test]
fn a_disk_takes_two_calls_and_a_list_one() {
    if let Some(log) = std::env::var_os(COUNTED) {
        return count(Path::new(&log));
    }
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    fs::write(&log, "").unwrap();
    let wrapper = dir.path().join("zfs");
    let real = run("sh", &["-c", "command -v zfs"]);
    fs::write(&wrapper, format!("#!/bin/sh\necho \"$1\" >>{}\nexec {} \"$@\"\n", log.display(), real.trim()))
        .unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let counted = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_disk_takes_two_calls_and_a_list_one"])
        .env("PATH", path)
        .env(COUNTED, &log)
        .output()
        .unwrap();
    assert!(counted.status.success(), "{}", String::from_utf8_lossy(&counted.stdout));
}

fn count(log: &Path) {
    let fixture = Fixture::new();
    let first = fixture.create("first", &fixture.image());
    let calls = |work: &dyn Fn()| {
        let before = fs::read_to_string(log).unwrap().lines().count();
        work();
        let after = fs::read_to_string(log).unwrap();
        after.lines().skip(before).map(str::to_owned).collect::<Vec<_>>()
    };
    let made = calls(&|| {
        fixture.zvols.create(&fixture.path("second"), &DiskSource::Layer(first.clone()), GIB).unwrap();
    });
    // The pool is checked once every few seconds.
    let made: Vec<_> = made.iter().filter(|call| *call != "list").collect();
    assert_eq!(made, ["snapshot", "clone"]);
    let all = [(first.clone(), Vec::new()), (fixture.path("second"), Vec::new())];
    assert_eq!(calls(&|| drop(fixture.zvols.usage(&all).unwrap())), ["list"]);
    assert_eq!(calls(&|| drop(fixture.zvols.open(&first).unwrap())), Vec::<String>::new());
}
