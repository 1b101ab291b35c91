//! The report of `agentiso check`.

use agentiso_core::Failure;
use serde::Serialize;

/// The result of one check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It works.
    Ok,
    /// Machines run, but with a limitation.
    Warning,
    /// Machines cannot run.
    Missing,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// What was checked.
    pub name: &'static str,
    /// The result.
    pub standing: Standing,
    /// What was found.
    pub detail: String,
    /// What to do, if anything.
    pub fix: Option<String>,
}

/// All checks.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether machines can run.
    pub ok: bool,
    /// The checks, in the order in which machines need them.
    pub findings: Vec<Finding>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, standing: Standing::Ok, detail: detail.into(), fix: None }
    }

    pub(super) fn warning(name: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { name, standing: Standing::Warning, detail: detail.into(), fix: Some(fix.to_owned()) }
    }

    pub(super) fn missing(name: &'static str, detail: impl Into<String>, fix: &str) -> Self {
        Self { name, standing: Standing::Missing, detail: detail.into(), fix: Some(fix.to_owned()) }
    }

    pub(super) fn failed(name: &'static str, failure: &Failure) -> Self {
        let (detail, fix) = (failure.message().to_owned(), failure.remedy().map(str::to_owned));
        Self { name, standing: Standing::Missing, detail, fix }
    }
}
