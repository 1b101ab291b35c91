//! What the scripts do to a host's packages, with an apt-get that only logs its arguments.

use std::fs;
use std::process::{Command, Output};

use crate::tree::{program, top};

/// A host with package lists and an apt-get that fails if it is called with one of these words.
struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn new(refuses: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log").display().to_string();
        let lists = dir.path().join("etc/sources.list.d");
        program(
            &dir.path().join("apt-get"),
            &format!(
                "#!/bin/sh\necho \"$*\" >> {log}\n\
                 [ ! -e {0}/agentiso-backports.sources ] || cat {0}/agentiso-backports.sources >> {log}.source\n\
                 case \"$*\" in *update*) exit 0 ;; {refuses}) exit 100 ;; esac\n",
                lists.display()
            ),
        );
        program(&dir.path().join("sudo"), "#!/bin/sh\n[ \"$1\" = -v ] || exec \"$@\"\n");
        fs::create_dir_all(&lists).unwrap();
        fs::write(
            lists.join("main.sources"),
            "Types: deb\nURIs: http://mirror.test/debian\nSuites: steady steady-updates\nComponents: main\nSigned-By: /key.gpg\n",
        )
        .unwrap();
        fs::write(dir.path().join("os-release"), "VERSION_CODENAME=steady\n").unwrap();
        Self { dir }
    }

    /// Installs a missing package, like the scripts.
    fn install(&self) -> Output {
        let script = "set -euo pipefail; . scripts/lib/common.sh; apt_lists_empty() { return 1; }; \
                      etc_apt=\"$FAKE/etc\"; os_release=\"$FAKE/os-release\"; PATH=\"$FAKE:$PATH\"; \
                      missing_packages=(qemu-system-x86); install_missing";
        Command::new("bash")
            .args(["-c", script])
            .current_dir(top())
            .env("FAKE", self.dir.path())
            .output()
            .unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    fn is_clean(&self) {
        assert!(!self.dir.path().join("etc/sources.list.d/agentiso-backports.sources").exists());
        for line in self.read("log").lines().filter(|line| line.contains(" install ")) {
            assert!(line.contains("--no-remove"), "{line}");
        }
    }
}

#[test]
fn packages_are_installed_and_none_is_removed() {
    let host = Host::new("nothing");
    assert!(host.install().status.success());
    host.is_clean();
    assert_eq!(host.read("log").lines().count(), 1, "{}", host.read("log"));
}

#[test]
fn a_conflicting_package_is_taken_from_backports() {
    let host = Host::new("*-t\\ steady-backports*) exit 0 ;; *install*");
    let output = host.install();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    host.is_clean();
    let source = host.read("log.source");
    for line in ["URIs: http://mirror.test/debian", "Suites: steady-backports", "Signed-By: /key.gpg"] {
        assert!(source.contains(line), "{line}: {source}");
    }
}

#[test]
fn a_package_that_cannot_be_installed_stops_the_script_with_a_remedy() {
    let host = Host::new("*install*");
    let output = host.install();
    assert!(!output.status.success());
    host.is_clean();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Nothing was removed") && said.contains("apt-get install --simulate"), "{said}");
}
