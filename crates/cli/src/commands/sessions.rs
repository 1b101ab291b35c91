//! `agentiso sessions`.

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::SessionList;

use super::{Daemon, NoFlags};
use crate::output::Output;
use crate::ui::Table;

const COLUMNS: [&str; 5] = ["SESSION", "CLIENT", "WORKSPACES", "CONNECTED", "LAST ACTIVE"];

/// Lists the sessions of agents.
pub async fn sessions(here: &Paths, _: NoFlags, output: Output) -> Result<u8, Failure> {
    let listed = Daemon::reach(here, output).await?.ask_quietly(&SessionList {}).await?;
    let mut table = Table::new(COLUMNS).align_right(2);
    for one in &listed.sessions {
        table.row([
            one.session_id.clone(),
            one.client.clone(),
            one.workspaces.to_string(),
            if one.connected { "yes" } else { "no" }.to_owned(),
            one.last_active_at.clone(),
        ]);
    }
    output.result(&listed, |out| table.write(out))?;
    Ok(0)
}
