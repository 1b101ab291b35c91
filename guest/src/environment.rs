//! The machine's variables: part of the environment of every command that starts later; the command's own variables
//! override them. They exist only in the agent's memory, and their values never appear in messages.

use std::{collections::BTreeMap, sync::Mutex};

use agentiso_proto::{MAX_VARIABLES, MAX_VARIABLES_BYTES, Response, Secret, check_name};

use crate::{
    error::{Outcome, invalid},
    sync::locked,
};

/// Values by name.
pub(crate) type Variables = BTreeMap<String, Secret>;

#[derive(Default)]
pub(crate) struct Environment(Mutex<Variables>);

impl Environment {
    /// The current variables, for a command that is about to start.
    pub(crate) fn variables(&self) -> Variables {
        locked(&self.0).clone()
    }

    /// Sets variables, and removes those without a value. If any of them is invalid, nothing changes.
    pub(crate) fn set(&self, changes: &[(String, Option<Secret>)]) -> Outcome<Response> {
        let mut current = locked(&self.0);
        let mut next = current.clone();
        for (name, value) in changes {
            check_name(name).map_err(|error| invalid(error.to_string()))?;
            match value {
                Some(value) if value.reveal().contains('\0') => {
                    return Err(invalid(format!("the value of {name} contains a NUL")));
                }
                Some(value) => drop(next.insert(name.clone(), value.clone())),
                None => drop(next.remove(name)),
            }
        }
        if next.len() > MAX_VARIABLES {
            return Err(invalid(format!("a machine has at most {MAX_VARIABLES} variables")));
        }
        let bytes: usize = next.iter().map(|(name, value)| name.len() + value.reveal().len()).sum();
        if bytes > MAX_VARIABLES_BYTES {
            return Err(invalid(format!("a machine's variables take at most {MAX_VARIABLES_BYTES} bytes")));
        }
        *current = next;
        Ok(Response::EnvSet { variables: u32::try_from(current.len()).unwrap_or(u32::MAX) })
    }

    /// Returns all variables with their values.
    pub(crate) fn list(&self) -> Response {
        Response::Env(self.variables().into_iter().collect())
    }
}
