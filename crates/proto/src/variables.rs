//! The environment of a machine: variables that every later command gets.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// Variables a machine may have.
pub const MAX_VARIABLES: usize = 256;
/// Bytes of their names and values together.
pub const MAX_VARIABLES_BYTES: usize = 128 * 1024;

/// The value of a variable. It is never shown, and wiped when dropped.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Secret(String);

impl Secret {
    /// The value.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The value, which from here on is the caller's to wipe.
    pub fn into_string(mut self) -> String {
        std::mem::take(&mut self.0)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Why a machine has no variable of this name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// Shells could not use it.
    #[error("{0:?} is no name of a variable: letters, digits and underscores, no digit first")]
    Malformed(String),
    /// It decides what programs run, and would do so for every command.
    #[error("{0} decides which code commands run, so it cannot be set for a whole machine")]
    Refused(String),
}

/// Checks the name of a variable that is to hold for every command of a machine. What one command's own request sets
/// is not bound by it: whoever may choose the program may choose its `PATH`.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let well_formed = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !well_formed {
        // A value that got into the wrong place is not repeated at length.
        return Err(NameError::Malformed(name.chars().take(32).collect()));
    }
    if matches!(name, "PATH" | "IFS" | "ENV" | "BASH_ENV") || name.starts_with("LD_") {
        return Err(NameError::Refused(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_choose_code_are_refused_and_those_alike_are_not() {
        for name in ["PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_"] {
            assert_eq!(check_name(name), Err(NameError::Refused(name.to_owned())));
        }
        for name in ["PATHS", "MY_PATH", "path", "LD", "OLD_PRELOAD", "_", "_1", "a", "TOKEN"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_no_shell_could_use_are_refused() {
        for name in ["", "1A", "A-B", "A B", "A=B", "Ä", "A\0", "A\n"] {
            assert_eq!(check_name(name), Err(NameError::Malformed(name.to_owned())));
        }
    }

    #[test]
    fn a_value_is_not_shown() {
        let secret = Secret::from("hunter2".to_owned());
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!((secret.reveal(), secret.clone().into_string().as_str()), ("hunter2", "hunter2"));
    }

    proptest! {
        #[test]
        fn a_name_that_passes_needs_no_quoting(name in any::<String>()) {
            if check_name(&name).is_ok() {
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            }
        }
    }
}
