//! `scripts/quickstart` on a host on which nothing is installed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use crate::tree::{program, said, top};

/// The programs that the script itself needs.
const TOOLS: [&str; 17] = [
    "awk", "bash", "basename", "cat", "chmod", "cp", "dirname", "env", "find", "grep", "id", "mkdir",
    "mktemp", "rm", "sleep", "uname", "sh",
];

/// Shell function that waits up to a minute until a file exists.
const UNTIL: &str = "until_there() { tries=0; until [ -e \"$1\" ]; do tries=$((tries + 1)); \
                     [ $tries -lt 600 ] || exit 9; sleep 0.1; done; }";

struct Fresh {
    dir: tempfile::TempDir,
}

impl Fresh {
    /// A host with a compiler but without QEMU and mmdebstrap, and an apt-get with this exit status.
    fn new(apt_status: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for name in ["bin", "scripts/lib", "target/quick"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        for file in ["quickstart", "lib/common.sh"] {
            fs::copy(top().join("scripts").join(file), root.join("scripts").join(file)).unwrap();
        }
        for tool in TOOLS {
            let found = ["/usr/bin", "/bin"].map(|dir| Path::new(dir).join(tool));
            symlink(found.iter().find(|path| path.exists()).unwrap(), root.join("bin").join(tool)).unwrap();
        }
        program(&root.join("bin/cc"), "#!/bin/sh\n");
        program(&root.join("bin/newuidmap"), "#!/bin/sh\n");
        program(&root.join("bin/sudo"), "#!/bin/sh\n[ \"$1\" = -v ] || exec \"$@\"\n");
        program(&root.join("bin/usermod"), "#!/bin/sh\n");
        let here = root.display();
        // Each waits until the other has begun, so they must run concurrently.
        program(
            &root.join("bin/apt-get"),
            &format!(
                "#!/bin/sh\n{UNTIL}\ncase \"$*\" in *install*) ;; *) exit 0 ;; esac\n\
                 echo \"$*\" > {here}/apt\nuntil_there {here}/cargo\n\
                 echo 'what apt-get says'\n: > {here}/apt-ended\nexit {apt_status}\n"
            ),
        );
        program(
            &root.join("bin/cargo"),
            &format!(
                "#!/bin/sh\n{UNTIL}\necho \"$*\" > {here}/cargo\nuntil_there {here}/apt\n\
                 cp {here}/agentiso {here}/target/quick/agentiso\n"
            ),
        );
        program(
            &root.join("agentiso"),
            &format!("#!/bin/sh\n[ -e {here}/apt-ended ] || exit 1\necho \"$1\" >> {here}/verbs\n"),
        );
        Self { dir }
    }

    fn run(&self) -> Output {
        Command::new(self.dir.path().join("bin/bash"))
            .arg(self.dir.path().join("scripts/quickstart"))
            .env_clear()
            .env("PATH", self.dir.path().join("bin"))
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .output()
            .unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn packages_are_installed_while_agentiso_is_compiled() {
    let host = Fresh::new(0);
    let output = host.run();
    assert!(output.status.success(), "{}", said(&output));
    let apt = host.read("apt");
    assert!(apt.contains("qemu-system-x86") && apt.contains("mmdebstrap") && !apt.contains("gcc"), "{apt}");
    assert!(host.read("cargo").contains("--profile quick"));
    assert_eq!(host.read("verbs").lines().collect::<Vec<_>>(), ["init", "create", "exec", "rm"]);
}

#[test]
fn a_failed_installation_stops_it_and_shows_the_output_of_apt_get() {
    let host = Fresh::new(100);
    let output = host.run();
    assert!(!output.status.success());
    let said = said(&output);
    assert!(said.contains("what apt-get says") && said.contains("Nothing was removed"), "{said}");
    assert_eq!(host.read("verbs"), "");
}
