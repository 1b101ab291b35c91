//! Finding a kernel.

use std::fs;
use std::path::{Path, PathBuf};

use agentiso_core::progress::Progress;
use agentiso_core::{Explain, chain};

use super::choice::{BUILT, chosen};
use super::deb::unpack_deb;
use super::prepare::{Found, install};
use super::version::{by_version, by_worth};
use super::{Kernel, KernelError, KernelSource, apt};
use crate::partial::{self, PartialDir};

/// Prepared kernels that only the configuration may choose.
const CONFIGURED: &str = "configured-";

/// The configured kernel, and the directory of prepared kernels.
#[derive(Clone, Debug)]
pub struct KernelQuery {
    /// The file the configuration names, if it names one.
    pub configured: Option<PathBuf>,
    /// The directory of prepared kernels: `$AGENTISO_HOME/kernel`.
    pub directory: PathBuf,
}

/// Finds and prepares a kernel: the configured one, else the built one if it is selected, else a prepared one, else the
/// distribution's package, else the host's own.
pub fn find(query: &KernelQuery, progress: &dyn Progress) -> Result<Kernel, KernelError> {
    let directory = &query.directory;
    open(directory)?;
    if let Some(path) = &query.configured {
        return configured(path, directory, progress);
    }
    match chosen(directory) {
        Some(kernel) => Ok(kernel),
        None => find_packaged(directory, progress),
    }
}

/// Finds and prepares a kernel that was not built here: a prepared one, else the distribution's package, else the host's
/// own.
pub fn find_packaged(directory: &Path, progress: &dyn Progress) -> Result<Kernel, KernelError> {
    open(directory)?;
    if let Some(kernel) = best_packaged(directory) {
        return Ok(kernel);
    }
    let mut tried = Vec::new();
    let ways: [(&str, Way); 2] = [("the distribution's package", packaged), ("the host's own", host)];
    for (what, way) in ways {
        match way(directory, progress) {
            Ok(kernel) => return Ok(kernel),
            // Trying elsewhere does not help when the disk is full.
            Err(error) if error.code() == agentiso_core::Code::DiskFull => return Err(error),
            Err(error) => tried.push(format!("{what}: {}", chain(&error))),
        }
    }
    Err(KernelError::NotFound { tried })
}

type Way = fn(&Path, &dyn Progress) -> Result<Kernel, KernelError>;

/// The prepared kernel that is used if none is configured: the built one if it is selected, else the best.
pub fn prepared(directory: &Path) -> Option<Kernel> {
    chosen(directory).or_else(|| best_packaged(directory))
}

/// The kernel in use, if it is prepared.
pub fn current(query: &KernelQuery) -> Option<Kernel> {
    match &query.configured {
        Some(path) => Kernel::read(&configured_place(&query.directory, &fs::read(path).ok()?)).ok(),
        None => prepared(&query.directory),
    }
}

/// All intact kernels, newest first.
pub fn all(directory: &Path) -> Vec<Kernel> {
    let mut kernels = sound(directory, |_| true);
    kernels.sort_by(|a, b| by_version(&b.version, &a.version));
    kernels
}

fn best_packaged(directory: &Path) -> Option<Kernel> {
    sound(directory, |name| !name.starts_with(CONFIGURED) && !name.starts_with(BUILT))
        .into_iter()
        .max_by(|a, b| by_worth(&a.version, &b.version))
}

/// The kernels in the directories whose names are wanted.
pub(super) fn sound(directory: &Path, wanted: impl Fn(&str) -> bool) -> Vec<Kernel> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && wanted(name))
        .filter_map(|name| Kernel::read(&directory.join(name)).ok())
        .collect()
}

/// Creates the directory if necessary, and removes what killed processes left in it.
pub(super) fn open(directory: &Path) -> Result<(), KernelError> {
    let opened = fs::create_dir_all(directory).and_then(|()| partial::sweep(directory));
    opened.map_err(KernelError::io("use", directory))
}

fn configured_place(directory: &Path, kernel: &[u8]) -> PathBuf {
    directory.join(format!("{CONFIGURED}{}", &blake3::hash(kernel).to_hex()[..16]))
}

fn configured(path: &Path, directory: &Path, progress: &dyn Progress) -> Result<Kernel, KernelError> {
    let found = Found::read(path)?;
    let target = configured_place(directory, &found.bytes);
    if let Ok(kernel) = Kernel::read(&target) {
        return Ok(kernel);
    }
    progress.step("preparing the configured kernel", None);
    let modules = modules_near(path, &found.version);
    let partial = PartialDir::create(directory, "kernel").map_err(KernelError::io("use", directory))?;
    let kernel = install(&partial, &target, found, modules, KernelSource::Configured(path.to_owned()))?;
    progress.done(&kernel.version);
    Ok(kernel)
}

