//! Fetching the kernel package of the distribution without installing it and without root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, Explain};

use super::KernelError;
use crate::tools::Tool;

/// Packages that depend on the current small kernel: of Debian, then of Ubuntu.
const META_PACKAGES: [&str; 2] = ["linux-image-cloud-amd64", "linux-image-virtual"];

/// A fetched kernel.
pub(super) struct Fetched {
    pub(super) package: String,
    pub(super) files: Vec<PathBuf>,
}

/// Downloads the kernel package, and the one with its modules if that is separate, into `scratch`.
///
/// The system's package lists are tried first. Where they are missing or too old for the mirror, lists of
/// our own are fetched into `scratch`, which needs no root.
pub(super) fn fetch(scratch: &Path, progress: &dyn Progress) -> Result<Fetched, KernelError> {
    let system = Apt { options: Vec::new() };
    match system.fetch(scratch, progress) {
        Err(error) if error.code() != Code::DiskFull => {}
        done => return done,
    }
    progress.step("fetching package lists", None);
    let own = Apt::with_own_lists(scratch)?;
    progress.done("");
    own.fetch(scratch, progress)
}

struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn with_own_lists(scratch: &Path) -> Result<Self, KernelError> {
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
        let tool = Tool::find("apt-get", "apt")?;
        tool.run(apt.configured(&mut tool.command()).arg("update"), |code| code == 0)?;
        Ok(apt)
    }

    fn fetch(&self, scratch: &Path, progress: &dyn Progress) -> Result<Fetched, KernelError> {
        let package = self.kernel_package()?;
        progress.step(&format!("downloading {package}"), None);
        self.download(&package, scratch)?;
        if let Some(version) = package.strip_prefix("linux-image-") {
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
        let tool = Tool::find("apt-cache", "apt")?;
        for meta in META_PACKAGES {
            let mut command = tool.command();
            self.configured(&mut command).args(["depends", meta]);
            let Ok(output) = tool.run(&mut command, |code| code == 0) else { continue };
            if let Some(package) = image_package(&String::from_utf8_lossy(&output.stdout)) {
                return Ok(package);
            }
        }
        Err(KernelError::NoPackage { wanted: META_PACKAGES.join(" or ") })
    }

    fn knows(&self, package: &str) -> Result<bool, KernelError> {
        let tool = Tool::find("apt-cache", "apt")?;
        let mut command = tool.command();
        self.configured(&mut command).args(["show", package]);
        Ok(tool.run(&mut command, |_| true)?.status.success())
    }

    fn download(&self, package: &str, into: &Path) -> Result<(), KernelError> {
        let tool = Tool::find("apt-get", "apt")?;
        let mut command = tool.command();
        self.configured(&mut command).args(["download", package]).current_dir(into);
        tool.run(&mut command, |code| code == 0)?;
        Ok(())
    }

    fn configured<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        for option in &self.options {
            command.args(["-o", option]);
        }
        // As root, apt would hand the download to a user that may not write to our directory.
        command.args(["-o", "APT::Sandbox::User=root", "-q"])
    }
}

/// The real package a meta package depends on, from what `apt-cache depends` prints.
fn image_package(text: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.trim_start().strip_prefix("Depends: "))
        .map(str::trim)
        .find(|package| package.starts_with("linux-image-") && !META_PACKAGES.contains(package))
        .map(str::to_owned)
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
}
