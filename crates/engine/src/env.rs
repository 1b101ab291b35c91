//! Environment variables of a workspace. Values are kept in memory only, here and in the guest agent; names, and whether
//! the operator set them, are in the records.
//!
//! ```text
//!  set ──► synced: the machine has exactly the variables whose names are recorded
//!            │  ▲
//!            │  └── before the next command: recorded variables are set in the machine, all others removed
//!            ▼
//!         not synced: after a change of owner, a restore, a restart, or a call that failed
//! ```
//!
//! A variable of the machine whose name is not recorded is removed before any command can see it. A new owner therefore
//! never gets the variables of the previous one, in whatever state the workspace was and even if the daemon was restarted
//! in between. A machine restored from a snapshot may have old values under recorded names: it gets the current values, or
//! none.

use std::collections::BTreeMap;

use agentiso_core::ports::link::{Link, LinkError};
use agentiso_core::ports::records::{Settings, Variable};
use agentiso_core::{Code, Failure, SessionId, WorkspaceId};
use zeroize::Zeroizing;

use crate::Engine;
use crate::live_state::{LiveState, locked};
use crate::secrets::is_secret_variable;

type Values = BTreeMap<String, Zeroizing<String>>;

/// Variables a workspace may have: as many as a machine takes.
const MOST: usize = 256;
/// The longest name.
const LONGEST_NAME: usize = 255;

/// The values that are known here.
#[derive(Clone, Default)]
pub(crate) struct Env {
    values: Values,
    /// Whether the machine has exactly these.
    settled: bool,
    /// How often the workspace got another owner.
    owners: u64,
}

/// Which variables a machine has that was just started, restored or reconnected to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MachineEnv {
    /// None: it is new.
    Empty,
    /// Those that its workspace has now.
    Current,
    /// Those of an earlier time.
    Stale,
}

impl Env {
    /// The names.
    pub fn names(&self) -> Vec<String> {
        self.values.keys().cloned().collect()
    }

    /// The values that are secrets.
    pub fn secrets(&self) -> Vec<&str> {
        let known = self.values.iter().map(|(name, value)| (name, value.as_str()));
        known.filter(|(name, value)| is_secret_variable(name, value)).map(|(_, value)| value).collect()
    }

    fn change(&mut self, vars: &BTreeMap<String, Option<String>>) {
        for (name, value) in vars {
            match value {
                Some(value) => self.values.insert(name.clone(), Zeroizing::new(value.clone())),
                None => self.values.remove(name),
            };
        }
    }
}

/// The variables a machine and the records should have, and the changes to send to the machine.
#[derive(Default)]
struct Plan {
    values: Values,
    kept: Vec<Variable>,
    changes: Vec<(String, Option<String>)>,
}

/// Decides which variables a machine should have: the recorded ones, with the value known here or, if none is known and
/// the machine's own cannot be an older one, the machine's.
fn plan(kept: &[Variable], known: &Values, found: &Values, had: MachineEnv) -> Plan {
    let mut plan = Plan::default();
    for variable in kept.iter().filter(|variable| variable.name != Variable::ANY) {
        let own = found.get(&variable.name).filter(|_| had == MachineEnv::Current && !variable.waiting);
        if let Some(value) = known.get(&variable.name).or(own) {
            plan.values.insert(variable.name.clone(), value.clone());
            plan.kept.push(Variable { waiting: false, ..variable.clone() });
        }
    }
    if had == MachineEnv::Current
        && let Some(any) = kept.iter().find(|variable| variable.name == Variable::ANY)
    {
        for (name, value) in found {
            if !kept.iter().any(|variable| variable.name == *name) {
                plan.values.insert(name.clone(), value.clone());
                plan.kept.push(Variable { name: name.clone(), ..any.clone() });
            }
        }
    }
    plan.kept.sort_by(|one, other| one.name.cmp(&other.name));
    let gone = found.keys().filter(|name| !plan.values.contains_key(*name)).map(|name| (name.clone(), None));
    let new = plan.values.iter().filter(|(name, value)| found.get(*name) != Some(*value));
    plan.changes = gone.chain(new.map(|(name, value)| (name.clone(), Some(value.to_string())))).collect();
    plan
}

impl LiveState {
    /// Forgets the values of variables that are no longer recorded because the workspace has a new owner.
    pub(crate) fn change_owner(&self, kept: &[Variable]) {
        let mut env = locked(&self.env);
        env.values.retain(|name, _| kept.iter().any(|variable| variable.name == *name));
        env.settled = false;
        env.owners += 1;
        self.leave_owner();
    }
}

