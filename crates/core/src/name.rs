//! Names users give to things.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Code, Explain};

/// The name of an image: a plain word that is safe as a directory name.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageName(String);

/// Why a name was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{name:?} is not a valid {kind} name: {reason}")]
pub struct NameError {
    kind: &'static str,
    name: String,
    reason: &'static str,
}

impl ImageName {
    /// The longest name accepted.
    pub const MAX: usize = 128;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ImageName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        check("image", name, Self::MAX).map(|()| Self(name.to_owned()))
    }
}

impl TryFrom<String> for ImageName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

impl From<ImageName> for String {
    fn from(name: ImageName) -> Self {
        name.0
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Explain for NameError {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        Some("use letters, digits, '-', '_' and '.', starting with a letter or digit".to_owned())
    }
}

fn check(kind: &'static str, name: &str, max: usize) -> Result<(), NameError> {
    let refuse = |reason| Err(NameError { kind, name: name.chars().take(max).collect(), reason });
    let Some(first) = name.chars().next() else {
        return refuse("it is empty");
    };
    if name.len() > max {
        return refuse("it is too long");
    }
    if !first.is_ascii_alphanumeric() {
        return refuse("it must start with a letter or digit");
    }
    if name.contains("..") {
        return refuse("it contains '..'");
    }
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return refuse("it contains a character that is not allowed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ordinary_names_pass_and_hostile_ones_do_not() {
        for good in ["debian", "debian-12.5", "a", "0x_1"] {
            assert!(good.parse::<ImageName>().is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a..b", "-rf", "a b", "a\0b", "ü", &"x".repeat(129)] {
            assert!(bad.parse::<ImageName>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn an_accepted_name_is_one_safe_path_component(name in ".{0,140}") {
            if let Ok(name) = name.parse::<ImageName>() {
                let path = std::path::Path::new(name.as_str());
                prop_assert_eq!(path.components().count(), 1);
                prop_assert!(matches!(path.components().next(), Some(std::path::Component::Normal(_))));
            }
        }
    }
}
