//! Fetching the kernel package of the distribution without installing it and without root.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Explain};

use super::KernelError;
use super::version::{instead_of, is_broken};
use crate::tools::{Tool, ToolError};

/// Meta packages of the current small kernel: Debian's, then Ubuntu's.
const META_PACKAGES: [&str; 2] = ["linux-image-cloud-amd64", "linux-image-virtual"];

/// What the names of packages with a kernel begin with.
const IMAGE: &str = "linux-image-";

/// Kernel sources that are known to work for guests, best first.
const SOURCE_PACKAGES: [&str; 2] = ["linux-source-6.12", "linux-source-6.1"];
/// The meta package of the distribution's kernel source.
const META_SOURCE: &str = "linux-source";

/// A package with the kernel's source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct SourcePackage {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
}

impl fmt::Display for SourcePackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// A fetched kernel.
pub(super) struct Fetched {
    pub(super) package: String,
    pub(super) files: Vec<PathBuf>,
}

/// Downloads the kernel package, and the one with its modules if that is separate, into `scratch`.
///
/// The system's package lists are tried first. If they are missing or out of date, private lists are downloaded to
/// `scratch`, which does not need root.
pub(super) fn fetch(scratch: &Path, progress: &dyn Progress) -> Result<Fetched, KernelError> {
    let system = Apt::of_system();
    match system.fetch(scratch, progress) {
        Err(error) if error.code() != Code::DiskFull => {}
        done => return done,
    }
    progress.step("fetching package lists", None);
    let own = Apt::with_own_lists(scratch)?;
    progress.done("");
    own.fetch(scratch, progress)
}

/// The package manager, with the system's lists or private ones.
pub(super) struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// With the system's lists.
    pub(super) fn of_system() -> Self {
        Self { options: Vec::new() }
    }

    /// What fetches lists and packages.
    pub(super) fn downloader() -> Result<Tool, ToolError> {
        Tool::find("apt-get", "apt")
    }

    fn with_own_lists(scratch: &Path) -> Result<Self, KernelError> {
        let (apt, tool) = Self::with_lists_in(scratch)?;
        tool.run(apt.configured(&mut tool.command()).arg("update"), |code| code == 0)?;
        Ok(apt)
    }

    /// With private lists below `scratch`, which `update` has to download first.
    pub(super) fn with_lists_in(scratch: &Path) -> Result<(Self, Tool), KernelError> {
        let state = scratch.join("apt/state");
        let cache = scratch.join("apt/cache");
        for directory in [state.join("lists/partial"), cache.join("archives/partial")] {
            fs::create_dir_all(&directory).map_err(KernelError::io("create", &directory))?;
        }
        let apt = Self {
            options: vec![
                format!("Dir::State={}", state.display()),
                "Dir::State::status=/var/lib/dpkg/status".to_owned(),
                format!("Dir::Cache={}", cache.display()),
            ],
        };
        Ok((apt, Self::downloader()?))
    }

    /// The best package with the kernel's source.
    pub(super) fn source_package(&self) -> Result<Option<SourcePackage>, KernelError> {
        let mut names: Vec<String> = SOURCE_PACKAGES.map(str::to_owned).into();
        names.extend(self.ask(&["depends", META_SOURCE])?.as_deref().and_then(real_source));
        for name in names {
            let shown = self.ask(&["show", "--no-all-versions", &name])?;
            if let Some(package) = shown.and_then(|text| source_package(&name, &text)) {
                return Ok(Some(package));
            }
        }
        Ok(None)
    }

    /// The output of `apt-cache`; empty if it fails.
    fn ask(&self, question: &[&str]) -> Result<Option<String>, KernelError> {
        let tool = Tool::find("apt-cache", "apt")?;
        let output = tool.run(self.configured(&mut tool.command()).args(question), |_| true)?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    fn fetch(&self, scratch: &Path, progress: &dyn Progress) -> Result<Fetched, KernelError> {
        let package = self.kernel_package()?;
        progress.step(&format!("downloading {package}"), None);
        self.download(&package, scratch)?;
        if let Some(version) = package.strip_prefix(IMAGE) {
            let modules = format!("linux-modules-{version}");
            if self.knows(&modules)? {
                self.download(&modules, scratch)?;
            }
        }
        let files = debs(scratch)?;
        progress.done("");
        Ok(Fetched { package, files })
    }

    fn kernel_package(&self) -> Result<String, KernelError> {
        for meta in META_PACKAGES {
            if let Some(package) = self.ask(&["depends", meta])?.as_deref().and_then(image_package) {
                return Ok(self.instead_of_broken(&package)?.unwrap_or(package));
            }
        }
        Err(KernelError::NoPackage { wanted: META_PACKAGES.join(" or ") })
    }

    /// Replacements for a package whose kernel is known to break guests.
    fn instead_of_broken(&self, package: &str) -> Result<Option<String>, KernelError> {
        let Some(version) = package.strip_prefix(IMAGE).filter(|version| is_broken(version)) else {
            return Ok(None);
        };
        let names = self.ask(&["pkgnames", IMAGE])?.unwrap_or_default();
        for other in instead_of(version, names.lines().filter_map(|name| name.strip_prefix(IMAGE))) {
            let other = format!("{IMAGE}{other}");
            if self.knows(&other)? {
                return Ok(Some(other));
            }
        }
        Ok(None)
    }

    fn knows(&self, package: &str) -> Result<bool, KernelError> {
        Ok(self.ask(&["show", package])?.is_some())
    }

    fn download(&self, package: &str, into: &Path) -> Result<(), KernelError> {
        let tool = Self::downloader()?;
        let mut command = tool.command();
        self.configured(&mut command).args(["download", package]).current_dir(into);
        tool.run(&mut command, |code| code == 0)?;
        Ok(())
    }

    pub(super) fn configured<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for option in &self.options {
            command.args(["-o", option]);
        }
        // As root, apt downloads as a user that cannot write to our directory.
        command.args(["-o", "APT::Sandbox::User=root", "-q"])
    }
}