impl Engine {
    /// The variables of a workspace's commands. If a link is given, the machine is synced first.
    pub(crate) async fn env_of(&self, id: WorkspaceId, guest: Option<&Link>) -> Result<Env, Failure> {
        let live = self.live.of(id);
        if let Some(guest) = guest
            && !locked(&live.env).settled
        {
            let _lock = live.env_lock.lock().await;
            self.sync_env(id, &live, guest, MachineEnv::Current).await?;
        }
        Ok(locked(&live.env).clone())
    }

    /// Gives a machine that was just started or restored exactly the variables of its workspace.
    pub(crate) async fn apply_env(&self, id: WorkspaceId, had: MachineEnv) -> Result<(), Failure> {
        let live = self.live.of(id);
        live.forget_shell();
        let _lock = live.env_lock.lock().await;
        locked(&live.env).settled = false;
        if had == MachineEnv::Empty && self.records.variables(id).await?.is_empty() {
            let mut env = locked(&live.env);
            env.values.clear();
            env.settled = true;
            return Ok(());
        }
        let guest = self.host.link(id).await?;
        self.sync_env(id, &live, &guest, had).await
    }

    /// Copies the variables of a workspace to its fork.
    pub(crate) async fn copy_env(
        &self,
        source: WorkspaceId,
        fork: WorkspaceId,
        had: MachineEnv,
    ) -> Result<(), Failure> {
        let values = locked(&self.live.of(source).env).values.clone();
        self.records.copy_variables(source, fork).await?;
        locked(&self.live.of(fork).env).values = values;
        self.apply_env(fork, had).await
    }

    /// Makes the machine, the records and the values known here agree. The caller holds the lock.
    async fn sync_env(
        &self,
        id: WorkspaceId,
        live: &LiveState,
        guest: &Link,
        had: MachineEnv,
    ) -> Result<(), Failure> {
        let before = locked(&live.env).clone();
        if before.settled {
            return Ok(());
        }
        let kept = self.records.variables(id).await?;
        let found = match had {
            MachineEnv::Empty => Values::new(),
            MachineEnv::Current | MachineEnv::Stale => found_in(guest).await?,
        };
        let plan = plan(&kept, &before.values, &found, had);
        if !plan.changes.is_empty() {
            guest.set_env(plan.changes).await?;
        }
        let is_kept = self.records.replace_variables(id, &kept, &plan.kept).await?;
        let mut env = locked(&live.env);
        // If the owner changed meanwhile, the next command syncs again.
        if is_kept && env.owners == before.owners {
            env.values = plan.values;
            env.settled = true;
        }
        Ok(())
    }

