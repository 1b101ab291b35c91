//! The distribution's real kernel: fetched, unpacked and put into an initramfs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use agentiso_core::progress::Silent;
use agentiso_core::{Code, Explain, chain};
use agentiso_images::initramfs::{
    self, InitramfsError, module_name, parse_modules_builtin, parse_modules_dep,
};
use agentiso_images::kernel::{self, Boot, Kernel, KernelQuery, KernelSource};

/// Fetched once and kept for the next run. Tests may run in separate processes: one fetches and the others wait, so
/// that none sees unfinished work.
fn packaged() -> Kernel {
    static KERNEL: OnceLock<Kernel> = OnceLock::new();
    let fetch = || {
        let shared = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let turn = fs::File::create(shared.join("kernel.lock")).unwrap();
        turn.lock().unwrap();
        let directory = shared.join("kernel");
        let query = KernelQuery { configured: None, directory };
        kernel::find(&query, &Silent).unwrap_or_else(|error| panic!("{}", chain(&error)))
    };
    KERNEL.get_or_init(fetch).clone()
}

/// Name, mode, device and content.
type Entry = (String, u32, (u32, u32), Vec<u8>);

/// The entries of a `newc` archive, in order.
fn entries(cpio: &[u8]) -> Vec<Entry> {
    let mut at = 0;
    let mut found = Vec::new();
    loop {
        assert_eq!(&cpio[at..at + 6], b"070701");
        let field = |index: usize| {
            let start = at + 6 + index * 8;
            u32::from_str_radix(std::str::from_utf8(&cpio[start..start + 8]).unwrap(), 16).unwrap()
        };
        assert_eq!(field(5), 0, "the time of an entry must be constant");
        let name_end = at + 110 + field(11) as usize;
        let name = String::from_utf8(cpio[at + 110..name_end - 1].to_vec()).unwrap();
        let content_at = name_end.next_multiple_of(4);
        let content_end = content_at + field(6) as usize;
        if name == "TRAILER!!!" {
            return found;
        }
        found.push((name, field(1), (field(9), field(10)), cpio[content_at..content_end].to_vec()));
        at = content_end.next_multiple_of(4);
    }
}

#[test]
fn the_packaged_kernel_is_ready_to_boot_directly() {
    let kernel = packaged();
    assert_eq!(kernel.boot, Boot::Pvh);
    assert!(matches!(&kernel.source, KernelSource::Package(name) if name.contains(&kernel.version)));
    kernel.verify().unwrap();
    let image = fs::read(&kernel.image).unwrap();
    assert!(kernel::pvh_entry(&image).unwrap().unwrap() >= 1 << 20);
    let modules = kernel.modules.as_ref().unwrap();
    assert_eq!(modules.file_name().unwrap().to_str().unwrap(), kernel.version);
    // Only the prepared kernel is kept.
    let kept = kernel.image.parent().unwrap().parent().unwrap();
    assert!(
        fs::read_dir(kept).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with('.'))
    );
}

#[test]
fn a_configured_kernel_takes_precedence_and_its_modules_are_found() {
    let packaged = packaged();
    let place = tempfile::tempdir().unwrap();
    let configured = place.path().join("boot/vmlinux");
    fs::create_dir_all(configured.parent().unwrap()).unwrap();
    fs::copy(&packaged.image, &configured).unwrap();
    let modules = place.path().join("lib/modules").join(&packaged.version);
    fs::create_dir_all(&modules).unwrap();
    fs::write(modules.join("modules.dep"), "").unwrap();
    let query = KernelQuery { configured: Some(configured.clone()), directory: place.path().join("kernel") };
    let kernel = kernel::find(&query, &Silent).unwrap_or_else(|error| panic!("{}", chain(&error)));
    assert_eq!(kernel.version, packaged.version);
    assert_eq!((kernel.boot, &kernel.blake3), (Boot::Pvh, &packaged.blake3));
    assert_eq!(kernel.source, KernelSource::Configured(configured.clone()));
    assert_eq!(kernel.modules.as_deref(), Some(modules.as_path()));
    assert_eq!(kernel::find(&query, &Silent).unwrap(), kernel);
    // It is not selected for others.
    assert_eq!(kernel::prepared(&query.directory), None);

    fs::write(&configured, &fs::read(&configured).unwrap()[..4096]).unwrap();
    assert_eq!(kernel::find(&query, &Silent).unwrap_err().code(), Code::KernelNotFound);
}

