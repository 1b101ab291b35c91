//! Who may see and answer a request, and which answers change what.

use super::{Answer, Approval, ApprovalState, GrantScope};
use crate::SessionId;
use crate::admission::Principal;

/// Somebody who wants to see or answer a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Approver {
    /// Who it is.
    pub principal: Principal,
    /// Whether the operator named its session as approver.
    pub is_named: bool,
}

/// Why somebody may not answer a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// Its session asked, or owns the workspace that would profit.
    OwnRequest,
    /// It must not learn that the request exists.
    Hidden,
    /// The answer is for all workspaces, those of its own session too.
    ForAll,
}

/// Whether a request may be seen: by the operator, by approvers, and by the sessions it concerns. `owner` is the session
/// that owns the workspace now.
pub fn may_see(approver: Approver, request: &Approval, owner: Option<SessionId>) -> bool {
    approver.is_named || concerns(approver.principal, request, owner).is_none_or(|concerned| concerned)
}

/// Whether a request may be answered: by the operator and by approvers that it does not concern.
pub fn may_answer(approver: Approver, request: &Approval, owner: Option<SessionId>) -> Result<(), Refusal> {
    match concerns(approver.principal, request, owner) {
        None => Ok(()),
        Some(true) => Err(Refusal::OwnRequest),
        Some(false) if approver.is_named => Ok(()),
        Some(false) => Err(Refusal::Hidden),
    }
}

/// Whether this answer may be given by those who may answer. What holds for all workspaces is the operator's to grant: a
/// session would grant it to its own workspaces too.
pub fn may_answer_so(approver: Approver, answer: Answer) -> Result<(), Refusal> {
    match (approver.principal, answer) {
        (Principal::Session(_), Answer::Grant(GrantScope::Always)) => Err(Refusal::ForAll),
        _ => Ok(()),
    }
}

/// Whether a request concerns a session: it asked, or it owns the workspace. Nothing concerns the operator.
fn concerns(principal: Principal, request: &Approval, owner: Option<SessionId>) -> Option<bool> {
    let session = principal.session()?;
    Some(request.asked_by == Some(session) || owner == Some(session))
}

/// What an answer does to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transition {
    /// The state and scope it has from now on.
    To(ApprovalState, Option<GrantScope>),
    /// Nothing: it was answered like this before.
    Unchanged,
    /// It can no longer be answered like this.
    Closed,
}

/// What an answer does to a request: an open one is answered, a grant that holds can be revoked.
pub fn transition(state: ApprovalState, scope: Option<GrantScope>, answer: Answer) -> Transition {
    match (state, answer) {
        (ApprovalState::Open, Answer::Grant(scope)) => Transition::To(ApprovalState::Granted, Some(scope)),
        (ApprovalState::Granted, Answer::Grant(wanted)) if scope == Some(wanted) => Transition::Unchanged,
        (ApprovalState::Open | ApprovalState::Granted, Answer::Deny) => {
            Transition::To(ApprovalState::Denied, None)
        }
        (ApprovalState::Denied, Answer::Deny) => Transition::Unchanged,
        _ => Transition::Closed,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::approval::{Asked, NetworkDestination};
    use crate::{ApprovalId, WorkspaceId};

    fn session(number: u8) -> SessionId {
        SessionId::from_uuid(Uuid::from_u128(number.into()))
    }

    fn request(asked_by: Option<SessionId>) -> Approval {
        Approval {
            id: ApprovalId::from_uuid(Uuid::nil()),
            workspace: WorkspaceId::from_uuid(Uuid::nil()),
            workspace_name: "web".parse().unwrap(),
            asked_by,
            client: "client".to_owned(),
            asked: Asked::Network { destination: NetworkDestination::Name("a.example".to_owned()) },
            digest: [0; 32],
            reason: String::new(),
            created: Timestamp::UNIX_EPOCH,
            until: None,
            state: ApprovalState::Open,
            scope: None,
            answered_by: None,
        }
    }

    fn sessions() -> impl Strategy<Value = Option<SessionId>> {
        proptest::option::of((0u8..4).prop_map(session))
    }

    fn approvers() -> impl Strategy<Value = Approver> {
        (sessions(), any::<bool>()).prop_map(|(one, is_named)| Approver {
            principal: one.map_or(Principal::Operator, Principal::Session),
            is_named: is_named && one.is_some(),
        })
    }

    proptest! {
        #[test]
        fn nobody_but_the_operator_answers_what_it_asked_or_profits_from(
            approver in approvers(), asked_by in sessions(), owner in sessions()
        ) {
            let request = request(asked_by);
            let answer = may_answer(approver, &request, owner);
            match approver.principal {
                Principal::Operator => prop_assert_eq!(answer, Ok(())),
                Principal::Session(one) if asked_by == Some(one) || owner == Some(one) => {
                    prop_assert_eq!(answer, Err(Refusal::OwnRequest));
                }
                Principal::Session(_) => prop_assert_eq!(answer.is_ok(), approver.is_named),
            }
        }

        #[test]
        fn only_the_operator_grants_for_all(approver in approvers(), answer in 0usize..4) {
            let answer = GrantScope::ALL.get(answer).map_or(Answer::Deny, |scope| Answer::Grant(*scope));
            let is_for_all = answer == Answer::Grant(GrantScope::Always);
            let refused = is_for_all && approver.principal != Principal::Operator;
            prop_assert_eq!(may_answer_so(approver, answer).is_err(), refused);
        }

        #[test]
        fn a_request_that_may_not_be_seen_is_never_told_of(
            approver in approvers(), asked_by in sessions(), owner in sessions()
        ) {
            let request = request(asked_by);
            let hidden = may_answer(approver, &request, owner) == Err(Refusal::Hidden);
            prop_assert_eq!(hidden, !may_see(approver, &request, owner));
        }

        #[test]
        fn a_request_that_is_over_stays_over(state in 0usize..5, answer in 0usize..4) {
            let state = ApprovalState::ALL[state];
            let answer = match answer {
                3 => Answer::Deny,
                scope => Answer::Grant(GrantScope::ALL[scope]),
            };
            match transition(state, Some(GrantScope::Once), answer) {
                Transition::To(..) => {
                    prop_assert!(matches!(state, ApprovalState::Open | ApprovalState::Granted));
                }
                Transition::Unchanged => prop_assert!(matches!(
                    (state, answer),
                    (ApprovalState::Denied, Answer::Deny)
                        | (ApprovalState::Granted, Answer::Grant(GrantScope::Once))
                )),
                Transition::Closed => prop_assert_ne!(state, ApprovalState::Open),
            }
        }
    }
}