    /// Sets variables for a session or, if there is none, for the user. The machine gets them if there is one.
    pub(crate) async fn set_variables(
        &self,
        id: WorkspaceId,
        setter: Option<SessionId>,
        vars: &BTreeMap<String, Option<String>>,
        guest: Option<&Link>,
    ) -> Result<Vec<String>, Failure> {
        if let Some(long) = vars.keys().find(|name| name.len() > LONGEST_NAME) {
            let message = format!("the name of a variable has {} bytes, {LONGEST_NAME} at most", long.len());
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let live = self.live.of(id);
        let _lock = live.env_lock.lock().await;
        if let Some(guest) = guest {
            self.sync_env(id, &live, guest, MachineEnv::Current).await?;
        }
        let owners = locked(&live.env).owners;
        // If this fails half way, the machine's variables are unknown.
        locked(&live.env).settled = false;
        if let Some(guest) = guest {
            guest.set_env(vars.clone().into_iter().collect()).await?;
        }
        self.keep_names(id, setter, vars, guest.is_none()).await?;
        let mut env = locked(&live.env);
        if env.owners == owners {
            env.change(vars);
            env.settled = guest.is_some();
        }
        Ok(env.names())
    }

    /// Records the names of variables, unless the workspace has a new owner by now.
    async fn keep_names(
        &self,
        id: WorkspaceId,
        setter: Option<SessionId>,
        vars: &BTreeMap<String, Option<String>>,
        waiting: bool,
    ) -> Result<(), Failure> {
        let (removed, set): (Vec<_>, Vec<_>) = vars.iter().partition(|(_, value)| value.is_none());
        let removed: Vec<String> = removed.into_iter().map(|(name, _)| name.clone()).collect();
        let set: Vec<String> = set.into_iter().map(|(name, _)| name.clone()).collect();
        let change = move |settings: &Settings, mut kept: Vec<Variable>| {
            if setter.is_some() && settings.owner != setter {
                let message = "the workspace was given to another session while its variables were set";
                return Err(Failure::new(Code::NotOwner, message));
            }
            kept.retain(|variable| !removed.contains(&variable.name) && !set.contains(&variable.name));
            let set = set.into_iter().map(|name| Variable { name, by_operator: setter.is_none(), waiting });
            kept.extend(set);
            if kept.len() > MOST {
                let message = format!("a workspace can have at most {MOST} variables");
                return Err(
                    Failure::new(Code::InvalidArgument, message).with_remedy("remove some of them first")
                );
            }
            Ok(kept)
        };
        self.records.change_variables(id, Box::new(change)).await
    }

    /// Forgets the names of variables whose values were lost with an earlier daemon: those of a workspace without a machine,
    /// except for those in the saved memory of a suspended one.
    pub(crate) async fn forget_lost_variables(&self, id: WorkspaceId) -> Result<(), Failure> {
        let left = |settings: &Settings, mut kept: Vec<Variable>| {
            kept.retain(|variable| settings.suspended.is_some() && !variable.waiting);
            Ok(kept)
        };
        self.records.change_variables(id, Box::new(left)).await
    }
}

/// The variables of a machine. Older agents do not support variables.
async fn found_in(guest: &Link) -> Result<Values, Failure> {
    match guest.env().await {
        Ok(found) => Ok(found.into_iter().map(|(name, value)| (name, Zeroizing::new(value))).collect()),
        Err(LinkError::OldAgent { .. }) => Ok(Values::new()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Zeroizing::new((*value).to_owned()))).collect()
    }

    fn kept(names: &[(&str, bool)]) -> Vec<Variable> {
        let variable = |(name, waiting): &(&str, bool)| Variable {
            name: (*name).to_owned(),
            by_operator: true,
            waiting: *waiting,
        };
        names.iter().map(variable).collect()
    }

    fn told(plan: &Plan) -> Vec<(&str, Option<&str>)> {
        plan.changes.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect()
    }

    fn is(plan: &Plan, changes: &[(&str, Option<&str>)], names: &[(&str, bool)]) {
        assert_eq!((told(plan).as_slice(), &plan.kept), (changes, &kept(names)));
    }

    #[test]
    fn a_machine_keeps_nothing_that_is_not_kept_by_name() {
        let found = values(&[("A", "theirs"), ("B", "mine")]);
        let plan = plan(&kept(&[("B", false)]), &Values::new(), &found, MachineEnv::Current);
        assert_eq!(told(&plan), [("A", None)]);
        assert_eq!(plan.values, values(&[("B", "mine")]));
        assert_eq!(plan.kept, kept(&[("B", false)]));
    }

    #[test]
    fn a_value_that_is_older_than_its_name_is_not_kept() {
        let found = values(&[("A", "of an earlier owner")]);
        for (names, had) in
            [(kept(&[("A", true)]), MachineEnv::Current), (kept(&[("A", false)]), MachineEnv::Stale)]
        {
            let lost = plan(&names, &Values::new(), &found, had);
            is(&lost, &[("A", None)], &[]);
            let known = plan(&names, &values(&[("A", "now")]), &found, had);
            assert_eq!(told(&known), [("A", Some("now"))]);
            assert_eq!(known.kept, kept(&[("A", false)]));
        }
    }

    #[test]
    fn what_was_set_before_names_were_kept_is_kept_once_and_only_while_the_machine_runs() {
        let found = values(&[("A", "1")]);
        let running = plan(&kept(&[("*", false)]), &Values::new(), &found, MachineEnv::Current);
        is(&running, &[], &[("A", false)]);
        let older = plan(&kept(&[("*", false)]), &Values::new(), &found, MachineEnv::Stale);
        is(&older, &[("A", None)], &[]);
    }

    #[test]
    fn a_new_machine_gets_what_is_known() {
        let plan = plan(
            &kept(&[("A", true), ("B", false)]),
            &values(&[("A", "1")]),
            &Values::new(),
            MachineEnv::Empty,
        );
        assert_eq!(told(&plan), [("A", Some("1"))]);
        assert_eq!(plan.kept, kept(&[("A", false)]));
    }
}
