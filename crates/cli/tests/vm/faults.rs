//! Failures, after which nothing may be left behind.

use std::path::Path;
use std::process::Command;

use crate::common::{Started, agentiso, run, text};
use crate::place::Place;
use agentiso_testing::TestHome;

fn error_of(output: &std::process::Output) -> serde_json::Value {
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    object["error"].clone()
}

#[test]
fn an_unknown_image_is_rejected_with_a_suggestion() {
    let home = Place::new();
    let output = run(&home, &["--json", "--image", "debain"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    let error = error_of(&output);
    assert_eq!(error["code"], "image_not_found");
    let said = format!("{} {}", error["message"], error["remedy"]);
    assert!(said.contains("debain") && said.contains("debian"), "{said}");
}

#[test]
fn invalid_sizes_are_rejected_before_anything_starts() {
    let home = Place::new();
    for flags in
        [["--vcpus", "0"], ["--vcpus", "999"], ["--memory", "1"], ["--memory", "99999999"], ["--disk", "0"]]
    {
        let output = run(&home, &[flags[0], flags[1], "--json"], &["true"]);
        assert_eq!(output.status.code(), Some(125), "{flags:?}");
        assert_eq!(error_of(&output)["code"], "invalid_argument", "{flags:?}");
    }
    assert!(home.is_empty());
}

#[test]
fn a_killed_qemu_is_reported_immediately() {
    let home = Place::new();
    let started = Started::ready(&home, "echo ready; sleep 1000");
    let qemus = home.processes();
    assert_eq!(qemus.len(), 1);
    assert!(Command::new("kill").args(["-9", &qemus[0].to_string()]).status().unwrap().success());
    let (code, said) = started.finish();
    assert_eq!(code, Some(125));
    assert!(said.contains("error[vm_crashed]") && said.contains("the link to the guest is closed"), "{said}");
    assert!(home.is_empty());
}

#[test]
fn a_guest_panic_is_reported_with_the_last_console_lines() {
    let home = Place::new();
    let output = run(&home, &["--json"], &["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 100"]);
    assert_eq!(output.status.code(), Some(125));
    let error = error_of(&output);
    assert_eq!(error["code"], "vm_crashed");
    assert!(error["message"].as_str().unwrap().contains("panic"), "{error}");
}

#[test]
fn a_kernel_that_does_not_boot_is_reported_within_its_limit() {
    let home = Place::sharing(&["images"]);
    let kernel = home.path().join("vmlinux");
    std::fs::write(&kernel, b"this is not a kernel").unwrap();
    home.configure(&format!("[vm]\nkernel = {kernel:?}\nboot_timeout_secs = 5\n"));
    let output = run(&home, &["--json"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    let error = error_of(&output);
    assert!(["kernel_not_found", "boot_failed"].contains(&error["code"].as_str().unwrap()), "{error}");
    assert!(home.is_empty());
}

#[test]
fn a_guest_that_does_not_respond_in_time_is_reported_and_removed() {
    let home = Place::sharing(&["images", "kernel"]);
    // An emulated kernel takes longer than this to boot.
    home.configure("[vm]\naccel = \"tcg\"\nboot_timeout_secs = 1\n");
    let output = run(&home, &["--json"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    let error = error_of(&output);
    assert_eq!(error["code"], "boot_failed", "{error}");
    assert!(error["message"].as_str().unwrap().contains("within 1 s"), "{error}");
    assert!(home.is_empty());
}

#[test]
fn a_missing_qemu_and_an_invalid_one_are_different_errors() {
    let home = Place::sharing(&["images", "kernel"]);
    home.configure("[vm]\nqemu = \"/no/such/qemu\"\n");
    assert_eq!(error_of(&run(&home, &["--json"], &["true"]))["code"], "tool_missing");
    home.configure("[vm]\nqemu = \"/bin/true\"\n");
    home.text(&["daemon", "stop"]);
    assert_eq!(error_of(&run(&home, &["--json"], &["true"]))["code"], "tool_failed");
}

#[test]
fn a_qemu_that_is_too_old_is_rejected_with_its_version() {
    let home = Place::sharing(&["images", "kernel"]);
    let old = home.path().join("qemu-system-x86_64");
    std::fs::write(&old, "#!/bin/sh\necho 'QEMU emulator version 5.2.0'\n").unwrap();
    std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.configure(&format!("[vm]\nqemu = {old:?}\n"));
    let error = error_of(&run(&home, &["--json"], &["true"]));
    assert_eq!(error["code"], "tool_too_old");
    assert!(error["message"].as_str().unwrap().contains("5.2.0"), "{error}");
}

/// A template directory of the test's own, made by a first run.
fn home_with_own_templates() -> Place {
    let home = Place::sharing(&["images", "kernel", "cache"]);
    let first = run(&home, &["--memory", "256"], &["true"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    home
}

fn each_template_file(home: &TestHome, name: &str, damage: impl Fn(&Path)) {
    let mut damaged = 0;
    for entry in std::fs::read_dir(home.path().join("templates")).unwrap() {
        let file = entry.unwrap().path().join(name);
        if file.is_file() {
            damage(&file);
            damaged += 1;
        }
    }
    assert_eq!(damaged, 2, "a base and a warm template");
}

/// A file of a template, and how it is damaged.
type Damage = (&'static str, fn(&Path));

#[test]
fn damaged_templates_are_detected_and_recreated() {
    let home = home_with_own_templates();
    let damages: [Damage; 3] = [
        ("ram", |file| {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, &[0xff; 4096], 5 << 20).unwrap();
        }),
        ("device", |file| {
            std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(100).unwrap();
        }),
        ("template.json", |file| std::fs::write(file, b"{").unwrap()),
    ];
    for (name, damage) in damages {
        each_template_file(&home, name, damage);
        let output = run(&home, &["--memory", "256", "--json"], &["echo", "fine"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&report["stdout"], &report["tier"]),
            (&"fine\n".into(), &"warm_template".into()),
            "{name}"
        );
    }
}

#[test]
fn a_full_disk_in_the_guest_affects_only_the_guest() {
    let home = Place::new();
    let output = run(
        &home,
        &["--disk", "1"],
        &["sh", "-c", "head -c 2G /dev/zero > /big; echo status $?; rm /big; echo ok > /f && cat /f"],
    );
    let printed = text(&output.stdout);
    assert!(printed.starts_with("status 1") && printed.ends_with("ok"), "{printed} {}", text(&output.stderr));
}

#[test]
fn a_configuration_error_names_the_key() {
    let home = TestHome::new();
    home.configure("[defaults]\nmemry_mb = 5\n");
    let output = agentiso(&home).args(["--json", "image", "ls"]).output().unwrap();
    let error = error_of(&output);
    assert_eq!(error["code"], "invalid_config");
    assert!(format!("{error}").contains("memory_mb"), "{error}");
}

#[test]
fn a_directory_that_qemu_cannot_traverse_is_named() {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let home = Place::new();
    // The data directory itself is put right, whatever its mode was.
    fs::set_permissions(home.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let output = run(&home, &["--json"], &["echo", "here"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["stdout"], "here\n", "{report} {}", text(&output.stderr));

    // Its parent belongs to another user.
    let closed = home.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    let inside = closed.join("home");
    fs::create_dir(&inside).unwrap();
    for shared in ["kernel", "images", "templates", "cache"] {
        let real = fs::canonicalize(home.path().join(shared)).unwrap();
        std::os::unix::fs::symlink(real, inside.join(shared)).unwrap();
    }
    let finding = || {
        let check = agentiso(&home).env("AGENTISO_HOME", &inside).args(["--json", "check"]).output();
        let findings: serde_json::Value = serde_json::from_slice(&check.unwrap().stdout).unwrap();
        let all = findings["findings"].as_array().unwrap();
        all.iter().find(|finding| finding["name"] == "qemu's user").unwrap().clone()
    };
    // An isolated QEMU sees its files, wherever they are.
    assert_eq!(finding()["standing"], "ok");
    fs::write(inside.join("config.toml"), "[pool]\nsize = 0\n").unwrap();
    let ran = agentiso(&home).env("AGENTISO_HOME", &inside).args(["run", "--", "echo", "here"]).output();
    assert_eq!(text(&ran.unwrap().stdout), "here");
    let stopped = agentiso(&home).env("AGENTISO_HOME", &inside).args(["daemon", "stop"]).status();
    assert!(stopped.unwrap().success());
    fs::write(inside.join("config.toml"), "[vm]\nisolation = \"off\"\n").unwrap();
    let finding = finding();
    if fs::metadata(home.path()).unwrap().uid() != 0 {
        // An ordinary user's QEMU runs as that user.
        assert_eq!(finding["standing"], "ok");
        return;
    }
    let name = fs::canonicalize(&closed).unwrap().display().to_string();
    assert_eq!(finding["standing"], "missing", "{finding}");
    assert!(finding["detail"].as_str().unwrap().contains(&name), "{finding}");
    assert!(finding["fix"].as_str().unwrap().contains("chmod o+x"), "{finding}");
    assert!(home.is_empty());
}
