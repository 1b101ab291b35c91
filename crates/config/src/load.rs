//! Reads a configuration file. Errors name the file, the line and the key.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

use agentiso_core::nearest;
use toml::de::{DeTable, DeValue};

use super::reference::{SECTIONS, Section};
use super::{Config, ConfigError};

/// Reads the configuration at `path`. A missing file means the defaults, unless `explicit`: the user named it.
pub fn load(path: &Path, explicit: bool) -> Result<Config, ConfigError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text, path),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && !explicit => Ok(Config::default()),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
            Err(ConfigError::Missing { path: path.to_owned() })
        }
        Err(cause) => Err(ConfigError::Read { path: path.to_owned(), cause }),
    }
}

/// Parses a configuration. `path` is only used in errors.
pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let document = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
        path: path.to_owned(),
        line: line_of(text, error.span().unwrap_or_default().start),
        message: first_line(error.message()),
    })?;
    let file = File { text, path, root: document.get_ref() };
    file.check_keys()?;
    let config: Config = toml::from_str(text).map_err(|error| file.bad_value(&error))?;
    match config.nonsense() {
        None => Ok(config),
        Some(found) => Err(ConfigError::BadValue {
            path: path.to_owned(),
            line: file
                .line_of_key(found.section, found.key)
                .or_else(|| found.limit.and_then(|limit| file.line_of_key("limits", limit)))
                .unwrap_or(1),
            key: format!("{}.{}", found.section, found.key),
            message: found.reason,
        }),
    }
}

/// A parsed TOML file.
struct File<'a> {
    text: &'a str,
    path: &'a Path,
    root: &'a DeTable<'a>,
}

impl File<'_> {
    /// Rejects the first unknown key, in file order.
    fn check_keys(&self) -> Result<(), ConfigError> {
        let mut unknown: Vec<(usize, String, Option<String>)> = Vec::new();
        for (name, value) in self.root {
            let section = SECTIONS.iter().find(|section| section.name == name.get_ref());
            match (section, value.get_ref()) {
                (Some(section), DeValue::Table(keys)) => {
                    for key in keys.keys() {
                        if !section.keys.iter().any(|known| known.name == key.get_ref()) {
                            let full = format!("{}.{}", section.name, key.get_ref());
                            let near = nearest_key(key.get_ref(), Some(section));
                            unknown.push((key.span().start, full, near));
                        }
                    }
                }
                (Some(section), _) => {
                    return Err(ConfigError::BadValue {
                        path: self.path.to_owned(),
                        line: line_of(self.text, name.span().start),
                        key: section.name.to_owned(),
                        message: format!("this is a section; write [{}] on a line of its own", section.name),
                    });
                }
                (None, _) => {
                    let near = nearest_key(name.get_ref(), None);
                    unknown.push((name.span().start, name.get_ref().to_string(), near));
                }
            }
        }
        match unknown.into_iter().min() {
            None => Ok(()),
            Some((offset, key, nearest)) => Err(ConfigError::UnknownKey {
                path: self.path.to_owned(),
                line: line_of(self.text, offset),
                key,
                nearest,
            }),
        }
    }

    fn bad_value(&self, error: &toml::de::Error) -> ConfigError {
        let at = error.span().unwrap_or_default();
        ConfigError::BadValue {
            path: self.path.to_owned(),
            line: line_of(self.text, at.start),
            key: self.key_around(&at).unwrap_or_else(|| "the file".to_owned()),
            message: first_line(error.message()).replace("expected u32", "expected a whole number"),
        }
    }

    /// The full name of the key whose value spans `at`.
    fn key_around(&self, at: &Range<usize>) -> Option<String> {
        self.entries().find_map(|(section, key, _, value)| {
            (value.start <= at.start && at.end <= value.end).then(|| format!("{section}.{key}"))
        })
    }

    /// The line of a key, if the file sets it.
    fn line_of_key(&self, section: &str, key: &str) -> Option<usize> {
        self.entries()
            .find(|entry| entry.0 == section && entry.1 == key)
            .map(|(_, _, name, _)| line_of(self.text, name.start))
    }

    /// All keys of all sections: section, key, span of its name, span of its value.
    fn entries(&self) -> impl Iterator<Item = (&str, &str, Range<usize>, Range<usize>)> {
        self.root.iter().flat_map(|(section, value)| {
            value.get_ref().as_table().into_iter().flatten().map(move |(key, value)| {
                (section.get_ref().as_ref(), key.get_ref().as_ref(), key.span(), value.span())
            })
        })
    }
}

