//! What goes into an image.

use std::fmt;
use std::str::FromStr;

use super::DebianError;

/// Enough to work with: a shell, files, processes, the network, git, python.
const BASE: [&str; 12] = [
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
/// Enough to build things with.
const DEVELOPMENT: [&str; 6] =
    ["build-essential", "nodejs", "npm", "pkg-config", "python3-dev", "python3-pip"];

/// A kind of image we know how to build.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recipe {
    /// A small Debian: shell, coreutils, git, python, curl.
    Debian,
    /// The same with compilers, make, node and npm.
    DebianDev,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Self; 2] = [Self::Debian, Self::DebianDev];

    /// Its name, which is also the usual name of its image.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian => "debian",
            Self::DebianDev => "debian-dev",
        }
    }

    /// What it is, in a few words.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Debian => "a small Debian: shell, coreutils, git, python3, curl",
            Self::DebianDev => "debian with compilers, make, node and npm",
        }
    }

    /// The packages asked for by name; what they need comes along.
    pub fn packages(self) -> impl Iterator<Item = &'static str> {
        let more: &[&str] = match self {
            Self::Debian => &[],
            Self::DebianDev => &DEVELOPMENT,
        };
        BASE.iter().chain(more).copied()
    }

    /// A file system size, in bytes, that leaves room to work.
    pub fn fs_bytes(self) -> u64 {
        match self {
            Self::Debian => 2 << 30,
            Self::DebianDev => 4 << 30,
        }
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
    fn the_development_recipe_has_all_of_the_small_one() {
        let all: Vec<_> = Recipe::DebianDev.packages().collect();
        assert!(Recipe::Debian.packages().all(|package| all.contains(&package)));
        assert!(all.contains(&"npm"));
    }
}
