//! What the daemon calls things, in words of the command line.
//!
//! The daemon answers all clients alike and names tools and their parameters. A person at a terminal has verbs and flags.

/// Tools and parameters that messages and remedies name, and what does the same here. Longer names come first.
const WORDS: &[(&str, &str)] = &[
    ("workspace_create", "agentiso create"),
    ("workspace_destroy", "agentiso rm"),
    ("workspace_start", "agentiso start"),
    ("workspace_stop", "agentiso stop"),
    ("workspace_list", "agentiso ls"),
    ("workspace_info", "agentiso info"),
    ("workspace_logs", "agentiso logs"),
    ("workspace_rename", "agentiso rename"),
    ("workspace_grow", "agentiso grow"),
    ("workspace_update", "agentiso update"),
    ("workspace_grant", "agentiso grant"),
    ("session_list", "agentiso sessions"),
    ("workspace_suspend", "agentiso suspend"),
    ("workspace_resume", "agentiso resume"),
    ("workspace_fork", "agentiso fork"),
    ("exec_background", "agentiso jobs start"),
    ("exec_start", "agentiso jobs start"),
    ("exec_poll", "agentiso jobs logs"),
    ("exec_kill", "agentiso jobs kill"),
    ("exec_list", "agentiso jobs ls"),
    ("snapshot_create", "agentiso snapshot create"),
    ("snapshot_restore", "agentiso snapshot restore"),
    ("snapshot_list", "agentiso snapshot ls"),
    ("snapshot_delete", "agentiso snapshot rm"),
    ("snapshot_diff", "agentiso snapshot diff"),
    ("port_forward_list", "agentiso forward ls"),
    ("port_forward_remove", "agentiso forward rm"),
    ("port_forward_add", "agentiso forward add"),
    ("port_forward", "agentiso forward add"),
    ("workspace_batch_fork", "agentiso fork --count"),
    ("workspace_stats", "agentiso stats"),
    ("workspace_ip", "agentiso net show"),
    ("workspace_export", "agentiso workspace export"),
    ("workspace_import", "agentiso workspace import"),
    ("network_policy", "agentiso net policy"),
    ("network_log", "agentiso net log"),
    ("image_list", "agentiso image ls"),
    ("image_info", "agentiso image info"),
    ("image_pull", "agentiso image pull"),
    ("image_import", "agentiso image import"),
    ("image_build", "agentiso image build"),
    ("image_commit", "agentiso image commit"),
    ("image_remove", "agentiso image rm"),
    ("server_status", "agentiso status"),
    ("file_edit", "agentiso edit"),
    ("file_stat", "agentiso exec WS stat"),
    ("file_transfer", "agentiso cp"),
    ("file_write", "agentiso write"),
    ("file_read", "agentiso read"),
    ("file_list", "agentiso exec WS ls"),
    ("file_glob", "agentiso exec WS find"),
    ("timeout_secs", "--timeout"),
    ("idle_stop_secs", "--idle-stop"),
    ("ttl_secs", "--ttl"),
    ("memory_mb", "--memory"),
    ("disk_gb", "the disk size in GiB"),
    ("base_image", "--image"),
    ("vcpus", "--vcpus"),
    ("set_env", "agentiso env"),
];

/// The same text with verbs and flags in place of tools and parameters.
pub fn in_verbs(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        said.push_str(before);
        // Behind a dot it is a key of the configuration.
        let known = WORDS.iter().find(|(name, _)| *name == word && !said.ends_with('.'));
        said.push_str(known.map_or(word, |(_, verb)| verb));
        rest = after;
    }
    said + rest
}

#[cfg(test)]
mod tests {
    use agentiso_core::action::{self, Action};

    use super::*;

    macro_rules! names {
        ($($action:ident),* $(,)?) => { [$(<action::$action as Action>::ABOUT.name),*] };
    }

    /// Actions without a verb, or whose name is an ordinary word.
    const WITHOUT: [&str; 21] = [
        "exec",
        "exec_write",
        "file_delete",
        "file_grep",
        "file_mkdir",
        "file_move",
        "git_clone",
        "git_commit",
        "git_diff",
        "git_push",
        "git_status",
        "inbox_approver",
        "inbox_deny",
        "inbox_grant",
        "inbox_list",
        "secret_grant",
        "secret_list",
        "secret_remove",
        "secret_set",
        "timeline",
        "workspace_adopt",
    ];

    #[test]
    fn every_action_has_a_verb_or_none() {
        for action in agentiso_core::for_each_action!(names) {
            let known = WORDS.iter().any(|(name, _)| *name == action);
            assert!(known != WITHOUT.contains(&action), "{action}");
        }
    }

    #[test]
    fn tools_become_verbs_and_other_words_stay() {
        for (told, shown) in [
            ("look with file_list or file_glob", "look with agentiso exec WS ls or agentiso exec WS find"),
            ("use port_forward to reach a port", "use agentiso forward add to reach a port"),
            ("'my_file_list' stays, so does file_lists", "'my_file_list' stays, so does file_lists"),
            ("agentiso start web", "agentiso start web"),
            ("(exec_background)", "(agentiso jobs start)"),
            ("memory_mb must be at least 128", "--memory must be at least 128"),
            ("did you mean \"defaults.memory_mb\"?", "did you mean \"defaults.memory_mb\"?"),
            ("", ""),
        ] {
            assert_eq!(in_verbs(told), shown);
        }
    }
}
