//! Streams of events.

use agentiso_core::Failure;
use agentiso_core::wire::{ErrorBody, JobOutput, WorkspaceEvent};
use serde::Deserialize;

use crate::error::unintelligible;
use crate::sse::Event;

/// What a watcher of workspaces is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Watched {
    /// Something happened to a workspace.
    Event(WorkspaceEvent),
    /// The watcher was too slow: this many events were dropped. Lists of workspaces should be read again.
    Missed(u64),
}

/// What a follower of a background command is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JobEvent {
    /// It printed something.
    Output(JobOutput),
    /// It ended.
    Exit {
        /// Its exit code, if it has one.
        exit_code: Option<i32>,
    },
}

pub(crate) fn watched(event: Event) -> Result<Watched, Failure> {
    #[derive(Deserialize)]
    struct Missed {
        missed: u64,
    }
    if event.name == "missed" {
        let Missed { missed } = serde_json::from_value(event.data).map_err(unintelligible)?;
        return Ok(Watched::Missed(missed));
    }
    serde_json::from_value(event.data).map(Watched::Event).map_err(unintelligible)
}

pub(crate) fn job_event(event: Event) -> Result<JobEvent, Failure> {
    #[derive(Deserialize)]
    struct Exit {
        exit_code: Option<i32>,
    }
    match event.name.as_str() {
        "output" => serde_json::from_value(event.data).map(JobEvent::Output).map_err(unintelligible),
        "exit" => {
            let Exit { exit_code } = serde_json::from_value(event.data).map_err(unintelligible)?;
            Ok(JobEvent::Exit { exit_code })
        }
        "error" => Err(serde_json::from_value::<ErrorBody>(event.data).map_err(unintelligible)?.into()),
        other => Err(unintelligible(format!("unknown event {other:?}"))),
    }
}
