//! Packages: their content, and installation without a compiler.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::{said, succeed, top};

const NOBODY: u32 = 65534;

/// The packages of the program under test.
struct Packages {
    dir: tempfile::TempDir,
}

impl Packages {
    fn make() -> Self {
        let packages = Self { dir: tempfile::tempdir().unwrap() };
        packages.pack("packages");
        // An ordinary user must be able to read them.
        fs::set_permissions(packages.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        packages
    }

    fn pack(&self, directory: &str) {
        let mut command = Command::new(top().join("scripts/package"));
        command.arg("--binary").arg(env!("CARGO_BIN_EXE_agentiso")).arg(self.path(directory));
        succeed(command.env("SOURCE_DATE_EPOCH", "1700000000"));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The package whose name has this suffix.
    fn package(&self, directory: &str, end: &str) -> PathBuf {
        let mut entries = fs::read_dir(self.path(directory)).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.to_str().unwrap().ends_with(end)).unwrap()
    }
}

/// All files below a directory, except those of other programs.
fn files(directory: &Path) -> Vec<String> {
    let mut command = Command::new("find");
    command.current_dir(directory).args([".", "-type", "f"]);
    let mut files: Vec<String> = succeed(&mut command).lines().map(|line| line[2..].to_owned()).collect();
    files.sort();
    files
}

#[test]
fn a_deb_is_complete_declares_dependencies_and_is_reproducible() {
    let packages = Packages::make();
    let deb = packages.package("packages", ".deb");
    let field = |name: &str| succeed(Command::new("dpkg-deb").arg("-f").arg(&deb).arg(name));
    assert_eq!(field("Package"), "agentiso\n");
    assert_eq!(field("Version"), concat!(env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(field("Architecture"), "amd64\n");
    let depends = field("Depends");
    for package in ["libc6 (>= 2.", "qemu-system-x86 (>= 1:7.2)", "e2fsprogs", "mmdebstrap", "uidmap"] {
        assert!(depends.contains(package), "{package}: {depends}");
    }

    let root = packages.path("root");
    succeed(Command::new("dpkg-deb").arg("-R").arg(&deb).arg(&root));
    let usr = root.join("usr");
    let files = files(&usr);
    for file in [
        "bin/agentiso",
        "bin/avfs",
        "lib/systemd/system/agentiso.service",
        "lib/systemd/system/agentiso.socket",
        "lib/systemd/user/agentiso.service",
        "share/bash-completion/completions/agentiso",
        "share/doc/agentiso/README.md",
        "share/doc/agentiso/changelog.gz",
        "share/doc/agentiso/copyright",
        "share/doc/agentiso/docs/command-line.md",
        "share/fish/vendor_completions.d/agentiso.fish",
        "share/man/man1/agentiso.1.gz",
        "share/man/man1/agentiso-exec.1.gz",
        "share/zsh/vendor-completions/_agentiso",
    ] {
        assert!(files.iter().any(|present| present == file), "{file}: {files:?}");
    }
    for kind in ["system", "user"] {
        let unit = fs::read_to_string(usr.join(format!("lib/systemd/{kind}/agentiso.service"))).unwrap();
        assert!(unit.contains("\nExecStart=/usr/bin/agentiso "), "{unit}");
    }
    succeed(Command::new("md5sum").args(["--quiet", "-c", "DEBIAN/md5sums"]).current_dir(&root));
    for script in ["postinst", "prerm", "postrm"] {
        succeed(Command::new("sh").arg("-n").arg(root.join("DEBIAN").join(script)));
    }
    let version = succeed(Command::new(usr.join("bin/agentiso")).arg("--version"));
    assert_eq!(version, concat!("agentiso ", env!("CARGO_PKG_VERSION"), "\n"));

    // The same program gives the same packages.
    packages.pack("again");
    for end in [".deb", ".tar.gz"] {
        let [one, other] = ["packages", "again"].map(|place| fs::read(packages.package(place, end)).unwrap());
        assert!(one == other, "{end}");
    }
}

/// A user's home, and the tarball unpacked where that user can run its script.
struct Home {
    packages: Packages,
    home: PathBuf,
    unpacked: PathBuf,
}

impl Home {
    fn new() -> Self {
        let packages = Packages::make();
        let (home, unpacked) = (packages.path("home"), packages.path("unpacked"));
        for directory in [&home, &unpacked] {
            fs::create_dir(directory).unwrap();
        }
        let tarball = packages.package("packages", ".tar.gz");
        let mut tar = Command::new("tar");
        succeed(tar.arg("-xzf").arg(tarball).arg("-C").arg(&unpacked).arg("--strip-components=1"));
        if rustix::process::geteuid().is_root() {
            chown(&home, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        Self { packages, home, unpacked }
    }

    /// Runs the tarball's own script as an ordinary user.
    fn install(&self) -> Command {
        let mut command = Command::new("bash");
        if rustix::process::geteuid().is_root() {
            let id = NOBODY.to_string();
            command = Command::new("setpriv");
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "bash"]);
        }
        command.arg(self.unpacked.join("install")).arg("--no-service");
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.home).current_dir(&self.home);
        command
    }
}

#[test]
fn an_ordinary_user_can_install_and_remove_a_tarball_without_a_compiler() {
    let place = Home::new();
    succeed(&mut place.install());
    let local = place.home.join(".local");
    let version = succeed(Command::new(local.join("bin/agentiso")).arg("--version"));
    assert!(version.starts_with("agentiso "), "{version}");
    let installed = files(&local);
    for file in ["share/man/man1/agentiso.1", "share/doc/agentiso/README.md"] {
        assert!(installed.iter().any(|present| present == file), "{file}: {installed:?}");
    }
    // Other files of the user are kept.
    let other = local.join("share/man/man1/other.1");
    fs::write(&other, "").unwrap();
    succeed(place.install().arg("--uninstall"));
    assert_eq!(files(&local), ["share/man/man1/other.1"]);
    fs::remove_file(other).unwrap();

    // The same from the package file; anything else is rejected.
    succeed(place.install().arg(place.packages.package("packages", ".tar.gz")));
    assert_eq!(files(&local), installed);
    succeed(place.install().arg("--uninstall"));
    for (name, content) in [("empty.tar.gz", &b""[..]), ("agentiso.zip", b"zip")] {
        let path = place.packages.path(name);
        fs::write(&path, content).unwrap();
        let output = place.install().arg(path).output().unwrap();
        assert!(!output.status.success(), "{}", said(&output));
    }
    assert_eq!(files(&local), [""; 0]);
}
