//! The machine's environment: variables that every later command gets, below what its own request says. They are only
//! in the agent's memory, and no value of theirs is in any message.

use std::{collections::BTreeMap, sync::Mutex};

use agentiso_proto::{MAX_VARIABLES, MAX_VARIABLES_BYTES, Response, Secret, check_name};

use crate::{
    error::{Outcome, invalid},
    sync::locked,
};

/// Names and values.
pub(crate) type Variables = BTreeMap<String, Secret>;

/// The machine's variables.
#[derive(Default)]
pub(crate) struct Environment(Mutex<Variables>);

impl Environment {
    /// What a command that starts now gets.
    pub(crate) fn variables(&self) -> Variables {
        locked(&self.0).clone()
    }

    /// Sets variables, or removes those without a value. If one of them is refused, nothing changes.
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

    /// All of them.
    pub(crate) fn list(&self) -> Response {
        Response::Env(self.variables().into_iter().collect())
    }
}
