//! The whole way with a source that only pretends.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use agentiso_core::progress::Silent;
use agentiso_core::{Code, Explain};

use super::*;
use crate::kernel::{KernelSource, all, prepared, use_packaged};
use crate::tools::Tool;

/// Compiles `a.o` and `b.o`, and notes each in `made`.
const MAKEFILE: &str = "\
allnoconfig:
\t@cp \"$(KCONFIG_ALLCONFIG)\" .config
vmlinux: a.o b.o
\t@cp image vmlinux
%.o:
\t@echo '  CC      $@'; echo $@ >> made; $(STEP)
\t@touch $@
";

/// A kernel with a direct entry, a version and symbols; it would not boot.
fn image(version: &str) -> Vec<u8> {
    let mut segment = Vec::new();
    for word in [4u32, 4, 18] {
        segment.extend_from_slice(&word.to_le_bytes());
    }
    segment.extend_from_slice(b"Xen\0\0\0\0\x01");
    segment.extend_from_slice(format!("Linux version {version} (agentiso)\n\0").as_bytes());
    let mut elf = vec![0; 120];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (elf[18], elf[32], elf[54], elf[56], elf[64], elf[72]) = (62, 64, 56, 1, 4, 120);
    elf[96..104].copy_from_slice(&(segment.len() as u64).to_le_bytes());
    elf.extend(segment);
    elf.extend_from_slice(b"symbols");
    elf
}

/// A data directory, and a source whose `Makefile` does `step` for every file.
struct Fake {
    place: tempfile::TempDir,
}

impl Fake {
    fn new(step: &str) -> Self {
        let fake = Self { place: tempfile::tempdir().unwrap() };
        let tree = fake.path("linux-6.0");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("Makefile"), MAKEFILE.replace("$(STEP)", step)).unwrap();
        fs::write(tree.join("Kconfig"), "").unwrap();
        fs::write(tree.join("image"), image("6.0.0-fake")).unwrap();
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn pack(&self) -> Source {
        let tar = Tool::find("tar", "tar").unwrap();
        let archive = self.path("source.tar.xz");
        let mut command = tar.command();
        command.args(["--mtime=@0", "-cJf"]).arg(&archive).arg("-C").arg(self.place.path()).arg("linux-6.0");
        tar.run(&mut command, |code| code == 0).unwrap();
        Source::file(&archive).unwrap()
    }

    fn request(&self) -> BuildRequest {
        BuildRequest { source: None, jobs: 1, kernels: self.path("kernel"), cache: self.path("cache") }
    }

    fn build(&self, cancel: &AtomicBool, progress: &dyn Progress) -> Result<Outcome, BuildError> {
        build_with(&self.request(), &self.pack(), &tools("gcc 1"), cancel, progress)
    }

    fn candidate(&self) -> Candidate {
        match self.build(&AtomicBool::new(false), &Silent).unwrap() {
            Outcome::New(candidate) => *candidate,
            Outcome::Known(kernel) => panic!("{kernel:?} was known"),
        }
    }

    /// What was compiled, over all attempts.
    fn made(&self) -> String {
        let build = super::super::unfinished(&self.path("cache")).unwrap().path;
        fs::read_to_string(build.join("source/made")).unwrap()
    }
}

fn tools(compiler: &str) -> Toolchain {
    let (make, tar) = (Tool::find("make", "make").unwrap(), Tool::find("tar", "tar").unwrap());
    Toolchain { make, tar, compiler: compiler.to_owned() }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Calls it off as soon as a file is compiled.
struct CancelAtFirstFile<'a>(&'a AtomicBool);

impl Progress for CancelAtFirstFile<'_> {
    fn step(&self, _what: &str, _total: Option<u64>) {}
    fn advance(&self, _amount: u64) {}
    fn note(&self, _remark: &str) {
        self.0.store(true, Ordering::Relaxed);
    }
    fn done(&self, _remark: &str) {}
}

#[test]
fn a_kernel_is_built_tried_and_put_to_use() {
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);
    impl Progress for Told {
        fn step(&self, what: &str, _total: Option<u64>) {
            self.0.lock().unwrap().push(what.to_owned());
        }
        fn advance(&self, _amount: u64) {}
        fn note(&self, remark: &str) {
            self.0.lock().unwrap().push(remark.to_owned());
        }
        fn done(&self, _remark: &str) {}
    }
    let fake = Fake::new("true");
    let told = Told::default();
    let Outcome::New(candidate) = fake.build(&AtomicBool::new(false), &told).unwrap() else {
        panic!("known")
    };
    let expected = [
        "unpacking the source",
        "configuring",
        "compiling",
        "1 of about 1600 files",
        "2 of about 1600 files",
    ];
    assert_eq!(*told.0.lock().unwrap(), expected);
    assert_eq!(candidate.kernel().version, "6.0.0-fake");
    assert_eq!(prepared(&fake.path("kernel")), None, "nobody may find it before it has proved itself");
    let image = fs::read(&candidate.kernel().image).unwrap();
    assert!(!image.ends_with(b"symbols"));

    let kernel = candidate.accept().unwrap();
    kernel.verify().unwrap();
    assert_eq!(prepared(&fake.path("kernel")), Some(kernel.clone()));
    assert!(matches!(&kernel.source, KernelSource::Built(name) if name.ends_with("source.tar.xz")));
    assert_eq!(kernel.modules, None);
    assert_eq!(names(&fake.path("cache")), ["lock"]);
    assert_eq!(names(&fake.path("kernel")).len(), 2, "the kernel, and which one is in use");
}