/// Finds the most similar key: in the same section, then among the sections, then anywhere.
fn nearest_key(typed: &str, section: Option<&Section>) -> Option<String> {
    let here = match section {
        Some(section) => nearest(typed, section.keys.iter().map(|key| key.name))
            .map(|key| format!("{}.{key}", section.name)),
        None => nearest(typed, SECTIONS.iter().map(|section| section.name)).map(|name| format!("[{name}]")),
    };
    here.or_else(|| {
        let key =
            nearest(typed, SECTIONS.iter().flat_map(|section| section.keys.iter().map(|key| key.name)))?;
        let home = SECTIONS.iter().find(|section| section.keys.iter().any(|known| known.name == key))?;
        Some(format!("{}.{key}", home.name))
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use agentiso_core::{Code, Explain, Failure};
    use proptest::prelude::*;

    use super::*;
    use crate::{Accel, Link};

    fn refusal(text: &str) -> Failure {
        Failure::from(parse(text, Path::new("c.toml")).unwrap_err())
    }

    #[test]
    fn an_empty_file_is_the_default_and_a_partial_file_changes_only_its_keys() {
        assert_eq!(parse("", Path::new("c")).unwrap(), Config::default());
        let config = parse(
            "[limits]\nmax_vcpus = 16\n[defaults]\nvcpus = 12\n[vm]\naccel = \"tcg\"\nlink = \"serial\"\nqemu = \"/opt/q\"\n",
            Path::new("c"),
        )
        .unwrap();
        let mut expected = Config::default();
        expected.limits.max_vcpus = 16;
        expected.defaults.vcpus = 12;
        expected.vm.accel = Accel::Tcg;
        expected.vm.link = Link::Serial;
        expected.vm.qemu = Some("/opt/q".into());
        assert_eq!(config, expected);
    }

    #[test]
    fn an_unknown_key_is_rejected_with_its_line_and_the_most_similar_key() {
        let failure = refusal("# hello\n[defaults]\nvcpu = 2\n");
        assert_eq!(failure.code(), Code::InvalidConfig);
        assert_eq!(failure.message(), "c.toml:3: unknown key \"defaults.vcpu\"");
        assert_eq!(failure.remedy(), Some("did you mean \"defaults.vcpus\"?"));
    }

    #[test]
    fn a_key_in_the_wrong_section_is_suggested_with_the_right_one() {
        assert_eq!(refusal("memory_mb = 1\n").remedy(), Some("did you mean \"defaults.memory_mb\"?"));
        assert_eq!(refusal("[vm]\nmax_vcpus = 1\n").remedy(), Some("did you mean \"limits.max_vcpus\"?"));
        assert_eq!(refusal("[limit]\n").remedy(), Some("did you mean \"[limits]\"?"));
        assert!(refusal("[vm]\nzzzzzz = 1\n").remedy().unwrap().contains("docs/configuration.md"));
    }

    #[test]
    fn the_first_unknown_key_of_the_file_is_reported() {
        assert!(refusal("[vm]\nzzz = 1\naaa = 1\n[defaults]\nq = 1\n").message().starts_with("c.toml:2:"));
    }

    #[test]
    fn wrong_values_name_their_key_and_line() {
        for (text, message) in [
            (
                "[defaults]\nvcpus = \"two\"\n",
                "c.toml:2: defaults.vcpus: invalid type: string \"two\", expected a whole number",
            ),
            (
                "[defaults]\nvcpus = -1\n",
                "c.toml:2: defaults.vcpus: invalid value: integer `-1`, expected a whole number",
            ),
            (
                "[vm]\n\naccel = \"hvf\"\n",
                "c.toml:3: vm.accel: unknown variant `hvf`, expected one of `auto`, `kvm`, `tcg`",
            ),
            ("[vm]\nqemu = \"qemu\"\n", "c.toml:2: vm.qemu: \"qemu\" is not an absolute path"),
            ("[vm]\nuser = \"\"\n", "c.toml:2: vm.user: must not be empty"),
            ("[vm]\nboot_timeout_secs = 0\n", "c.toml:2: vm.boot_timeout_secs: must be at least 1"),
            (
                "[defaults]\nvcpus = 9\n",
                "c.toml:2: defaults.vcpus: 9 is more than limits.max_vcpus, which is 8",
            ),
            (
                "[limits]\nmax_disk_gb = 5\n",
                "c.toml:2: defaults.disk_gb: 10 is more than limits.max_disk_gb, which is 5",
            ),
            (
                "[limits]\nmax_memory_mb = 64\n",
                "c.toml:2: limits.max_memory_mb: must be at least 128, not 64",
            ),
            (
                "[resources]\ncgroup = \"off\"\ncgroup_required = true\n",
                "c.toml:3: resources.cgroup_required: cannot be true while cgroup is \"off\"",
            ),
            (
                "[resources]\noverhead_mb = 0\n",
                "c.toml:2: resources.overhead_mb: must be at least 64, because QEMU does not run with less",
            ),
            ("vm = 3\n", "c.toml:1: vm: this is a section; write [vm] on a line of its own"),
        ] {
            assert_eq!(refusal(text).message(), message);
        }
        assert!(
            refusal("[defaults]\nimage = \"../x\"\n").message().starts_with("c.toml:2: defaults.image: ")
        );
    }

    #[test]
    fn broken_toml_names_the_line() {
        let failure = refusal("[vm]\nuser = \"x\n");
        assert!(failure.message().starts_with("c.toml:2: "), "{failure}");
    }

    #[test]
    fn a_missing_file_is_an_error_only_if_it_was_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        assert_eq!(load(&path, false).unwrap(), Config::default());
        assert_eq!(load(&path, true).unwrap_err().code(), Code::InvalidConfig);
        fs::write(&path, "[templates]\nmax_mb = 1\n").unwrap();
        assert_eq!(load(&path, true).unwrap().templates.max_mb, 1);
    }

    #[test]
    fn an_unreadable_file_is_never_treated_as_missing() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(load(dir.path(), false), Err(ConfigError::Read { .. })));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "(\\[(vm|defaults)\\]\n)?[ -~\n]{0,80}") {
            let _ = parse(&text, Path::new("c"));
        }
    }
}
