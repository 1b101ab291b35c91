//! The package sources of an image.

use std::fs;
use std::path::Path;

/// The suite if the host is not Debian or its sources cannot be read.
const DEFAULT_SUITE: &str = "bookworm";

/// A suite, and the lines of a `sources.list` for it; empty means the builder's own defaults.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Sources {
    /// The suite's code name.
    pub suite: String,
    /// One-line sources.
    pub lines: Vec<String>,
}

impl Sources {
    /// The host's suite and sources, if it is Debian. Only Debian's own suites, so that no third-party packages get into an
    /// image.
    pub fn of_host(root: &Path) -> Self {
        let fallback = Self { suite: DEFAULT_SUITE.to_owned(), lines: Vec::new() };
        let release = fs::read_to_string(root.join("etc/os-release")).unwrap_or_default();
        let field = |name: &str| {
            release
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
                .map(|value| value.trim_matches('"'))
        };
        let (Some("debian"), Some(suite)) = (field("ID"), field("VERSION_CODENAME")) else { return fallback };
        let lines = read_sources(&root.join("etc/apt"), suite);
        if lines.is_empty() { fallback } else { Self { suite: suite.to_owned(), lines } }
    }
}

fn read_sources(apt: &Path, suite: &str) -> Vec<String> {
    let mut files = vec![apt.join("sources.list")];
    if let Ok(entries) = fs::read_dir(apt.join("sources.list.d")) {
        let mut more: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        more.sort();
        files.extend(more);
    }
    let mut lines = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let is_deb822 = file.extension().is_some_and(|end| end == "sources");
        lines.extend(one_suite_of(&text, is_deb822, suite));
    }
    lines
}

/// The binary package sources of one Debian suite (and its updates and security) in a sources file.
pub fn one_suite_of(text: &str, is_deb822: bool, suite: &str) -> Vec<String> {
    if is_deb822 { of_stanzas(text, suite) } else { of_lines(text, suite) }
}

fn of_lines(text: &str, suite: &str) -> Vec<String> {
    let is_wanted = |line: &&str| {
        let mut words = line.strip_prefix("deb ").unwrap_or_default().split_whitespace().peekable();
        if words.peek().is_some_and(|word| word.starts_with('[')) {
            while words.next().is_some_and(|word| !word.ends_with(']')) {}
        }
        words.nth(1).is_some_and(|found| belongs(found, suite))
    };
    text.lines().map(str::trim).filter(is_wanted).map(str::to_owned).collect()
}

fn of_stanzas(text: &str, suite: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            let value = stanza.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.map(str::trim).unwrap_or_default()
        };
        let is_on = !matches!(field("Enabled"), "no" | "false");
        if !is_on || !field("Types").split_whitespace().any(|kind| kind == "deb") {
            continue;
        }
        // A key embedded in the stanza cannot be written in one line; the host's other keys are used.
        let options = match field("Signed-By") {
            path if path.starts_with('/') => format!("[signed-by={path}] "),
            _ => String::new(),
        };
        for uri in field("URIs").split_whitespace() {
            for found in field("Suites").split_whitespace().filter(|found| belongs(found, suite)) {
                lines.push(format!("deb {options}{uri} {found} {}", field("Components")));
            }
        }
    }
    lines
}

fn belongs(found: &str, suite: &str) -> bool {
    found.strip_prefix(suite).is_some_and(|rest| matches!(rest, "" | "-updates" | "-security" | "/updates"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "Types: deb\n# a remark\nURIs: http://one.example/debian\nSuites: bookworm bookworm-updates bookworm-backports\n\
        Components: main\nSigned-By: /usr/share/keyrings/k.gpg\n\nTypes: deb\nURIs: https://node.example\nSuites: nodistro\n\
        Components: main\n\nTypes: deb\nEnabled: no\nURIs: http://off.example\nSuites: bookworm\nComponents: main\n\n\
        Types: deb-src\nURIs: http://src.example\nSuites: bookworm\nComponents: main\n";

    #[test]
    fn only_the_suite_itself_is_taken_from_stanzas() {
        assert_eq!(
            one_suite_of(STANZAS, true, "bookworm"),
            [
                "deb [signed-by=/usr/share/keyrings/k.gpg] http://one.example/debian bookworm main",
                "deb [signed-by=/usr/share/keyrings/k.gpg] http://one.example/debian bookworm-updates main",
            ]
        );
    }

    #[test]
    fn only_the_suite_itself_is_taken_from_lines() {
        let text = "# deb http://no.example trixie main\ndeb http://a.example trixie main\n\
            deb [arch=amd64 signed-by=/k] http://b.example trixie-security main\ndeb http://c.example cloud-trixie main\n\
            deb-src http://a.example trixie main\n";
        assert_eq!(
            one_suite_of(text, false, "trixie"),
            [
                "deb http://a.example trixie main",
                "deb [arch=amd64 signed-by=/k] http://b.example trixie-security main",
            ]
        );
    }

    #[test]
    fn a_host_that_is_no_debian_gets_the_default_suite() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc/apt/sources.list.d")).unwrap();
        fs::write(root.path().join("etc/os-release"), "ID=ubuntu\nVERSION_CODENAME=noble\n").unwrap();
        assert_eq!(
            Sources::of_host(root.path()),
            Sources { suite: "bookworm".to_owned(), lines: Vec::new() }
        );

        fs::write(root.path().join("etc/os-release"), "ID=debian\nVERSION_CODENAME=bookworm\n").unwrap();
        fs::write(root.path().join("etc/apt/sources.list.d/debian.sources"), STANZAS).unwrap();
        assert_eq!(Sources::of_host(root.path()).lines.len(), 2);
    }
}
