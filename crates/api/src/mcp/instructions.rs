//! What every client is told about how to work with workspaces.

/// The workflow, in a few lines: clients show it to their model with every conversation.
pub(super) const INSTRUCTIONS: &str = "\
agentiso gives you workspaces: isolated Linux virtual machines that start in a moment and that you can break without \
harm.

1. workspace_create returns a workspace_id; every other call takes it, or the workspace's name.
2. Work in it: file_write and file_edit, file_read, exec (waits up to timeout_secs, 120 unless given). What runs \
longer, and servers, belong in the background: exec_background start, then poll or wait with the job_id.
3. Take a snapshot before anything risky and after anything slow to set up. If it goes wrong, restore it: that takes \
less than a second.
4. To try several ways at once, workspace_fork makes independent copies of a snapshot, or of the running machine.
5. workspace_destroy what you no longer need; workspace_stop keeps the disk. Workspaces outlive your session: look at \
workspace_list before you create another.

Workspaces have no internet; what they need must be in their image or be copied in with file_transfer. port_forward \
makes a server in a workspace reachable on 127.0.0.1. Secrets go in with set_env and are never shown again.

A command that exits with another code than 0 is a result, not a failure. Failures say what to do next. Read a file \
before you edit it: text to replace must match exactly, once.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_short() {
        assert!(INSTRUCTIONS.split_whitespace().count() < 250);
    }
}
