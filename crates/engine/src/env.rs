//! Variables of a workspace. Their values are in memory, here and in its agent, and nowhere else; their names, and who
//! set them, are in the database.
//!
//! ```text
//!  set ──► settled: the machine has what is kept by name, with these values, and nothing else
//!            │  ▲
//!            │  └── before the next command: what is kept by name and known is given to the machine, the rest removed
//!            ▼
//!         unsettled: another owner (what sessions had set is kept no more), a machine that came back, a call that failed
//! ```
//!
//! Whatever a machine has that is not kept by name is removed before anybody's command can see it. So a new owner never
//! gets the variables of the one before, whatever state the workspace was in, and whether or not the daemon ended in
//! between. A machine that comes out of a snapshot may have values of an earlier owner under names that are kept: it
//! gets the present values, or none.

use std::collections::BTreeMap;

use agentiso_core::ports::link::{Link, LinkError};
use agentiso_core::ports::records::{Settings, Variable};
use agentiso_core::{Code, Failure, SessionId, WorkspaceId};
use zeroize::Zeroizing;

use crate::Engine;
use crate::rooms::{Room, locked};
use crate::secrets::is_secret_variable;

type Values = BTreeMap<String, Zeroizing<String>>;

/// Variables a workspace may have: as many as a machine takes.
const MOST: usize = agentiso_core::action::forms::MAX_VARIABLES;
/// The longest name.
const LONGEST_NAME: usize = agentiso_core::action::forms::MAX_VARIABLE_NAME;

/// The values that are known here.
#[derive(Clone, Default)]
pub(crate) struct Env {
    values: Values,
    /// Whether the machine has these and nothing else.
    settled: bool,
    /// How often the workspace got another owner.
    owners: u64,
}

/// Which variables a machine has that was just started or taken back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Had {
    /// None: it is new.
    Nothing,
    /// Those that its workspace has now.
    Present,
    /// Those of an earlier time.
    Past,
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

/// What a machine and the database are to have, and what has to be told the machine.
#[derive(Default)]
struct Plan {
    values: Values,
    kept: Vec<Variable>,
    changes: Vec<(String, Option<String>)>,
}

