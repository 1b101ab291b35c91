//! `agentiso timeline`.

use std::time::Duration;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::{Timeline, TimelineEvent};

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::{Table, duration};

const COLUMNS: [&str; 7] = ["AT", "WORKSPACE", "ACTION", "BY", "TOOK", "OUTCOME", "DETAIL"];

/// The longest detail in a row, in characters; --json has all of it.
const DETAIL: usize = 100;

/// Shows what was done, newest first.
pub async fn timeline(here: &Paths, flags: args::Timeline, output: Output) -> Result<u8, Failure> {
    let request = Timeline {
        workspace_id: flags.workspace,
        limit: Some(flags.limit),
        before: None,
        changes_only: !flags.all,
    };
    let shown = Daemon::reach(here, output).await?.ask("Still looking", &request).await?;
    output.result(&shown, |out| {
        let mut table = Table::new(COLUMNS).align_right(4);
        shown.events.iter().for_each(|event| table.row(row(event)));
        table.write(out)
    })?;
    Ok(0)
}

/// The command that ran, or what else it was about, and what it changed.
fn detail(event: &TimelineEvent) -> String {
    let told = [event.subject(), event.changed.clone()].into_iter().flatten();
    cut(&told.collect::<Vec<_>>().join(": "), DETAIL)
}

/// The beginning of a text, with a mark if it is not all of it.
fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

fn row(event: &TimelineEvent) -> [String; 7] {
    // A fraction of a second is of no use to a reader, and of no harm to one who sorts.
    let at = event.at.split('.').next().unwrap_or_default().trim_end_matches('Z');
    [
        format!("{at}Z"),
        event.workspace_name.clone().unwrap_or_else(|| "-".to_owned()),
        event.action.clone(),
        event.client.clone(),
        duration(Duration::from_secs_f64(event.duration_ms.max(0.0) / 1e3)),
        event.outcome.clone(),
        detail(event),
    ]
}
