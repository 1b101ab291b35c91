//! Paths in arguments and redirections.

use super::super::Categories;
use super::super::scope::{Place, normalise};
use super::judged::Judged;
use super::state::{UNKNOWN, Walk};

/// Where an unset variable before a path would lead: `$NOTHING/etc/passwd`.
const SENSITIVE: &[&str] = &["/etc", "/root", "/home", "/proc", "/sys", "/var", "/dev", "/boot"];

/// How many paths of a command are kept for rules; there are as many arguments at most.
const MAX_PATHS: usize = 4096;

impl Walk<'_> {
    /// Judges a path that is read or, if `writes`, written.
    pub(super) fn judge_path(&mut self, path: &str, writes: bool, judged: &mut Judged) {
        if path.is_empty() || path == "-" || path == UNKNOWN.to_string() {
            return;
        }
        let without_patterns = path.contains(".?") || path.contains(".[");
        let plain: String;
        let path = match without_patterns {
            // `.?` and `.[.]` match `..`.
            true => {
                let parts: Vec<&str> =
                    path.split('/').map(|part| if is_parent(part) { ".." } else { part }).collect();
                plain = parts.join("/");
                plain.as_str()
            }
            false => path,
        };
        let resolved = match path.strip_prefix('~') {
            // A `~` that the shell does not expand is expanded by many programs.
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", self.scope.home()),
            _ => normalise(&self.state.cwd, path),
        };
        let resolved = normalise("/", &resolved);
        let place = self.scope.place(&resolved);
        if self.paths_count && judged.paths.len() < MAX_PATHS {
            judged.paths.push(resolved.replace(UNKNOWN, "…"));
        }
        match place {
            Place::Socket => judged.add(Categories::NETWORKED, format!("{path} is a network connection")),
            _ if !self.paths_count => {}
            Place::Outside => {
                judged.add(Categories::HOST_ESCAPE_RISK, format!("{path} is outside the workspace"))
            }
            Place::System if writes => {
                judged.add(Categories::HOST_ESCAPE_RISK, format!("{path} belongs to the system"));
            }
            _ => {}
        }
        if self.paths_count && path.starts_with(UNKNOWN) {
            let without: String = path.chars().filter(|letter| *letter != UNKNOWN).collect();
            let is_sensitive = SENSITIVE.iter().any(|root| {
                without.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            if is_sensitive {
                judged.add(
                    Categories::HOST_ESCAPE_RISK,
                    format!("{path} is outside the workspace if the variable is empty"),
                );
            }
        }
    }

    /// Judges a file that is written: writing to most devices changes nothing.
    pub(super) fn judge_written(&mut self, path: &str, judged: &mut Judged) {
        let place = self.scope.place(&normalise(&self.state.cwd, path));
        if place != Place::Device && path != "-" {
            judged.add(Categories::MUTATING, format!("writes {path}"));
        }
        self.judge_path(path, true, judged);
    }

    /// Judges an argument that may be a path, a URL, or a flag with one of these. Says whether it is a URL.
    pub(super) fn judge_argument(&mut self, text: &str, writes: bool, judged: &mut Judged) -> bool {
        if let Some(file) = text.find("file://") {
            self.judge_path(&text[file + 7..], writes, judged);
            return false;
        }
        if text.contains("://") {
            return true;
        }
        let value = match text.strip_prefix('-') {
            Some(flag) => match text.split_once('=') {
                Some((_, value)) => value,
                // `-I/usr/include`.
                None => match flag.find(['/', '~']) {
                    Some(start) => &flag[start..],
                    None => match flag.find("../") {
                        Some(start) => &flag[start..],
                        None => return false,
                    },
                },
            },
            None => text,
        };
        self.judge_path(value.strip_prefix('@').unwrap_or(value), writes, judged);
        // `KEY=/path` and `host:/path` of programs that we do not know.
        if let Some((key, path)) = value.split_once('=')
            && !key.contains('/')
            && path.starts_with(['/', '~', '.'])
        {
            self.judge_path(path, writes, judged);
        }
        false
    }
}

/// Whether a pattern matches exactly `..` and names of two letters.
fn is_parent(pattern: &str) -> bool {
    match pattern.strip_prefix('.') {
        Some("?") => true,
        Some(set) => {
            set.starts_with('[')
                && set.ends_with(']')
                && !set.starts_with("[!")
                && !set.starts_with("[^")
                && set.contains('.')
        }
        None => false,
    }
}
