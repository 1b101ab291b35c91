//! Where to copy from and to.

use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};

/// A place to copy from or to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Side {
    /// A path on this host.
    Here(PathBuf),
    /// A path in a workspace.
    There {
        /// The workspace, as it was named.
        workspace: String,
        /// The path, as it was written.
        path: String,
    },
    /// Standard input or output.
    Stream,
}

impl Side {
    /// `-` is standard input or output. `WS:PATH` is a path in a workspace, unless there is a slash before the colon.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let Some(text) = path.to_str() else { return Ok(Self::Here(path.to_owned())) };
        if text == "-" {
            return Ok(Self::Stream);
        }
        match text.split_once(':') {
            Some((workspace, path)) if !workspace.is_empty() && !workspace.contains('/') => {
                if path.is_empty() {
                    return Err(invalid(&format!("{text}: no path after the colon"))
                        .with_remedy(format!("for example {workspace}:/root/")));
                }
                Ok(Self::There { workspace: workspace.to_owned(), path: path.to_owned() })
            }
            _ => Ok(Self::Here(path.to_owned())),
        }
    }
}

/// Whether a source stands for what is in a directory instead of the directory: `DIR/.`, or `.` alone.
pub fn is_content(source: &str) -> bool {
    source == "." || source.ends_with("/.")
}

/// An absolute path of this host, in which there is no link and no `..` at its end.
pub fn absolute(path: &Path) -> Result<String, Failure> {
    let made = match path.file_name() {
        Some(_) => std::path::absolute(path),
        // `.` and `..` have names of their own.
        None => path.canonicalize(),
    };
    let made =
        made.map_err(|error| Failure::new(Code::of_io(&error), format!("{}: {error}", path.display())))?;
    match made.to_str() {
        Some(text) if text.len() > 1 => Ok(text.trim_end_matches('/').to_owned()),
        Some(text) => Ok(text.to_owned()),
        None => Err(invalid(&format!("{} is not UTF-8", path.display()))),
    }
}

/// The name a copy of this path gets in a directory.
pub fn name_of(path: &str) -> Result<&str, Failure> {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some(name) if !matches!(name, "" | "." | "..") => Ok(name),
        _ => Err(invalid(&format!("{path} has no file name to use for the copy"))
            .with_remedy("append a file name to the destination")),
    }
}

/// A path below a directory.
pub fn below(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

pub fn invalid(message: &str) -> Failure {
    Failure::new(Code::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_before_any_slash_names_a_workspace() {
        let side = |text: &str| Side::of(Path::new(text)).unwrap();
        let there = |path: &str| Side::There { workspace: "web".to_owned(), path: path.to_owned() };
        assert_eq!(side("web:/a:b"), there("/a:b"));
        assert_eq!(side("web:a/b"), there("a/b"));
        assert_eq!(side("-"), Side::Stream);
        for here in ["file", "./web:/a", "/tmp/x:y", ":/a", "./-"] {
            assert_eq!(side(here), Side::Here(here.into()));
        }
        assert_eq!(Side::of(Path::new("web:")).unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_copy_in_a_directory_has_the_name_of_its_source() {
        assert_eq!(name_of("/var/log/").unwrap(), "log");
        assert_eq!(below("/srv/", "log"), "/srv/log");
        assert_eq!(below("/", "log"), "/log");
        for nameless in ["/", "..", "a/.."] {
            assert!(name_of(nameless).is_err(), "{nameless}");
        }
        assert_eq!(absolute(Path::new("/a/b/")).unwrap(), "/a/b");
    }

    #[test]
    fn a_dot_at_the_end_means_what_is_in_the_directory() {
        assert!(is_content(".") && is_content("a/.") && is_content("/a/b/."));
        assert!(!is_content("a") && !is_content("a.") && !is_content("/a/.b"));
    }
}
