//! Changes of several files that must all happen.

use agentiso_store::Root;
use rusqlite::{OptionalExtension, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use super::records::{NewVersion, Stored, insert, now_ms};
use super::schema::History;
use crate::error::NotesError;
use crate::etag::Etag;

/// One file of a plan.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "step")]
pub(crate) enum PlanStep {
    /// The file is renamed; nothing may be at the new path.
    Rename {
        /// The old path.
        from: String,
        /// The new path.
        to: String,
        /// The content it has.
        etag: Etag,
    },
    /// The content is replaced.
    Write {
        /// The path.
        path: String,
        /// The content it has.
        before: Etag,
        /// The content it gets.
        after: Stored,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is removed.
    Remove {
        /// The path.
        path: String,
        /// The content it has.
        before: Etag,
    },
}

/// Several files, in order, and the versions that result.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<PlanStep>,
    pub(crate) versions: Vec<NewVersion>,
}

impl Plan {
    /// The note that is moved: from, to.
    pub(crate) fn rename(&self) -> Option<(&str, &str)> {
        self.steps.iter().find_map(|step| match step {
            PlanStep::Rename { from, to, .. } => Some((&**from, &**to)),
            PlanStep::Write { .. } | PlanStep::Remove { .. } => None,
        })
    }

    /// The contents that are needed to carry it out and to record it.
    pub(super) fn contents(&self) -> impl Iterator<Item = Root> {
        let written = self.steps.iter().filter_map(|step| match step {
            PlanStep::Write { after, .. } => Some(after.root()),
            PlanStep::Rename { .. } | PlanStep::Remove { .. } => None,
        });
        written.chain(self.versions.iter().filter_map(|version| version.stored.map(Stored::root)))
    }
}

impl History {
    /// Writes a plan down, and versions that must be known before it is carried out.
    pub(crate) fn begin(&self, plan: &Plan, earlier: &[NewVersion]) -> Result<(), NotesError> {
        let json = serde_json::to_string(plan).map_err(|error| self.damaged(error))?;
        self.database.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let at_ms = now_ms();
            earlier.iter().try_for_each(|version| insert(&transaction, version, at_ms))?;
            transaction.execute("INSERT INTO plan (only, json) VALUES (1, ?1)", params![json])?;
            transaction.commit()
        })
    }

    /// The plan that was not completed, if there is one.
    pub(crate) fn unfinished(&self) -> Result<Option<Plan>, NotesError> {
        let json: Option<String> = self.database.with(|connection| {
            connection.prepare_cached("SELECT json FROM plan")?.query_row([], |row| row.get(0)).optional()
        })?;
        json.map(|json| serde_json::from_str(&json).map_err(|error| self.damaged(error))).transpose()
    }

    /// Records the versions of a plan that were reached, and removes the plan.
    pub(crate) fn complete(&self, reached: &[NewVersion]) -> Result<(), NotesError> {
        self.database.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let at_ms = now_ms();
            reached.iter().try_for_each(|version| insert(&transaction, version, at_ms))?;
            transaction.execute("DELETE FROM plan", [])?;
            transaction.commit()
        })
    }

    fn damaged(&self, reason: impl ToString) -> NotesError {
        NotesError::Damaged { path: self.database.path().to_owned(), reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::VersionAction;
    use super::*;

    /// A plan may be completed by a newer program than the one that wrote it down.
    #[test]
    fn a_plan_is_read_as_it_was_written_by_format_1() {
        let json = include_str!("../../tests/samples/plan-1.json");
        let plan: Plan = serde_json::from_str(json).unwrap();
        assert_eq!(plan.steps.len(), 3);
        assert_eq!(plan.versions.first().unwrap().action, VersionAction::Move);
        let again: serde_json::Value = serde_json::to_value(&plan).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(json).unwrap());
    }
}