fn packaged(directory: &Path, progress: &dyn Progress) -> Result<Kernel, KernelError> {
    let failed = || KernelError::io("use", directory);
    let scratch = PartialDir::create(directory, "download").map_err(failed())?;
    let fetched = apt::fetch(scratch.path(), progress)?;
    progress.step(&format!("unpacking {}", fetched.package), None);
    let partial = PartialDir::create(directory, "kernel").map_err(failed())?;
    for deb in &fetched.files {
        unpack_deb(deb, partial.path(), place_of)
            .map_err(|source| KernelError::Package { path: deb.clone(), source })?;
    }
    let boot = partial.path().join("boot");
    let image = fs::read_dir(&boot)
        .ok()
        .and_then(|mut entries| entries.next())
        .and_then(|entry| entry.ok())
        .map(|entry| entry.path())
        .ok_or_else(|| KernelError::NoPackage { wanted: format!("a kernel in {}", fetched.package) })?;
    let found = Found::read(&image)?;
    let removed = fs::remove_dir_all(&boot);
    removed.map_err(KernelError::io("remove", &boot))?;
    let modules = Some(partial.path().join("lib/modules").join(&found.version)).filter(|path| path.is_dir());
    let target = directory.join(&found.version);
    let kernel = install(&partial, &target, found, modules, KernelSource::Package(fetched.package))?;
    progress.done(&kernel.version);
    Ok(kernel)
}

fn host(directory: &Path, progress: &dyn Progress) -> Result<Kernel, KernelError> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let path = Path::new("/boot").join(format!("vmlinuz-{release}"));
    let found = Found::read(&path)?;
    progress.step("preparing the host's kernel", None);
    let modules = modules_near(&path, &found.version);
    let target = directory.join(&found.version);
    let partial = PartialDir::create(directory, "kernel").map_err(KernelError::io("use", directory))?;
    let kernel = install(&partial, &target, found, modules, KernelSource::Host(path))?;
    progress.done(&kernel.version);
    Ok(kernel)
}

/// What of a package is kept, and where.
fn place_of(path: &[u8]) -> Option<Vec<u8>> {
    let path = path.strip_prefix(b"usr/").unwrap_or(path);
    (path.starts_with(b"boot/vmlinuz-") || path.starts_with(b"lib/modules/")).then(|| path.to_vec())
}

/// The modules of a kernel: beside it, as in an unpacked package, or where the host has its own.
fn modules_near(kernel: &Path, version: &str) -> Option<PathBuf> {
    let beside = kernel.parent().map(|parent| parent.join("lib/modules"));
    let above = kernel.parent().and_then(Path::parent).map(|parent| parent.join("lib/modules"));
    [beside, above, Some(PathBuf::from("/lib/modules"))]
        .into_iter()
        .flatten()
        .map(|modules| modules.join(version))
        .find(|modules| modules.join("modules.dep").is_file())
        .and_then(|modules| modules.canonicalize().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::Code;
    use agentiso_core::progress::Silent;

    #[test]
    fn a_configured_kernel_that_is_none_is_an_error_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("vmlinuz");
        fs::write(&path, "not a kernel").unwrap();
        let query = KernelQuery { configured: Some(path.clone()), directory: place.path().join("kernel") };
        let error = find(&query, &Silent).unwrap_err();
        assert_eq!(error.code(), Code::KernelNotFound);
        assert!(chain(&error).contains("not a Linux boot image"), "{}", chain(&error));
        fs::remove_file(path).unwrap();
        assert_eq!(find(&query, &Silent).unwrap_err().code(), Code::KernelNotFound);
        assert_eq!(fs::read_dir(&query.directory).unwrap().count(), 0);
    }

    #[test]
    fn only_kernel_and_modules_are_kept_of_a_package() {
        assert_eq!(place_of(b"usr/lib/modules/6/a.ko").unwrap(), b"lib/modules/6/a.ko");
        assert_eq!(place_of(b"boot/vmlinuz-6").unwrap(), b"boot/vmlinuz-6");
        assert_eq!(place_of(b"boot/System.map-6"), None);
        assert_eq!(place_of(b"usr/share/doc/x"), None);
    }
}
