//! The decision about an action.

use super::{ActionFacts, Principal, Rules, Ruling, SubjectFacts, Use};
use crate::{Isolation, SessionId, WorkspaceId};

/// Whether an action is carried out, and what comes first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// It is carried out.
    Allow {
        /// The workspaces that the principal has to adopt first, each once.
        adopt: Vec<WorkspaceId>,
    },
    /// It is carried out after snapshots were taken.
    AllowWithCheckpoint {
        /// The workspaces that the principal has to adopt first, each once.
        adopt: Vec<WorkspaceId>,
        /// The workspaces to take a snapshot of, each once.
        checkpoint: Vec<WorkspaceId>,
    },
    /// It is not carried out unless the operator approves of it.
    NeedsApproval {
        /// Why, in a few words.
        reason: String,
    },
    /// It is not carried out.
    Deny(Denial),
}

/// Why an action is not carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Denial {
    /// The workspace belongs to another session.
    NotOwner(WorkspaceId),
    /// The principal must not learn that the workspace exists.
    Hidden(WorkspaceId),
    /// The command policy forbids it.
    Forbidden {
        /// Why, in a few words.
        reason: String,
    },
}

/// Decides about an action. Ownership comes before the ruling, so that a refusal says nothing about a workspace that the
/// principal may not use.
pub fn decide(rules: Rules, principal: Principal, action: &ActionFacts) -> Decision {
    let mut adopt = Vec::new();
    for subject in &action.subjects {
        match use_of(rules, principal, subject) {
            Err(denial) => return Decision::Deny(denial),
            Ok(Access::Adopt) if !adopt.contains(&subject.workspace) => adopt.push(subject.workspace),
            Ok(_) => {}
        }
    }
    match &action.ruling {
        Ruling::Allow => Decision::Allow { adopt },
        Ruling::Checkpoint => {
            let mut checkpoint: Vec<WorkspaceId> = Vec::new();
            for subject in action.subjects.iter().filter(|subject| subject.usage == Use::Work) {
                if !checkpoint.contains(&subject.workspace) {
                    checkpoint.push(subject.workspace);
                }
            }
            Decision::AllowWithCheckpoint { adopt, checkpoint }
        }
        Ruling::Approval { reason } => Decision::NeedsApproval { reason: reason.clone() },
        Ruling::Deny { reason } => Decision::Deny(Denial::Forbidden { reason: reason.clone() }),
    }
}

enum Access {
    Allow,
    Adopt,
}

fn use_of(rules: Rules, principal: Principal, subject: &SubjectFacts) -> Result<Access, Denial> {
    let Principal::Session(session) = principal else { return Ok(Access::Allow) };
    let isolated = rules.isolation == Isolation::Strict;
    let denial = || match isolated {
        true => Denial::Hidden(subject.workspace),
        false => Denial::NotOwner(subject.workspace),
    };
    match (subject.owner, subject.usage) {
        (Some(owner), _) if owner == session => Ok(Access::Allow),
        (_, _) if isolated => Err(denial()),
        (_, Use::Claim) | (None, Use::Remove) => Ok(Access::Allow),
        (None, Use::Work) => Ok(Access::Adopt),
        (Some(_), Use::Work | Use::Remove) => Err(denial()),
    }
}

