//! Installations of agentiso for tests that start real machines.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::config;

/// An installation of one test's own, which shares what takes long to prepare with all the others.
///
/// Kernel, images and templates come from the home that `scripts/test` prepared; machines and configuration are the
/// test's own, so that a test can count what is left behind.
pub struct TestHome {
    dir: tempfile::TempDir,
}

/// What is shared.
const SHARED: [&str; 4] = ["kernel", "images", "templates", "cache"];

impl TestHome {
    /// Makes an installation.
    ///
    /// # Panics
    ///
    /// If no home was prepared.
    pub fn new() -> Self {
        Self::sharing(&SHARED)
    }

    /// Makes an installation that shares only some of what is prepared.
    ///
    /// # Panics
    ///
    /// If no home was prepared.
    pub fn sharing(shared: &[&str]) -> Self {
        let prepared = prepared_home();
        // Not through the prepared home, which only its owner may enter.
        let beside = prepared.parent().expect("a directory with the prepared home");
        let dir = tempfile::Builder::new().prefix("home-").tempdir_in(beside).expect("a directory");
        // QEMU runs as another user when the tests run as root.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).expect("a directory others can enter");
        for name in shared {
            symlink(prepared.join(name), dir.path().join(name)).expect("a link");
        }
        let home = Self { dir };
        home.configure("");
        home
    }

    /// Its path, for `AGENTISO_HOME`.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces its configuration. What it does not say comes from the file `AGENTISO_TEST_CONFIG` names, if any:
    /// that is how the whole suite runs on hardware or disks of another kind.
    ///
    /// # Panics
    ///
    /// If the file cannot be written, or one of the two is no TOML.
    pub fn configure(&self, text: &str) {
        let written = std::fs::write(self.path().join("config.toml"), config::over_the_runs(text));
        written.expect("a configuration");
    }

    /// What machines have left behind.
    pub fn machines(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path().join("machines")).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
    }

    /// Processes whose command line mentions this home: its QEMUs.
    pub fn processes(&self) -> Vec<u32> {
        let needle = self.path().to_string_lossy().into_owned();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| {
                let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                line.starts_with(b"/") && String::from_utf8_lossy(&line).contains(&needle)
            })
            .collect()
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

fn prepared_home() -> PathBuf {
    let home =
        std::env::var_os("AGENTISO_TEST_HOME").expect("AGENTISO_TEST_HOME: run the tests with scripts/test");
    let home = PathBuf::from(home).canonicalize().expect("a prepared home: run scripts/test");
    assert!(home.join("images/debian").is_dir(), "{} is not prepared: run scripts/test", home.display());
    home
}
