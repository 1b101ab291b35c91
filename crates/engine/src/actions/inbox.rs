//! Listing and answering requests for approval.

use std::time::Duration;

use agentiso_core::action::{
    ApprovalBrief, InboxAnswered, InboxApprover, InboxApproverSet, InboxDeny, InboxGrant, InboxList,
    InboxListed,
};
use agentiso_core::approval::{Answer, ApprovalState, GrantScope};
use agentiso_core::{Code, Failure};

use crate::act::Context;
use crate::{Access, Perform};

impl Perform for InboxList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<InboxListed, Failure> {
        let engine = &context.engine;
        let end = tokio::time::Instant::now() + Duration::from_secs(self.wait_secs.unwrap_or_default());
        let mut changes = engine.approvals.changes();
        loop {
            changes.mark_unchanged();
            let (reference, all) = (self.request_id.as_deref(), self.all == Some(true));
            let requests = engine.requests_for(&context.caller, reference, all).await?;
            let waiting = match reference {
                Some(_) => requests.iter().any(|one| one.state == ApprovalState::Open),
                None => requests.is_empty(),
            };
            // It fails only if the engine has ended.
            if !waiting || tokio::time::timeout_at(end, changes.changed()).await.is_err() {
                return Ok(InboxListed { count: requests.len(), requests });
            }
        }
    }
}

impl Perform for InboxGrant {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<InboxAnswered, Failure> {
        let answer = Answer::Grant(self.scope.unwrap_or(GrantScope::Once));
        let request = context.engine.answer_request(&context.caller, &self.request_id, answer).await?;
        Ok(InboxAnswered { request })
    }

    fn changed(outcome: &InboxAnswered) -> Option<String> {
        Some(told(&outcome.request))
    }
}

impl Perform for InboxDeny {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<InboxAnswered, Failure> {
        let request = context.engine.answer_request(&context.caller, &self.request_id, Answer::Deny).await?;
        Ok(InboxAnswered { request })
    }

    fn changed(outcome: &InboxAnswered) -> Option<String> {
        Some(told(&outcome.request))
    }
}

impl Perform for InboxApprover {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<InboxApproverSet, Failure> {
        if !context.caller.is_operator() {
            return Err(Failure::new(Code::NotPermitted, "only the operator names approvers")
                .with_remedy("ask the operator to run `agentiso inbox approver SESSION`"));
        }
        let approver = self.approver.unwrap_or(true);
        let session = context.engine.session_called(&self.session_id, &context.caller).await?;
        context.engine.records.set_approver(session.id, approver).await?;
        Ok(InboxApproverSet { session_id: session.id.to_string(), client: session.client, approver })
    }

    fn changed(outcome: &InboxApproverSet) -> Option<String> {
        let now = if outcome.approver { "is" } else { "is no longer" };
        Some(format!("session {} {now} an approver", outcome.session_id))
    }
}

/// What was answered, in a few words.
fn told(request: &ApprovalBrief) -> String {
    let scope = request.scope.map(|scope| format!(" ({scope})")).unwrap_or_default();
    format!("{}{scope}: {} may {}", request.state, request.workspace_name, request.summary)
}