/// Decides what a machine is to have: what is kept by name, with the value that is known here or, if the machine can
/// have it from nobody else, its own.
fn plan(kept: &[Variable], known: &Values, found: &Values, had: Had) -> Plan {
    let mut plan = Plan::default();
    for variable in kept.iter().filter(|variable| variable.name != Variable::ANY) {
        let own = found.get(&variable.name).filter(|_| had == Had::Present && !variable.waiting);
        if let Some(value) = known.get(&variable.name).or(own) {
            plan.values.insert(variable.name.clone(), value.clone());
            plan.kept.push(Variable { waiting: false, ..variable.clone() });
        }
    }
    if had == Had::Present
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

impl Room {
    /// Forgets the values that are kept no more because the workspace has another owner.
    pub(crate) fn change_owner(&self, kept: &[Variable]) {
        let mut env = locked(&self.env);
        env.values.retain(|name, _| kept.iter().any(|variable| variable.name == *name));
        env.settled = false;
        env.owners += 1;
        self.leave_owner();
    }
}

impl Engine {
    /// What a workspace's commands get, and if the machine is given, what it has from then on.
    pub(crate) async fn env_of(&self, id: WorkspaceId, guest: Option<&Link>) -> Result<Env, Failure> {
        let room = self.rooms.of(id);
        if let Some(guest) = guest
            && !locked(&room.env).settled
        {
            let _turn = room.env_turn.lock().await;
            self.settle_env(id, &room, guest, Had::Present).await?;
        }
        Ok(locked(&room.env).clone())
    }

    /// Gives a machine that has just started, or was taken back, the variables of its workspace and no others.
    pub(crate) async fn equip(&self, id: WorkspaceId, had: Had) -> Result<(), Failure> {
        let room = self.rooms.of(id);
        room.forget_shell();
        let _turn = room.env_turn.lock().await;
        locked(&room.env).settled = false;
        if had == Had::Nothing && self.records.variables(id).await?.is_empty() {
            let mut env = locked(&room.env);
            env.values.clear();
            env.settled = true;
            return Ok(());
        }
        let guest = self.host.link(id).await?;
        self.settle_env(id, &room, &guest, had).await
    }

    /// Lets a fork have its source's variables.
    pub(crate) async fn bequeath(
        &self,
        source: WorkspaceId,
        fork: WorkspaceId,
        had: Had,
    ) -> Result<(), Failure> {
        let values = locked(&self.rooms.of(source).env).values.clone();
        self.records.copy_variables(source, fork).await?;
        locked(&self.rooms.of(fork).env).values = values;
        self.equip(fork, had).await
    }

    /// Makes the machine, the database and what is known here agree. The caller has the turn.
    async fn settle_env(&self, id: WorkspaceId, room: &Room, guest: &Link, had: Had) -> Result<(), Failure> {
        let before = locked(&room.env).clone();
        if before.settled {
            return Ok(());
        }
        let kept = self.records.variables(id).await?;
        let found = match had {
            Had::Nothing => Values::new(),
            Had::Present | Had::Past => found_in(guest).await?,
        };
        let plan = plan(&kept, &before.values, &found, had);
        if !plan.changes.is_empty() {
            guest.set_env(plan.changes).await?;
        }
        let is_kept = self.records.replace_variables(id, &kept, &plan.kept).await?;
        let mut env = locked(&room.env);
        // Whoever is the owner now settles it again.
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
        let room = self.rooms.of(id);
        let _turn = room.env_turn.lock().await;
        if let Some(guest) = guest {
            self.settle_env(id, &room, guest, Had::Present).await?;
        }
        let owners = locked(&room.env).owners;
        // Until all is done it is not known what the machine has.
        locked(&room.env).settled = false;
        if let Some(guest) = guest {
            guest.set_env(vars.clone().into_iter().collect()).await?;
        }
        self.keep_names(id, setter, vars, guest.is_none()).await?;
        let mut env = locked(&room.env);
        if env.owners == owners {
            env.change(vars);
            env.settled = guest.is_some();
        }
        Ok(env.names())
    }

    /// Keeps the names of variables, and who set them, unless the workspace went to somebody else meanwhile.
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

    /// Forgets the names of variables whose values ended with the daemon that knew them: those of a workspace that has no
    /// machine, except for what is in the memory of a suspended one.
    pub(crate) async fn forget_lost_variables(&self, id: WorkspaceId) -> Result<(), Failure> {
        let left = |settings: &Settings, mut kept: Vec<Variable>| {
            kept.retain(|variable| settings.suspended.is_some() && !variable.waiting);
            Ok(kept)
        };
        self.records.change_variables(id, Box::new(left)).await
    }
}

/// The variables a machine has. What an older agent does not know it has none of.
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
        let plan = plan(&kept(&[("B", false)]), &Values::new(), &found, Had::Present);
        assert_eq!(told(&plan), [("A", None)]);
        assert_eq!(plan.values, values(&[("B", "mine")]));
        assert_eq!(plan.kept, kept(&[("B", false)]));
    }

    #[test]
    fn a_value_that_is_older_than_its_name_is_not_kept() {
        let found = values(&[("A", "of an earlier owner")]);
        for (names, had) in [(kept(&[("A", true)]), Had::Present), (kept(&[("A", false)]), Had::Past)] {
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
        let running = plan(&kept(&[("*", false)]), &Values::new(), &found, Had::Present);
        is(&running, &[], &[("A", false)]);
        let older = plan(&kept(&[("*", false)]), &Values::new(), &found, Had::Past);
        is(&older, &[("A", None)], &[]);
    }

    #[test]
    fn a_new_machine_gets_what_is_known() {
        let plan =
            plan(&kept(&[("A", true), ("B", false)]), &values(&[("A", "1")]), &Values::new(), Had::Nothing);
        assert_eq!(told(&plan), [("A", Some("1"))]);
        assert_eq!(plan.kept, kept(&[("A", false)]));
    }
}
