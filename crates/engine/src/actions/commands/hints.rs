//! Hints for commands that failed for a known reason.

use std::sync::LazyLock;

use agentiso_core::action::Executed;
use agentiso_core::ports::link::Link;
use regex::Regex;

const NOT_FOUND: i32 = 127;

/// A package manager: its names, where it is, and how it installs packages.
struct Manager {
    names: &'static [&'static str],
    path: &'static str,
    installs: &'static str,
}

const MANAGERS: [Manager; 6] = [
    Manager {
        names: &["apt-get", "apt"],
        path: "/usr/bin/apt-get",
        installs: "apt-get update && apt-get install -y",
    },
    Manager { names: &["apk"], path: "/sbin/apk", installs: "apk add --no-cache" },
    Manager { names: &["dnf"], path: "/usr/bin/dnf", installs: "dnf install -y" },
    Manager { names: &["yum"], path: "/usr/bin/yum", installs: "yum install -y" },
    Manager { names: &["zypper"], path: "/usr/bin/zypper", installs: "zypper --non-interactive install" },
    Manager { names: &["pacman"], path: "/usr/bin/pacman", installs: "pacman -Sy --noconfirm" },
];

/// Packages that Debian calls otherwise than Alpine.
const DEBIAN_NAMES: [(&str, &str); 7] = [
    ("build-base", "build-essential"),
    ("py3-pip", "python3-pip"),
    ("py3-virtualenv", "python3-venv"),
    ("musl-dev", "libc6-dev"),
    ("openssl-dev", "libssl-dev"),
    ("libffi-dev", "libffi-dev"),
    ("linux-headers", "linux-libc-dev"),
];

/// Programs that are often called by another name.
const OTHER_NAMES: [(&str, &str, &str); 3] = [
    ("python", "python3", "/usr/bin/python3"),
    ("pip", "pip3", "/usr/bin/pip3"),
    ("vim", "vi", "/usr/bin/vi"),
];

static MISSING: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)(?:^|: )([A-Za-z0-9._+-]+): (?:command )?not found").ok());
static INSTALLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"\b(?:apk|apt|apt-get|dnf|yum|zypper|pacman)\b([^;&|\n]*)\s(?:add|install|-S\w*)\s([^;&|\n]*)",
    )
    .ok()
});
/// A hint for a command that failed. Asks the machine only when the output says that something is missing.
pub(super) async fn of(guest: &Link, command: &str, executed: &Executed) -> Option<String> {
    if executed.exit_code == Some(NOT_FOUND) {
        return for_missing(guest, missing(&executed.stderr)?, command).await;
    }
    None
}

/// What to use instead of a program that the machine does not have, if that is known.
pub(crate) async fn for_missing(guest: &Link, missing: &str, command: &str) -> Option<String> {
    if let Some(manager) = MANAGERS.iter().find(|manager| manager.names.contains(&missing)) {
        let mut there = None;
        for other in MANAGERS.iter().filter(|other| other.path != manager.path) {
            if guest.stat(other.path.as_bytes(), true).await.is_ok() {
                there = Some(other);
                break;
            }
        }
        return there.map(|there| instead(missing, there, command));
    }
    let (_, other, path) = OTHER_NAMES.iter().find(|(name, _, _)| *name == missing)?;
    guest.stat(path.as_bytes(), true).await.ok()?;
    Some(format!("there is no {missing} here; use {other}"))
}

/// The program a shell did not find.
fn missing(stderr: &str) -> Option<&str> {
    Some(MISSING.as_ref()?.captures_iter(stderr).last()?.get(1)?.as_str())
}

/// How the same is done with the package manager there is.
fn instead(missing: &str, there: &Manager, command: &str) -> String {
    let name = there.names.first().copied().unwrap_or_default();
    let packages: Vec<&str> = INSTALLS
        .as_ref()
        .and_then(|installs| installs.captures(command))
        .and_then(|found| found.get(2))
        .into_iter()
        .flat_map(|words| words.as_str().split_whitespace())
        .filter(|word| !word.starts_with('-'))
        .map(|word| match DEBIAN_NAMES.iter().find(|(alpine, _)| *alpine == word) {
            Some((_, debian)) if name == "apt-get" => debian,
            _ => word,
        })
        .collect();
    let packages = if packages.is_empty() { "PACKAGE".to_owned() } else { packages.join(" ") };
    format!("this image has {name}, not {missing}; use: {} {packages}", there.installs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_program_is_found_in_what_every_shell_says() {
        for said in [
            "bash: line 1: apk: command not found\n",
            "/bin/bash: line 1: apk: command not found\n",
            "/bin/sh: 1: apk: not found\n",
            "sh: apk: not found\n",
        ] {
            assert_eq!(missing(said), Some("apk"), "{said}");
        }
        assert_eq!(missing("cat: /x: No such file or directory\n"), None);
    }

    #[test]
    fn packages_are_installed_with_the_manager_there_is() {
        let apt = &MANAGERS[0];
        assert_eq!(
            instead("apk", apt, "apk add --no-cache git build-base && make"),
            "this image has apt-get, not apk; use: apt-get update && apt-get install -y git build-essential"
        );
        assert_eq!(
            instead("apk", apt, "apk update"),
            "this image has apt-get, not apk; use: apt-get update && apt-get install -y PACKAGE"
        );
        assert_eq!(
            instead("apt-get", &MANAGERS[1], "apt-get install -y jq curl; jq ."),
            "this image has apk, not apt-get; use: apk add --no-cache jq curl"
        );
        assert!(MISSING.is_some() && INSTALLS.is_some());
    }
}
