//! Variables of a workspace: in memory, here and in its agent, and nowhere else.
//!
//! The agent's copy reaches its commands, and tells a daemon that was killed what there was. The daemon's copy is for a
//! machine that starts anew.

use std::collections::BTreeMap;

use agentiso_core::{Failure, WorkspaceId};
use agentiso_runtime::guest::Guest;
use zeroize::Zeroizing;

use crate::Engine;
use crate::rooms::locked;
use crate::secrets::is_secret_variable;

/// Names and values.
#[derive(Clone, Default)]
pub(crate) struct Env {
    /// None until the agent was asked.
    known: Option<BTreeMap<String, Zeroizing<String>>>,
}

impl Env {
    /// Changes some of them.
    pub fn change(&mut self, vars: &BTreeMap<String, Option<String>>) {
        let known = self.known.get_or_insert_default();
        for (name, value) in vars {
            match value {
                Some(value) => known.insert(name.clone(), Zeroizing::new(value.clone())),
                None => known.remove(name),
            };
        }
    }

    /// The names.
    pub fn names(&self) -> Vec<String> {
        self.known.iter().flatten().map(|(name, _)| name.clone()).collect()
    }

    /// The values that are secrets.
    pub fn secrets(&self) -> Vec<&str> {
        let known = self.known.iter().flatten().map(|(name, value)| (name, value.as_str()));
        known.filter(|(name, value)| is_secret_variable(name, value)).map(|(_, value)| value).collect()
    }

    fn vars(&self) -> Vec<(String, Option<String>)> {
        self.known.iter().flatten().map(|(name, value)| (name.clone(), Some(value.to_string()))).collect()
    }
}

impl Engine {
    /// What a workspace's commands get. The agent is asked if nobody here knows.
    pub(crate) async fn env_of(&self, id: WorkspaceId, guest: Option<&Guest>) -> Result<Env, Failure> {
        let room = self.rooms.of(id);
        let known = locked(&room.env).clone();
        match (known.known.is_some(), guest) {
            (false, Some(guest)) => {
                let found = guest.env().await?;
                let known = found.into_iter().map(|(name, value)| (name, Zeroizing::new(value))).collect();
                let env = Env { known: Some(known) };
                *locked(&room.env) = env.clone();
                Ok(env)
            }
            _ => Ok(known),
        }
    }

    /// Gives a machine that has just started, or was taken back, the variables of its workspace.
    pub(crate) async fn equip(&self, id: WorkspaceId) -> Result<(), Failure> {
        let room = self.rooms.of(id);
        room.forget_shell();
        let vars = locked(&room.env).vars();
        if !vars.is_empty() {
            self.workspaces.guest(id).await?.set_env(vars).await?;
        }
        Ok(())
    }

    /// Lets a fork have its source's variables.
    pub(crate) async fn bequeath(&self, source: WorkspaceId, fork: WorkspaceId) -> Result<(), Failure> {
        let env = locked(&self.rooms.of(source).env).clone();
        *locked(&self.rooms.of(fork).env) = env;
        self.equip(fork).await
    }
}
