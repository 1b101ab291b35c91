//! The server instructions: how to work with workspaces, limited to the tools that the client was shown.

use super::selection::Selection;
use super::shown;

/// The workflow in a few lines. Clients include it in every conversation, so it is short. Lines that name a tool the
/// client was not shown are left out.
const LINES: &[&str] = &[
    "agentiso gives you workspaces: isolated Linux virtual machines that start in a moment and that you can break \
     without harm.\n\n",
    "1. workspace_create returns a workspace_id; every other call takes it, or the workspace's name. Creating a name \
     that you already own returns its id and state: continue with it.\n",
    "2. Work in it with file_write, file_read and exec (timeout_secs 120 unless given). A long-running command \
     returns a job_id: call exec again with it to wait.\n",
    "3. Change files with file_edit: read the file first, because the text to replace must match exactly. Run servers \
     in the background: exec_background start, then poll or wait with the job_id.\n",
    "4. Take a snapshot before anything risky and after anything slow to set up. If it goes wrong, restore it: that \
     takes less than a second.\n",
    "5. To try several approaches in parallel, workspace_fork makes independent copies of a snapshot, or of the running machine.\n",
    "6. workspace_destroy what you no longer need. A stopped or suspended workspace starts when it is used.\n",
    "7. Workspaces outlive your session: check workspace_list before you create another.\n",
    "\nWorkspaces have no internet unless it is allowed when they are created.",
    " network_policy changes what they may reach: a preset, or names of hosts. A refused command says which call allows \
     it.",
    " file_transfer copies files in and out.",
    " port_forward makes a server in a workspace reachable on 127.0.0.1.",
    " Secrets go in with set_env and are never shown again.",
    "\n\nA command with a non-zero exit code is a result, not an error. Errors say what to do next.",
];

/// Returns the instructions for a selection of tools.
pub(super) fn of(selection: &Selection) -> String {
    let mut number = 0;
    let mut text = String::new();
    for line in LINES.iter().filter(|line| shown::is_about_shown(line, selection)) {
        match line.split_once(". ") {
            Some((first, rest)) if first.bytes().all(|byte| byte.is_ascii_digit()) => {
                number += 1;
                text.push_str(&format!("{number}. {rest}"));
            }
            _ => text.push_str(line),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::ToolSet;

    #[test]
    fn the_instructions_are_short_and_name_only_what_is_shown() {
        for set in [ToolSet::Core, ToolSet::Standard, ToolSet::Full] {
            let text = of(&set.into());
            assert!(text.split_whitespace().count() < 260);
            assert!(text.contains("workspace_create") && text.contains("\n4. "), "{text}");
        }
        let core = of(&ToolSet::Core.into());
        for other in
            ["workspace_list", "exec_background", "file_edit", "workspace_fork", "set_env", "file_transfer"]
        {
            assert!(!core.contains(other), "{other}: {core}");
        }
    }
}