impl Principal {
    /// Its session; the operator has none.
    pub fn session(self) -> Option<SessionId> {
        match self {
            Self::Operator => None,
            Self::Session(session) => Some(session),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn session(number: u8) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number.into()))
    }

    fn workspace(number: u8) -> WorkspaceId {
        WorkspaceId::from_uuid(Uuid::from_u128(number.into()))
    }

    fn principals() -> impl Strategy<Value = Principal> {
        prop_oneof![
            Just(Principal::Operator),
            (0u8..3).prop_map(|number| Principal::Session(session(number)))
        ]
    }

    fn rules() -> impl Strategy<Value = Rules> {
        prop_oneof![Just(Isolation::Shared), Just(Isolation::Strict)]
            .prop_map(|isolation| Rules { isolation })
    }

    fn rulings() -> impl Strategy<Value = Ruling> {
        prop_oneof![
            Just(Ruling::Allow),
            Just(Ruling::Checkpoint),
            "[a-z]{1,5}".prop_map(|reason| Ruling::Approval { reason }),
            "[a-z]{1,5}".prop_map(|reason| Ruling::Deny { reason }),
        ]
    }

    /// Workspaces whose owner follows from their number, as it does in a database.
    fn subjects() -> impl Strategy<Value = Vec<SubjectFacts>> {
        let usage = prop_oneof![Just(Use::Work), Just(Use::Remove), Just(Use::Claim)];
        let subject = (0u8..6, usage).prop_map(|(number, usage)| SubjectFacts {
            workspace: workspace(number),
            owner: (number < 3).then(|| session(number)),
            usage,
        });
        proptest::collection::vec(subject, 0..5)
    }

    fn actions() -> impl Strategy<Value = ActionFacts> {
        (subjects(), rulings()).prop_map(|(subjects, ruling)| ActionFacts { subjects, ruling })
    }

    fn is_anothers(subject: &SubjectFacts, principal: Principal) -> bool {
        match principal {
            Principal::Operator => false,
            Principal::Session(session) => subject.owner.is_some_and(|owner| owner != session),
        }
    }

    proptest! {
        #[test]
        fn a_session_never_uses_what_is_anothers(rules in rules(), principal in principals(), action in actions()) {
            let used = |subject: &SubjectFacts| subject.usage != Use::Claim && is_anothers(subject, principal);
            if action.subjects.iter().any(used) {
                let decision = decide(rules, principal, &action);
                let denied = matches!(decision, Decision::Deny(Denial::NotOwner(_) | Denial::Hidden(_)));
                prop_assert!(denied, "{decision:?}");
            }
        }

        #[test]
        fn the_operator_is_never_refused_for_an_owner_and_adopts_nothing(rules in rules(), action in actions()) {
            match decide(rules, Principal::Operator, &action) {
                Decision::Allow { adopt } | Decision::AllowWithCheckpoint { adopt, .. } => {
                    prop_assert_eq!(adopt, vec![]);
                }
                Decision::Deny(Denial::NotOwner(_) | Denial::Hidden(_)) => prop_assert!(false),
                Decision::NeedsApproval { .. } | Decision::Deny(Denial::Forbidden { .. }) => {}
            }
        }

        #[test]
        fn only_workspaces_without_an_owner_are_adopted_and_each_once(
            rules in rules(), principal in principals(), action in actions()
        ) {
            let adopted = match decide(rules, principal, &action) {
                Decision::Allow { adopt } | Decision::AllowWithCheckpoint { adopt, .. } => adopt,
                Decision::NeedsApproval { .. } | Decision::Deny(_) => return Ok(()),
            };
            for (index, id) in adopted.iter().enumerate() {
                prop_assert!(!adopted[..index].contains(id));
                let mut theirs = action.subjects.iter().filter(|subject| subject.workspace == *id);
                prop_assert!(theirs.any(|subject| subject.owner.is_none() && subject.usage == Use::Work));
                prop_assert_eq!(rules.isolation, Isolation::Shared);
            }
        }

        #[test]
        fn an_isolated_session_learns_of_nothing_but_its_own(principal in principals(), action in actions()) {
            let rules = Rules { isolation: Isolation::Strict };
            let decision = decide(rules, principal, &action);
            prop_assert!(!matches!(decision, Decision::Deny(Denial::NotOwner(_))));
            if let Principal::Session(own) = principal
                && action.subjects.iter().any(|subject| subject.owner != Some(own))
            {
                prop_assert!(matches!(decision, Decision::Deny(Denial::Hidden(_))), "{decision:?}");
            }
        }

        #[test]
        fn the_ruling_decides_once_every_subject_may_be_used(
            rules in rules(), principal in principals(), action in actions()
        ) {
            let decision = decide(rules, principal, &action);
            match (decision, &action.ruling) {
                (Decision::Deny(Denial::NotOwner(_) | Denial::Hidden(_)), _)
                | (Decision::Allow { .. }, Ruling::Allow) => {}
                (Decision::AllowWithCheckpoint { checkpoint, .. }, Ruling::Checkpoint) => {
                    let worked_on = |id: &WorkspaceId| {
                        let mut subjects = action.subjects.iter();
                        subjects.any(|subject| subject.workspace == *id && subject.usage == Use::Work)
                    };
                    prop_assert!(checkpoint.iter().all(worked_on));
                    let works = action.subjects.iter().any(|subject| subject.usage == Use::Work);
                    prop_assert_eq!(checkpoint.is_empty(), !works);
                }
                (Decision::NeedsApproval { reason }, Ruling::Approval { reason: given })
                | (Decision::Deny(Denial::Forbidden { reason }), Ruling::Deny { reason: given }) => {
                    prop_assert_eq!(&reason, given);
                }
                (decision, ruling) => prop_assert!(false, "{decision:?} for {ruling:?}"),
            }
        }
    }
}