#[test]
fn the_same_kernel_is_not_built_twice_and_another_compiler_makes_another() {
    let fake = Fake::new("true");
    let first = fake.candidate().accept().unwrap();
    use_packaged(&fake.path("kernel")).unwrap();
    let again = fake.build(&AtomicBool::new(false), &Silent).unwrap();
    assert!(matches!(again, Outcome::Known(kernel) if kernel == first));
    assert_eq!(prepared(&fake.path("kernel")), Some(first.clone()), "building it is choosing it");

    let cancel = AtomicBool::new(false);
    let other = build_with(&fake.request(), &fake.pack(), &tools("gcc 2"), &cancel, &Silent).unwrap();
    let Outcome::New(other) = other else { panic!("known") };
    let second = other.accept().unwrap();
    assert_eq!(all(&fake.path("kernel")), [second]);
}

#[test]
fn an_interrupted_build_goes_on_where_it_stopped() {
    // The second file waits for a word that only comes in the second attempt.
    let fake = Fake::new("[ $@ = a.o ] || [ -e go ] || sleep 1000");
    let cancel = AtomicBool::new(false);
    let interrupted = fake.build(&cancel, &CancelAtFirstFile(&cancel)).unwrap_err();
    assert_eq!(interrupted.code(), Code::Cancelled);
    let left = super::super::unfinished(&fake.path("cache")).unwrap();
    assert!(!left.under_way);
    assert!(names(&fake.path("kernel")).is_empty());

    fs::write(left.path.join("source/go"), "").unwrap();
    drop(fake.candidate());
    let made = fake.made();
    assert_eq!(made.matches("b.o").count() + made.matches("a.o").count(), made.lines().count());
    assert!(made.ends_with("b.o\n") && made.lines().count() <= 3, "{made}");
    assert!(left.path.join("source/a.o").exists());
}

#[test]
fn a_candidate_that_is_not_accepted_is_not_found_and_its_objects_are_kept() {
    let fake = Fake::new("true");
    drop(fake.candidate());
    assert!(names(&fake.path("kernel")).is_empty());
    drop(fake.candidate());
    assert_eq!(fake.made(), "a.o\nb.o\n");
}

#[test]
fn a_failing_compiler_is_quoted_and_can_be_tried_again() {
    let fake = Fake::new("[ -e fixed ] || { echo 'a.c:1: error: no such thing' >&2; exit 1; }");
    let error = fake.build(&AtomicBool::new(false), &Silent).unwrap_err();
    assert_eq!(error.code(), Code::ToolFailed);
    assert!(error.to_string().contains("a.c:1: error: no such thing"), "{error}");
    let BuildError::Compile { log, .. } = &error else { panic!("{error:?}") };
    assert!(fs::read_to_string(log).unwrap().contains("no such thing"));
    assert!(error.remedy().unwrap().contains("goes on where it stopped"));
    fs::write(log.with_file_name("source").join("fixed"), "").unwrap();
    fake.candidate();
}

#[test]
fn a_source_that_refuses_what_guests_need_is_refused() {
    let fake = Fake::new("true");
    let makefile =
        MAKEFILE.replace("@cp \"$(KCONFIG_ALLCONFIG)\"", "@grep -v VIRTIO_BLK \"$(KCONFIG_ALLCONFIG)\" >");
    fs::write(fake.path("linux-6.0/Makefile"), makefile).unwrap();
    let error = fake.build(&AtomicBool::new(false), &Silent).unwrap_err();
    assert!(
        matches!(&error, BuildError::Settings { missing } if *missing == ["CONFIG_VIRTIO_BLK"]),
        "{error}"
    );
}

#[test]
fn an_archive_without_a_kernel_is_refused_and_leaves_nothing_unpacked() {
    let fake = Fake::new("true");
    fs::remove_file(fake.path("linux-6.0/Kconfig")).unwrap();
    let refused = |source: Source| {
        let error = build_with(&fake.request(), &source, &tools(""), &AtomicBool::new(false), &Silent);
        let error = error.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let build = super::super::unfinished(&fake.path("cache")).unwrap().path;
        assert!(names(&build).is_empty());
    };
    refused(fake.pack());
    fs::write(fake.path("junk.tar.xz"), "junk").unwrap();
    refused(Source::file(&fake.path("junk.tar.xz")).unwrap());
    assert_eq!(Source::file(&fake.path("gone.tar.xz")).err().unwrap().code(), Code::Io);
}

#[test]
fn what_is_compiled_must_be_a_kernel() {
    let fake = Fake::new("true");
    fs::write(fake.path("linux-6.0/image"), "#!/bin/sh\n").unwrap();
    assert!(matches!(fake.build(&AtomicBool::new(false), &Silent), Err(BuildError::Elf(_))));
    fs::write(fake.path("linux-6.0/image"), image("../evil")).unwrap();
    assert!(matches!(fake.build(&AtomicBool::new(false), &Silent), Err(BuildError::Kernel(_))));
    assert!(names(&fake.path("kernel")).is_empty());
}

#[test]
fn a_disk_without_room_is_refused_before_anything_happens() {
    let place = tempfile::tempdir().unwrap();
    let error = require_room(place.path(), u64::MAX).unwrap_err();
    assert_eq!(error.code(), Code::DiskFull);
    assert!(error.to_string().contains("MiB are free"), "{error}");
    require_room(place.path(), 1).unwrap();
}
