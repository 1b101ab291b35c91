//! Variables for a command.

use std::fmt;

use super::RequestError;

/// The longest variable, name and value together.
const MAX_VARIABLE: usize = 128 << 10;

/// One variable. Its value may be a secret: it is not printed.
#[derive(Clone, Eq, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl fmt::Debug for Variable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}=***", self.name)
    }
}

impl Variable {
    /// Checks its name and length.
    pub fn check(&self) -> Result<(), RequestError> {
        let refused = |reason| {
            let variable = self.name.chars().take(100).collect();
            Err(RequestError::Variable { variable, reason })
        };
        if self.name.is_empty() {
            return refused("it has no name");
        }
        if self.name.contains('=') || self.name.contains('\0') || self.value.contains('\0') {
            return refused("it contains a character that it cannot have");
        }
        if self.name.len() + self.value.len() > MAX_VARIABLE {
            return refused("it is longer than 128 KiB");
        }
        if RESERVED.contains(&self.name.as_str()) {
            return refused("agentiso sets it itself");
        }
        Ok(())
    }
}

/// What the command is told about its vault.
const RESERVED: &[&str] = &["AVFS_VAULT", "AVFS_MOUNTPOINT", "AVFS_RUN"];

/// Reads `NAME=VALUE`, or `NAME` for the value that `present` has.
pub fn parse_variable(
    given: &str,
    present: impl Fn(&str) -> Option<String>,
) -> Result<Variable, RequestError> {
    let variable = match given.split_once('=') {
        Some((name, value)) => Variable { name: name.to_owned(), value: value.to_owned() },
        None => {
            let value = present(given).ok_or_else(|| RequestError::Variable {
                variable: given.chars().take(100).collect(),
                reason: "it is not set, and no value is given",
            })?;
            Variable { name: given.to_owned(), value }
        }
    };
    variable.check()?;
    Ok(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_a_value_or_passes_one_on() {
        let present = |name: &str| (name == "LANG").then(|| "C.UTF-8".to_owned());
        let read = |given: &str| parse_variable(given, present).map(|one| (one.name, one.value));
        assert_eq!(read("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(read("A="), Ok(("A".to_owned(), String::new())));
        assert_eq!(read("LANG"), Ok(("LANG".to_owned(), "C.UTF-8".to_owned())));
        for wrong in ["", "=x", "MISSING", "A=\0", "AVFS_VAULT=other"] {
            assert!(matches!(read(wrong), Err(RequestError::Variable { .. })), "{wrong}");
        }
    }

    #[test]
    fn values_are_not_printed() {
        let variable = Variable { name: "TOKEN".to_owned(), value: "geheim".to_owned() };
        assert_eq!(format!("{variable:?}"), "TOKEN=***");
    }
}