/// The real package a meta package depends on, from what `apt-cache depends` prints.
fn image_package(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("Depends: "))
        .map(str::trim)
        .find(|package| package.starts_with(IMAGE) && !META_PACKAGES.contains(package))
        .map(str::to_owned)
}

/// The package behind [`META_SOURCE`].
fn real_source(text: &str) -> Option<String> {
    let depends = text.lines().filter_map(|line| line.trim_start().strip_prefix("Depends: "));
    depends.map(str::trim).find(|name| name.starts_with("linux-source-")).map(str::to_owned)
}

/// What `apt-cache show` prints about a package.
fn source_package(name: &str, text: &str) -> Option<SourcePackage> {
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    Some(SourcePackage { name: name.to_owned(), version: field("Version")?, sha256: field("SHA256")? })
}

fn debs(directory: &Path) -> Result<Vec<PathBuf>, KernelError> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    };
    read().map_err(KernelError::io("read", directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_package_is_found_behind_the_meta_package() {
        let text = "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-9-cloud-amd64\n";
        assert_eq!(image_package(text).as_deref(), Some("linux-image-6.1.0-9-cloud-amd64"));
        let text = "linux-image-virtual\n  Depends: linux-base\n |Depends: <x>\n  Depends: linux-image-6.8.0-40-generic\n";
        assert_eq!(image_package(text).as_deref(), Some("linux-image-6.8.0-40-generic"));
        assert_eq!(image_package("linux-image-virtual\n"), None);
    }

    #[test]
    fn a_source_package_is_known_by_its_version_and_hash() {
        let text = "Package: linux-source-6.12\nSource: linux\nVersion: 6.12.9-1~bpo12+1\nSHA256: 0123\n";
        let package = source_package("linux-source-6.12", text).unwrap();
        assert_eq!((package.version.as_str(), package.sha256.as_str()), ("6.12.9-1~bpo12+1", "0123"));
        assert_eq!(package.to_string(), "linux-source-6.12 6.12.9-1~bpo12+1");
        assert_eq!(source_package("x", "Package: x\nVersion: 1\n"), None);
        let meta = "linux-source\n  Depends: linux-source-6.8.0\n";
        assert_eq!(real_source(meta).as_deref(), Some("linux-source-6.8.0"));
    }
}
