use agentiso_core::approval::{
    Answer, Approval, ApprovalState, Asked, GrantScope, NetworkDestination, OpenLimits,
};
use agentiso_core::ports::records::{ApprovalRecords, NewAnswer, Raised};
use agentiso_core::{ApprovalId, Code, SessionId};
use agentiso_meta::Workspace;
use rusqlite::Connection;
use uuid::Uuid;

use crate::builders::{State, now};

const LIMITS: OpenLimits = OpenLimits { workspace: 2, session: 3, all: 4 };

fn request(workspace: &Workspace, number: u8, asked_by: Option<SessionId>) -> Approval {
    let created = now();
    Approval {
        id: ApprovalId::from_uuid(Uuid::new_v4()),
        workspace: workspace.id,
        workspace_name: workspace.name.clone(),
        asked_by,
        client: "client".to_owned(),
        asked: Asked::Network { destination: NetworkDestination::Name(format!("{number}.example")) },
        digest: [number; 32],
        reason: "not in allow_domains".to_owned(),
        created,
        until: Some(created + std::time::Duration::from_secs(60)),
        state: ApprovalState::Open,
        scope: None,
        answered_by: None,
    }
}

#[tokio::test]
async fn a_request_is_read_as_it_was_written_also_by_another_process() {
    let state = State::new();
    let (web, session) = (state.add("web"), state.add_session());
    let request = request(&web, 1, Some(session.id));
    assert_eq!(state.meta.raise_approval(&request, LIMITS).await.unwrap(), Raised::New(request.clone()));
    let other = state.reopen();
    assert_eq!(other.approval(request.id).await.unwrap(), Some(request.clone()));
    assert_eq!(other.approvals(Some(ApprovalState::Open), 10).await.unwrap(), std::slice::from_ref(&request));
    assert_eq!(other.approvals(Some(ApprovalState::Used), 10).await.unwrap(), []);
    let answer = NewAnswer {
        id: request.id,
        answer: Answer::Grant(GrantScope::Always),
        by: Some(session.id),
        at: now(),
        until: None,
    };
    let answered = other.answer_approval(answer).await.unwrap();
    assert_eq!((answered.state, answered.scope), (ApprovalState::Granted, Some(GrantScope::Always)));
    assert_eq!(state.meta.approval(request.id).await.unwrap(), Some(answered.clone()));
    assert_eq!(state.meta.answer_approval(answer).await.unwrap(), answered, "the same answer again");
    state.meta.verify().unwrap();
}

#[tokio::test]
async fn open_requests_are_limited_per_workspace_per_session_and_in_total() {
    let state = State::new();
    let (a, b, c) = (state.add("a"), state.add("b"), state.add("c"));
    let session = Some(state.add_session().id);
    let raise = async |workspace, number, by| {
        let raised = state.meta.raise_approval(&request(workspace, number, by), LIMITS).await;
        raised.map(drop).map_err(|failure| failure.code())
    };
    assert_eq!(raise(&a, 1, session).await, Ok(()));
    assert_eq!(raise(&a, 2, session).await, Ok(()));
    assert_eq!(raise(&a, 3, session).await, Err(Code::QuotaExceeded), "of the workspace");
    assert_eq!(raise(&b, 1, session).await, Ok(()));
    assert_eq!(raise(&b, 2, session).await, Err(Code::QuotaExceeded), "of the session");
    assert_eq!(raise(&b, 2, None).await, Ok(()));
    assert_eq!(raise(&c, 1, None).await, Err(Code::QuotaExceeded), "of all");
    assert_eq!(raise(&a, 1, session).await, Ok(()), "one that waits already is no further one");
}

#[tokio::test]
async fn old_requests_are_pruned_and_grants_that_hold_are_not() {
    let state = State::new();
    let web = state.add("web");
    let raised = [1, 2, 3].map(|number| request(&web, number, None));
    for (number, one) in raised.iter().enumerate() {
        state.meta.raise_approval(one, OpenLimits::DEFAULT).await.unwrap();
        let answer = if number == 0 { Answer::Grant(GrantScope::Workspace) } else { Answer::Deny };
        let answer = NewAnswer { id: one.id, answer, by: None, at: one.created, until: None };
        state.meta.answer_approval(answer).await.unwrap();
    }
    state.meta.prune_approvals(0).await.unwrap();
    let left: Vec<_> =
        state.meta.approvals(None, 10).await.unwrap().iter().map(|one| one.digest[0]).collect();
    assert_eq!(left, [1]);
}

#[tokio::test]
async fn an_approver_ends_with_its_session() {
    let state = State::new();
    let session = state.add_session();
    state.meta.set_approver(session.id, true).await.unwrap();
    state.meta.set_approver(session.id, true).await.unwrap();
    assert_eq!(state.reopen().approvers().await.unwrap(), [session.id]);
    state.meta.write(|tx| tx.remove_session(session.id)).unwrap();
    assert_eq!(state.meta.approvers().await.unwrap(), []);
    let unknown = SessionId::from_uuid(Uuid::nil());
    assert!(state.meta.set_approver(unknown, true).await.is_err());
}

/// Rows as this format writes them: change the code, not the sample.
#[tokio::test]
async fn a_stored_request_can_be_read_for_ever() {
    let state = State::new();
    let web = state.add("web");
    let sql = format!(
        "INSERT INTO approvals (id, workspace, workspace_name, asked_by, client, asked, digest, reason, created, until, state, scope, answered_by) VALUES
         ('01900000-0000-4000-8000-000000000001', '{0}', 'web', NULL, 'agentiso', '{{\"kind\":\"network\",\"destination\":\"a.example\"}}', zeroblob(32), 'r', 1, NULL, 'granted', 'always', NULL),
         ('01900000-0000-4000-8000-000000000002', '{0}', 'web', NULL, 'agentiso', '{{\"kind\":\"network\",\"destination\":\"192.0.2.1\"}}', zeroblob(32), 'r', 2, 5, 'denied', NULL, NULL),
         ('01900000-0000-4000-8000-000000000003', '{0}', 'web', NULL, 'agentiso', '{{\"kind\":\"command\",\"argv\":[\"ls\"],\"user\":\"root\"}}', zeroblob(32), 'r', 3, 6, 'open', NULL, NULL),
         ('01900000-0000-4000-8000-000000000004', '{0}', 'web', NULL, 'agentiso', '{{\"kind\":\"file_change\",\"path\":\"/a\",\"content_digest\":\"00\"}}', zeroblob(32), 'r', 4, NULL, 'used', 'once', NULL);",
        web.id
    );
    Connection::open(state.meta.path()).unwrap().execute_batch(&sql).unwrap();
    let read = state.meta.approvals(None, 10).await.unwrap();
    let told: Vec<_> = read.iter().map(|one| (one.asked.to_string(), one.state.as_str())).collect();
    assert_eq!(
        told,
        [
            ("change /a".to_owned(), "used"),
            ("run ls as root".to_owned(), "open"),
            ("connect to 192.0.2.1".to_owned(), "denied"),
            ("connect to a.example".to_owned(), "granted"),
        ]
    );
}
