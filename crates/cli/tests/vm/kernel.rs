//! Building a guest kernel: with fake sources and, if requested, with the real one.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use agentiso_testing::TestHome;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

use crate::common::{Started, agentiso, text};

/// An installation with its own kernels.
fn home() -> TestHome {
    let home = TestHome::sharing(&["images"]);
    home.configure("[vm]\naccel = \"tcg\"\nlink = \"serial\"\n");
    let prepared = PathBuf::from(std::env::var_os("AGENTISO_TEST_HOME").unwrap()).join("kernel");
    let kernels = home.path().join("kernel");
    fs::create_dir(&kernels).unwrap();
    let names = entries(&prepared).into_iter();
    for name in names.filter(|name| !name.starts_with("built-") && !name.starts_with('.') && name != "in-use")
    {
        symlink(prepared.join(&name), kernels.join(&name)).unwrap();
    }
    home
}

fn kernel(home: &TestHome, arguments: &[&str]) -> (Output, Value) {
    let output = agentiso(home).args(["--json", "image", "kernel"]).args(arguments).output().unwrap();
    let value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    (output, value)
}

/// A fake kernel source whose `make vmlinux` runs a given command.
struct Source {
    place: tempfile::TempDir,
}

impl Source {
    fn new(compile: &str, image: &[u8]) -> Self {
        let source = Self { place: tempfile::tempdir().unwrap() };
        let tree = source.path("linux");
        fs::create_dir(&tree).unwrap();
        let makefile = format!(
            "allnoconfig:\n\t@cp \"$(KCONFIG_ALLCONFIG)\" .config\nvmlinux:\n\t@{compile}\n\t@cp image vmlinux\n"
        );
        fs::write(tree.join("Makefile"), makefile).unwrap();
        fs::write(tree.join("Kconfig"), "").unwrap();
        fs::write(tree.join("image"), image).unwrap();
        // Programs that this source does not need and that the test host may not have.
        fs::create_dir(source.path("bin")).unwrap();
        for name in ["flex", "bison", "bc"] {
            let program = source.path("bin").join(name);
            fs::write(&program, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(source.path("bin/gelf.h"), "").unwrap();
        source
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// `agentiso image kernel build` with this source.
    fn build(&self, home: &TestHome) -> Command {
        let archive = self.path("linux.tar.xz");
        let mut tar = Command::new("tar");
        tar.arg("-cJf").arg(&archive).arg("-C").arg(self.path("")).arg("linux");
        assert!(tar.status().unwrap().success());
        let mut path = self.path("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        let mut command = agentiso(home);
        command.args(["--json", "image", "kernel", "build", "--source"]).arg(archive);
        command.env("PATH", path).env("CPATH", self.path("bin"));
        command
    }
}

const LAST_WORDS: &str = "this kernel gives up";

/// A kernel that prints a message on the serial port and crashes.
fn dying_kernel() -> Vec<u8> {
    const LOADED_AT: u32 = 0x10_0000;
    const CODE: usize = 20;
    const MESSAGE: usize = 64;
    let mut segment = vec![0; MESSAGE];
    // The note with the entry address.
    for (index, word) in [4, 4, 18, u32::from_le_bytes(*b"Xen\0"), LOADED_AT + CODE as u32].iter().enumerate()
    {
        segment[index * 4..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let mut code = vec![0xbe]; // mov esi, message
    code.extend((LOADED_AT + MESSAGE as u32).to_le_bytes());
    code.extend([0xac, 0x84, 0xc0, 0x74, 7]); // again: lodsb; test al, al; jz end
    code.extend([0x66, 0xba, 0xf8, 0x03, 0xee, 0xeb, 0xf4]); // mov dx, 0x3f8; out dx, al; jmp again
    code.extend([0x0f, 0x01, 0x1d]); // end: lidt [zeros]
    code.extend((LOADED_AT + MESSAGE as u32 - 8).to_le_bytes());
    code.push(0xcc); // int3: there is nobody to handle it
    segment[CODE..CODE + code.len()].copy_from_slice(&code);
    segment.extend(format!("\r\n{LAST_WORDS}\r\n\0Linux version 6.0.0-dying \0").as_bytes());

    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    (elf[16], elf[18], elf[20], elf[32], elf[52], elf[54], elf[56]) = (2, 62, 1, 64, 64, 56, 2);
    for (kind, size) in [(1u32, segment.len()), (4, CODE)] {
        let mut header = [0; 56];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[4] = 7;
        header[8..12].copy_from_slice(&176u32.to_le_bytes());
        for at in [16, 24] {
            header[at..at + 4].copy_from_slice(&LOADED_AT.to_le_bytes());
        }
        for at in [32, 40] {
            header[at..at + 8].copy_from_slice(&(size as u64).to_le_bytes());
        }
        header[48] = 4;
        elf.extend(header);
    }
    elf.extend(segment);
    elf
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_kernel_that_does_not_boot_is_not_used_and_its_console_is_shown() {
    let home = home();
    let (_, before) = kernel(&home, &["info"]);
    let there = entries(&home.path().join("kernel"));
    let source = Source::new("true", &dying_kernel());
    let output = source.build(&home).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let failure: Value = serde_json::from_slice(&output.stdout).unwrap();
    let message = failure["error"]["message"].as_str().unwrap();
    assert!(message.contains("is not used"), "{message}");
    assert!(message.contains(LAST_WORDS), "{message}");
    assert_eq!(failure["error"]["code"], "vm_crashed");

    let (_, after) = kernel(&home, &["info"]);
    assert_eq!((&after, &after["kind"]), (&before, &Value::from("packaged")));
    assert_eq!(entries(&home.path().join("kernel")), there);
    assert_eq!((home.machines().len(), home.processes().len()), (0, 0));
    let (_, all) = kernel(&home, &["ls"]);
    assert!(all["unfinished_build"].is_string() && all["build_under_way"] == false, "{all}");
}

#[test]
fn an_interrupted_build_leaves_no_process_and_says_how_to_continue() {
    let home = home();
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("pid");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let compile = format!("sh -c 'trap \"\" INT TERM; echo $$$$ > {}; exec sleep 1000'", fifo.display());
    let source = Source::new(&compile, b"");
    let mut command = source.build(&home);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut started = Started(command.spawn().unwrap());
    let mut pid = String::new();
    fs::File::open(&fifo).unwrap().read_to_string(&mut pid).unwrap();
    let compiler = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let compiler = pidfd_open(compiler, PidfdFlags::empty()).unwrap();
    started.signal("INT");
    let mut said = String::new();
    started.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(started.finish().0, Some(130), "{said}");
    let failure: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(failure["error"]["code"], "cancelled");
    assert!(failure["error"]["remedy"].as_str().unwrap().contains("continues"), "{failure}");
    let limit = rustix::time::Timespec { tv_sec: 30, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&compiler, PollFlags::IN)], Some(&limit)), Ok(1));
    let (_, all) = kernel(&home, &["ls"]);
    assert!(all["unfinished_build"].is_string() && all["build_under_way"] == false, "{all}");
}

#[test]
fn only_a_built_kernel_can_be_selected() {
    let home = home();
    let (output, refused) = kernel(&home, &["use", "built"]);
    assert_eq!(
        (output.status.code(), &refused["error"]["code"]),
        (Some(1), &Value::from("kernel_not_found"))
    );
    assert!(
        refused["error"]["remedy"].as_str().unwrap().contains("agentiso image kernel build"),
        "{refused}"
    );
    let (output, chosen) = kernel(&home, &["use", "packaged"]);
    assert!(output.status.success());
    assert_eq!((&chosen["kind"], &chosen["in_use"]), (&Value::from("packaged"), &Value::from(true)));
}

/// Takes half an hour of CPU time: `cargo nextest run -p agentiso-cli --features kernel-build-tests`.
#[cfg(feature = "kernel-build-tests")]
#[test]
fn the_distributions_source_makes_a_kernel_that_runs_commands_and_can_be_deselected() {
    use crate::common::sh;
    let home = home();
    let (output, built) = kernel(&home, &["build"]);
    assert!(output.status.success(), "{built}");
    let version = built["version"].as_str().unwrap();
    assert!(version.ends_with("-agentiso") && built["in_use"] == true, "{built}");
    assert_eq!(
        text(&sh(&home, "uname -r; ls -d /sys/fs/cgroup/agentiso").stdout).lines().next(),
        Some(version)
    );
    assert_eq!(entries(&home.path().join("cache/kernel-build")), ["lock"]);
    let (_, again) = kernel(&home, &["build"]);
    assert_eq!(again["blake3"], built["blake3"]);
    kernel(&home, &["use", "packaged"]);
    assert_ne!(text(&sh(&home, "uname -r").stdout), version);
    kernel(&home, &["use", "built"]);
    assert_eq!(text(&sh(&home, "uname -r").stdout), version);
}