#[test]
fn the_initramfs_has_the_agent_and_the_modules_in_dependency_order() {
    let kernel = packaged();
    let cpio = initramfs::build(b"the agent", &kernel).unwrap();
    assert_eq!(cpio, initramfs::build(b"the agent", &kernel).unwrap());
    let entries = entries(&cpio);
    let by_name: BTreeMap<&str, _> = entries.iter().map(|entry| (entry.0.as_str(), entry)).collect();
    assert_eq!(by_name["init"].1, 0o100_755);
    assert_eq!(by_name["init"].3, b"the agent");
    assert_eq!((by_name["dev/console"].1, by_name["dev/console"].2), (0o020_600, (5, 1)));
    assert_eq!((by_name["dev/null"].1, by_name["dev/null"].2), (0o020_666, (1, 3)));
    for directory in ["dev", "proc", "sys", "newroot", "tmp", "run", "lib/modules"] {
        assert_eq!(by_name[directory].1, 0o040_755, "{directory}");
    }

    let list = String::from_utf8(by_name["modules.list"].3.clone()).unwrap();
    let order: Vec<String> = list.lines().map(|path| module_name(path).unwrap()).collect();
    for path in list.lines() {
        let module = &by_name[path.trim_start_matches('/')].3;
        assert!(module.starts_with(b"\x7fELF"), "{path} is not unpacked");
    }
    let tree = kernel.modules.unwrap();
    let builtin = parse_modules_builtin(&fs::read(tree.join("modules.builtin")).unwrap());
    let needs: HashMap<String, Vec<String>> = parse_modules_dep(&fs::read(tree.join("modules.dep")).unwrap())
        .into_iter()
        .map(|module| {
            let needs = module.needs.iter().map(|path| module_name(path).unwrap()).collect();
            (module_name(&module.path).unwrap(), needs)
        })
        .collect();
    for (at, name) in order.iter().enumerate() {
        for needed in &needs[name] {
            assert!(order[..at].contains(needed), "{name} comes before {needed}");
        }
        assert!(!builtin.contains(name), "{name} is built in");
    }
    for name in ["virtio_mmio", "virtio_console", "virtio_blk", "ext4", "virtio_rng", "overlay"] {
        assert!(order.contains(&name.to_owned()) || builtin.contains(name), "{name}");
    }
}

#[test]
fn the_module_index_agrees_with_depmod() {
    let kernel = packaged();
    let tree = kernel.modules.unwrap();
    let dep = parse_modules_dep(&fs::read(tree.join("modules.dep")).unwrap());
    assert!(dep.len() > 100);
    let needs = |name: &str| -> Vec<String> {
        let module = dep.iter().find(|module| module_name(&module.path).as_deref() == Some(name)).unwrap();
        module.needs.iter().map(|path| module_name(path).unwrap()).collect()
    };
    assert!(needs("virtio_net").contains(&"net_failover".to_owned()));
    assert!(dep.iter().all(|module| tree.join(&module.path).is_file()));
    assert!(dep.iter().flat_map(|module| &module.needs).all(|path| tree.join(path).is_file()));
}

fn kernel_with(tree: &Path) -> Kernel {
    Kernel {
        version: "1.0".to_owned(),
        image: PathBuf::from("/nonexistent"),
        boot: Boot::Pvh,
        modules: Some(tree.to_owned()),
        source: KernelSource::Package("x".to_owned()),
        blake3: String::new(),
    }
}

#[test]
fn a_kernel_without_required_drivers_is_rejected_and_they_are_named() {
    let tree = tempfile::tempdir().unwrap();
    fs::write(tree.path().join("modules.dep"), "k/virtio_blk.ko:\n").unwrap();
    fs::write(tree.path().join("modules.builtin"), "k/ext4.ko\n").unwrap();
    let error = initramfs::build(b"", &kernel_with(tree.path())).unwrap_err();
    assert!(matches!(&error, InitramfsError::MissingModules { missing, .. }
        if *missing == ["virtio_mmio", "virtio_console"]));
    assert_eq!(error.code(), Code::KernelNotFound);
}

#[test]
fn modules_are_unpacked_from_every_compression() {
    use std::io::Write;
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(tree.path().join(name), bytes).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(b"console").unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(b"mmio").unwrap();
    write("virtio-mmio.ko.xz", &xz.finish().unwrap());
    write("virtio_console.ko.gz", &gzip.finish().unwrap());
    write("virtio_blk.ko.zst", &zstd::encode_all(&b"blk"[..], 1).unwrap());
    write("ext4.ko", b"ext4");
    write("modules.dep", b"virtio-mmio.ko.xz:\nvirtio_console.ko.gz:\nvirtio_blk.ko.zst:\next4.ko:\n");
    let entries = entries(&initramfs::build(b"", &kernel_with(tree.path())).unwrap());
    for (name, content) in
        [("virtio_mmio", "mmio"), ("virtio_console", "console"), ("virtio_blk", "blk"), ("ext4", "ext4")]
    {
        let entry = entries.iter().find(|entry| entry.0 == format!("lib/modules/{name}.ko")).unwrap();
        assert_eq!(entry.3, content.as_bytes());
    }
    write("virtio_blk.ko.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0, 1, 2]);
    let error = initramfs::build(b"", &kernel_with(tree.path())).unwrap_err();
    assert!(error.to_string().contains("virtio_blk.ko.zst"), "{error}");
}

#[test]
fn a_kernel_without_a_module_tree_needs_no_list() {
    let kernel = Kernel { modules: None, ..kernel_with(Path::new("/nonexistent")) };
    let entries = entries(&initramfs::build(b"agent", &kernel).unwrap());
    assert!(entries.iter().any(|entry| entry.0 == "modules.list" && entry.3.is_empty()));
}
