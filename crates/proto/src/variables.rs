//! The machine's variables: part of the environment of every later command.

use std::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// Maximum number of variables of a machine.
pub const MAX_VARIABLES: usize = 256;
/// Limit on the total size of names and values.
pub const MAX_VARIABLES_BYTES: usize = 128 * 1024;

/// The value of a variable. Never shown by `Debug`, and wiped on drop.
#[derive(Clone, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Secret(String);

impl Secret {
    /// The plain value.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the plain value. The caller is responsible for wiping it.
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

/// Why a name is not allowed for a machine's variable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// The name is not valid in a shell.
    #[error(
        "{0:?} is not a valid variable name: use letters, digits and underscores, and do not begin with a digit"
    )]
    Malformed(String),
    /// The variable determines which programs run, for every command.
    #[error("{0} determines which code commands run, so it cannot be set for a whole machine")]
    Refused(String),
}

/// Checks the name of a variable that applies to every command of a machine. Variables in the request of a single
/// command are not restricted: a caller that chooses the program may choose its `PATH`.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let well_formed = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !well_formed {
        // Show only the beginning: it may be a value that ended up in the wrong place.
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
    fn names_that_determine_code_are_rejected_and_similar_names_are_not() {
        for name in ["PATH", "IFS", "ENV", "BASH_ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_"] {
            assert_eq!(check_name(name), Err(NameError::Refused(name.to_owned())));
        }
        for name in ["PATHS", "MY_PATH", "path", "LD", "OLD_PRELOAD", "_", "_1", "a", "TOKEN"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_are_invalid_in_a_shell_are_rejected() {
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
