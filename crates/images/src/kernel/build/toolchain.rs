//! The programs a kernel is built with.

use std::io::Write;
use std::process::Stdio;

use super::BuildError;
use crate::tools::{Tool, ToolError};

/// Programs, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 8] = [
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("make", "make"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];
/// Headers that programs of the build itself are compiled with.
const HEADERS: [(&str, &str); 2] = [("stdlib.h", "libc6-dev"), ("gelf.h", "libelf-dev")];

/// What a kernel is built with.
pub(super) struct Toolchain {
    pub(super) make: Tool,
    pub(super) tar: Tool,
    /// The compiler's name and version, which are part of the key.
    pub(super) compiler: String,
}

impl Toolchain {
    /// Finds all programs and headers. The error lists everything that is missing.
    pub(super) fn find() -> Result<Self, BuildError> {
        let mut missing = missing_programs(&PROGRAMS);
        if !missing.iter().any(|(name, _)| *name == "gcc") {
            let gcc = Tool::find("gcc", "gcc")?;
            for header in HEADERS {
                if !has_header(&gcc, header.0)? {
                    missing.push(header);
                }
            }
        }
        if !missing.is_empty() {
            let (missing, packages) = missing.into_iter().unzip();
            return Err(BuildError::ToolsMissing { missing, packages });
        }
        let gcc = Tool::find("gcc", "gcc")?;
        let said = gcc.run(gcc.command().arg("--version"), |code| code == 0)?;
        let compiler = String::from_utf8_lossy(&said.stdout).lines().next().unwrap_or_default().to_owned();
        Ok(Self { make: Tool::find("make", "make")?, tar: Tool::find("tar", "tar")?, compiler })
    }
}

fn missing_programs(programs: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    programs.iter().copied().filter(|(name, package)| Tool::find(name, package).is_err()).collect()
}

fn has_header(gcc: &Tool, header: &str) -> Result<bool, BuildError> {
    let failed = |source| ToolError::Spawn { tool: "gcc", source };
    let mut command = gcc.command();
    command.args(["-x", "c", "-fsyntax-only", "-"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // If the compiler does not read its input, its exit status shows that it failed.
        let _ = writeln!(input, "#include <stddef.h>\n#include <{header}>");
    }
    Ok(child.wait().map_err(failed)?.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::{Code, Explain};

    #[test]
    fn everything_that_is_missing_is_named_at_once() {
        let missing = missing_programs(&[("sh", "dash"), ("no-such-flex", "flex"), ("no-such-bc", "bc")]);
        let (missing, packages) = missing.into_iter().unzip();
        let error = BuildError::ToolsMissing { missing, packages };
        assert_eq!(error.code(), Code::ToolMissing);
        assert!(error.to_string().contains("no-such-flex, no-such-bc"), "{error}");
        assert_eq!(error.remedy().as_deref(), Some("install it: sudo apt-get install flex bc"));
    }

    #[test]
    fn a_header_is_there_or_not() {
        let gcc = Tool::find("gcc", "gcc").unwrap();
        assert!(has_header(&gcc, "stdlib.h").unwrap());
        assert!(!has_header(&gcc, "no-such-header.h").unwrap());
    }
}
