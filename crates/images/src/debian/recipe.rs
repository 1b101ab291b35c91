//! The recipes of images.

use std::fmt;
use std::str::FromStr;

use super::DebianError;

/// Enough for scripts: a shell, files, processes, the network, git, python.
const SLIM: [&str; 12] = [
    "bash",
    "ca-certificates",
    "coreutils",
    "curl",
    "git",
    "iproute2",
    "less",
    "openssh-client",
    "procps",
    "python3",
    "python3-venv",
    "xz-utils",
];
/// What agents expect to find: compilers, node, package managers, search, editors.
const USUAL: [&str; 16] = [
    "file",
    "g++",
    "gcc",
    "jq",
    "libc6-dev",
    "make",
    "nano",
    "nodejs",
    "npm",
    "patch",
    "python-is-python3",
    "python3-pip",
    "ripgrep",
    "unzip",
    "vim-tiny",
    "zip",
];
/// What building packages with native parts needs.
const DEVELOPMENT: [&str; 3] = ["build-essential", "pkg-config", "python3-dev"];

/// A recipe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recipe {
    /// What agents expect to find: git, python, pip, node, npm, gcc, make, jq, ripgrep, editors.
    Debian,
    /// A small Debian: shell, coreutils, git, python, curl.
    DebianSlim,
    /// The usual one with what building native packages needs.
    DebianDev,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 3] = [Self::Debian, Self::DebianSlim, Self::DebianDev];

    /// Its name, which is also the usual name of its image.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::DebianSlim => "debian-slim",
            Self::DebianDev => "debian-dev",
        }
    }

    /// A short description.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Debian => {
                "Debian with git, python, pip, node, npm, gcc, make, curl, jq, ripgrep, nano and vi"
            }
            Self::DebianSlim => "a small Debian: shell, coreutils, git, python3, curl",
            Self::DebianDev => "debian with build-essential, pkg-config and python3-dev",
        }
    }

    /// The packages. Their dependencies are installed too.
    pub fn packages(self) -> impl Iterator<Item = &'static str> {
        let (usual, more): (&[&str], &[&str]) = match self {
            Self::DebianSlim => (&[], &[]),
            Self::Debian => (&USUAL, &[]),
            Self::DebianDev => (&USUAL, &DEVELOPMENT),
        };
        SLIM.iter().chain(usual).chain(more).copied()
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Recipe {
    type Err = DebianError;

    fn from_str(name: &str) -> Result<Self, DebianError> {
        Self::ALL.into_iter().find(|recipe| recipe.name() == name).ok_or_else(|| DebianError::UnknownRecipe {
            name: name.to_owned(),
            known: Self::ALL.map(Self::name).to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentiso_core::Explain;

    #[test]
    fn recipes_go_by_their_names_and_typos_get_a_hint() {
        for recipe in Recipe::ALL {
            assert_eq!(recipe.name().parse::<Recipe>().unwrap(), recipe);
        }
        let error = "debian-devel".parse::<Recipe>().unwrap_err();
        assert_eq!(error.remedy().as_deref(), Some("did you mean \"debian-dev\"?"));
    }

    #[test]
    fn each_recipe_has_all_of_the_smaller_one() {
        let [slim, usual, dev] = [Recipe::DebianSlim, Recipe::Debian, Recipe::DebianDev]
            .map(|recipe| recipe.packages().collect::<Vec<_>>());
        assert!(slim.iter().all(|package| usual.contains(package)));
        assert!(usual.iter().all(|package| dev.contains(package)));
        assert!(usual.contains(&"npm") && !slim.contains(&"npm"));
    }
}
