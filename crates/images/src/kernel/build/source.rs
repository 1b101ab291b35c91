//! The source of the kernel.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use agentiso_core::progress::Progress;

use super::place::Place;
use super::toolchain::Toolchain;
use super::{BuildError, group};
use crate::kernel::apt::{Apt, SourcePackage};
use crate::kernel::deb::unpack_deb;
use crate::partial::{PartialDir, sweep};

/// The directory of a build that holds the source.
const TREE: &str = "source";
const UNPACKED: &str = "unpacked";

/// The source of a kernel.
pub(super) enum Source {
    /// A package of the distribution, checked by apt.
    Package { apt: Apt, package: SourcePackage },
    /// An archive that the user names.
    File { path: PathBuf, digest: String },
}

impl Source {
    /// The archive at `path`.
    pub(super) fn file(path: &Path) -> Result<Self, BuildError> {
        let failed = |error| BuildError::io("read", path)(error);
        let path = path.canonicalize().map_err(failed)?;
        let mut hasher = blake3::Hasher::new();
        File::open(&path).and_then(|mut file| io::copy(&mut file, &mut hasher)).map_err(failed)?;
        Ok(Self::File { path, digest: hasher.finalize().to_hex().to_string() })
    }

    /// The package of the distribution. Package lists are downloaded to `scratch` if the system has none.
    pub(super) fn package(
        scratch: &Path,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<Self, BuildError> {
        progress.step("looking for the kernel's source", None);
        let system = Apt::of_system();
        if let Some(package) = system.source_package()? {
            progress.done(&package.to_string());
            return Ok(Self::Package { apt: system, package });
        }
        progress.step("fetching package lists", None);
        let (own, tool) = Apt::with_lists_in(scratch)?;
        let mut update = group::command(&tool)?;
        fetched(group::run(&tool, own.configured(&mut update).arg("update"), cancel, |_| {})?)?;
        let package = own.source_package()?.ok_or(BuildError::NoSource)?;
        progress.done(&package.to_string());
        Ok(Self::Package { apt: own, package })
    }

    /// Identifies the source.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Package { package, .. } => format!("{package} {}", package.sha256),
            Self::File { digest, .. } => digest.clone(),
        }
    }

    /// A name for people.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Package { package, .. } => package.to_string(),
            Self::File { path, .. } => path.display().to_string(),
        }
    }

    /// Unpacks the source into `place`, unless it is there. Returns its directory.
    pub(super) fn bring(
        &self,
        place: &Place,
        tools: &Toolchain,
        cancel: &AtomicBool,
        progress: &dyn Progress,
    ) -> Result<PathBuf, BuildError> {
        let tree = place.path().join(TREE);
        if place.is_done(UNPACKED) {
            return Ok(tree);
        }
        let failed = || BuildError::io("use", place.path());
        sweep(place.path()).map_err(failed())?;
        let scratch = PartialDir::create(place.path(), "download").map_err(failed())?;
        let archive = match self {
            Self::File { path, .. } => path.clone(),
            Self::Package { apt, package } => {
                progress.step(&format!("downloading {}", package.name), None);
                download(apt, package, scratch.path(), cancel)?
            }
        };
        progress.step("unpacking the source", None);
        let partial = PartialDir::create(place.path(), TREE).map_err(failed())?;
        unpack(&archive, partial.path(), tools, cancel)?;
        if tree.exists() {
            fs::remove_dir_all(&tree).map_err(failed())?;
        }
        fs::rename(partial.path(), &tree).map_err(failed())?;
        place.set_done(UNPACKED)?;
        progress.done("");
        Ok(tree)
    }
}

/// Whether the source is in `place` already.
pub(super) fn is_there(place: &Place) -> bool {
    place.is_done(UNPACKED)
}

fn download(
    apt: &Apt,
    package: &SourcePackage,
    scratch: &Path,
    cancel: &AtomicBool,
) -> Result<PathBuf, BuildError> {
    let tool = Apt::downloader()?;
    let mut command = group::command(&tool)?;
    let wanted = format!("{}={}", package.name, package.version);
    apt.configured(&mut command).args(["download", &wanted]).current_dir(scratch);
    fetched(group::run(&tool, &mut command, cancel, |_| {})?)?;
    let deb = only_file(scratch, |name| name.ends_with(".deb"))?;
    let unusable = |source| BuildError::Package { path: deb.clone(), source };
    // The archive lies in usr/src, in some distributions one directory deeper.
    let place_of = |path: &[u8]| {
        let name = path.strip_prefix(b"usr/src/")?.rsplit(|byte| *byte == b'/').next()?;
        let is_source = name.starts_with(b"linux-source-") && name.windows(5).any(|part| part == b".tar.");
        is_source.then(|| name.to_vec())
    };
    unpack_deb(&deb, scratch, place_of).map_err(unusable)?;
    let archive = only_file(scratch, |name| name.contains(".tar."))?;
    fs::remove_file(&deb).map_err(BuildError::io("remove", &deb))?;
    Ok(archive)
}

fn fetched(ended: group::Ended) -> Result<(), BuildError> {
    let text = ended.text();
    match ended.status.success() {
        true => Ok(()),
        false if text.contains("No space left on device") || text.contains("enough free space") => {
            Err(crate::tools::ToolError::DiskFull { tool: "apt-get" }.into())
        }
        false => Err(BuildError::Fetch { said: text.replace('\n', "; ") }),
    }
}

fn only_file(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf, BuildError> {
    let entries = fs::read_dir(directory).map_err(BuildError::io("read", directory))?;
    entries
        .filter_map(|entry| entry.ok())
        .find(|entry| entry.file_name().to_str().is_some_and(&wanted))
        .map(|entry| entry.path())
        .ok_or(BuildError::NoSource)
}

/// Unpacks an archive whose top is one directory with a kernel's `Makefile` in it.
fn unpack(archive: &Path, into: &Path, tools: &Toolchain, cancel: &AtomicBool) -> Result<(), BuildError> {
    let mut command = group::command(&tools.tar)?;
    command.arg("-xf").arg(archive).arg("-C").arg(into);
    command.args(["--strip-components=1", "--no-same-owner"]);
    let ended = group::run(&tools.tar, &mut command, cancel, |_| {})?;
    let not_source = |reason: String| BuildError::NotSource { path: archive.to_owned(), reason };
    if !ended.status.success() {
        let error = tools.tar.failure(ended.status.to_string(), &ended.text());
        return Err(match error {
            crate::tools::ToolError::Failed { said, .. } => not_source(said),
            other => other.into(),
        });
    }
    if into.join("Makefile").is_file() && into.join("Kconfig").is_file() {
        Ok(())
    } else {
        Err(not_source("its top directory has no Makefile and Kconfig".to_owned()))
    }
}
