//! The table of tools and the actions they map to.

use std::sync::LazyLock;

use agentiso_core::action::ToolSet;

use crate::catalogue;

/// A tool.
pub(super) struct Spec {
    pub(super) name: &'static str,
    pub(super) sets: &'static [ToolSet],
    pub(super) does: Does,
}

/// The actions behind a tool.
pub(super) enum Does {
    /// A single action.
    One(Form),
    /// One of several actions.
    Several(&'static Bundle),
}

/// A tool whose `action` parameter selects what it does.
pub(super) struct Bundle {
    pub(super) name: &'static str,
    pub(super) sets: &'static [ToolSet],
    pub(super) title: &'static str,
    pub(super) description: &'static str,
    pub(super) words: &'static [(&'static str, Form)],
    /// The default action word, used if `action` is missing and this parameter is present.
    pub(super) otherwise: Option<(&'static str, &'static str)>,
}

/// An action in the form in which a tool offers it.
#[derive(Clone, Copy)]
pub(super) struct Form {
    pub(super) action: &'static str,
    /// Title and description, if different from the action's.
    pub(super) about: Option<(&'static str, &'static str)>,
    /// A parameter with another name: the tool's name, then the action's. The tool accepts both.
    pub(super) renamed: Option<(&'static str, &'static str)>,
    /// Parameters with another description.
    pub(super) described: &'static [(&'static str, &'static str)],
    /// Parameters with another default.
    pub(super) defaults: &'static [(&'static str, &'static str)],
    /// Parameters that the tool does not accept.
    pub(super) without: &'static [&'static str],
    /// Parameters that are accepted but not listed: they are rarely needed, and every word of a list costs tokens.
    pub(super) unlisted: &'static [&'static str],
    /// Parameters that the tool requires.
    pub(super) needs: &'static [&'static str],
}

/// The action without changes.
const fn as_is(action: &'static str) -> Form {
    Form {
        action,
        about: None,
        renamed: None,
        described: &[],
        defaults: &[],
        without: &[],
        unlisted: &[],
        needs: &[],
    }
}

/// In the bundle, the snapshot's parameter is always called `name`.
const fn of_snapshot(action: &'static str) -> Form {
    Form { renamed: Some(("name", "snapshot_name")), ..as_is(action) }
}

const fn in_direction(
    title: &'static str,
    description: &'static str,
    direction: &'static [(&'static str, &'static str)],
) -> Form {
    Form {
        about: Some((title, description)),
        defaults: direction,
        without: &["direction"],
        ..as_is("file_transfer")
    }
}

const USUALLY: &[ToolSet] = &[ToolSet::Standard, ToolSet::Full];
const FLAT: &[ToolSet] = &[ToolSet::Full];

/// Descriptions of output limits that mention only the defaults of MCP.
const POLLED: (&str, &str) = ("max_output_bytes", "Maximum bytes of each, up to 1048576. Default: 15000.");

const EXEC: Form = Form {
    described: &[(
        "max_output_bytes",
        "Maximum bytes of stdout and stderr together, up to 8388608. Default: 30000.",
    )],
    ..as_is("exec")
};

const EXEC_BACKGROUND: Bundle = Bundle {
    name: "exec_background",
    sets: USUALLY,
    title: "Run commands in the background",
    description: "Runs commands in the background: builds, test suites, servers. start returns a job_id at once; poll \
                  shows its output so far and whether it has ended; wait does so when it has ended or after wait_secs \
                  (30); write feeds its standard input; kill kills it and its children; list shows all jobs. Jobs \
                  survive the client and the server and end with the machine. The last 1 MiB of output is kept.",
    words: &[
        (
            "start",
            Form {
                described: &[
                    ("command", "The command line, as for exec."),
                    ("stdin", "Keeps its standard input open for write."),
                ],
                ..as_is("exec_start")
            },
        ),
        ("poll", Form { described: &[POLLED], unlisted: &["wait", "wait_secs"], ..as_is("exec_poll") }),
        (
            "wait",
            Form {
                described: &[
                    ("wait", "Waits for its `exit`, the default, or for `output` beyond the offsets."),
                    POLLED,
                ],
                defaults: &[("wait", "exit")],
                ..as_is("exec_poll")
            },
        ),
        ("write", as_is("exec_write")),
        ("kill", as_is("exec_kill")),
        ("list", as_is("exec_list")),
    ],
    otherwise: Some(("start", "command")),
};

const SNAPSHOT: Bundle = Bundle {
    name: "snapshot",
    sets: USUALLY,
    title: "Create and use snapshots",
    description: "Named states of a workspace. create saves its disk, with include_memory also its processes; restore \
                  returns the workspace to a snapshot and discards what changed since; list shows them with sizes; \
                  diff shows which files changed since, or between two; delete removes one that no fork needs. Take \
                  one before anything risky.",
    words: &[
        ("create", as_is("snapshot_create")),
        ("restore", of_snapshot("snapshot_restore")),
        ("list", as_is("snapshot_list")),
        ("diff", of_snapshot("snapshot_diff")),
        ("delete", of_snapshot("snapshot_delete")),
    ],
    otherwise: None,
};

const PORT_FORWARD: Bundle = Bundle {
    name: "port_forward",
    sets: USUALLY,
    title: "Forward ports",
    description: "Makes a TCP port of a workspace reachable on 127.0.0.1 of the host. add (the default) takes a free \
                  host_port unless one is given; remove ends forwards and their connections; list shows them. \
                  Forwards survive restarts and restores.",
    words: &[
        ("add", as_is("port_forward_add")),
        ("remove", as_is("port_forward_remove")),
        ("list", as_is("port_forward_list")),
    ],
    otherwise: Some(("add", "guest_port")),
};

const IMAGE: Bundle = Bundle {
    name: "image",
    sets: FLAT,
    title: "Use images",
    description: "Images are what new workspaces start from (base_image of workspace_create). list shows them and the \
                  recipes that can be built; info shows one. pull fetches one from a registry, import reads an archive \
                  in the host's transfer directory, build creates one from Debian packages, commit creates one from a \
                  workspace's disk, remove deletes one that no workspace needs: these need the operator's permission \
                  and may take minutes.",
    words: &[
        ("list", as_is("image_list")),
        ("info", as_is("image_info")),
        ("pull", as_is("image_pull")),
        ("import", as_is("image_import")),
        ("build", as_is("image_build")),
        ("commit", as_is("image_commit")),
        ("remove", as_is("image_remove")),
    ],
    otherwise: None,
};

const INBOX: Bundle = Bundle {
    name: "inbox",
    sets: FLAT,
    title: "See and answer requests for approval",
    description: "Requests for approval: what a workspace may do only if somebody allows it, such as reaching a refused \
                  destination. list shows those of this session's workspaces; with request_id and wait_secs it waits \
                  for the answer. grant (once, workspace, always) and deny answer requests of other sessions, for \
                  sessions that the operator named (approver); never one's own.",
    words: &[
        ("list", as_is("inbox_list")),
        ("grant", as_is("inbox_grant")),
        ("deny", as_is("inbox_deny")),
        ("approver", as_is("inbox_approver")),
    ],
    otherwise: None,
};

const BATCH_FORK: Form = Form {
    about: Some((
        "Fork a workspace many times",
        "Creates several independent copies of a workspace from a snapshot (default: `golden`), named PREFIX-1, \
         PREFIX-2 and so on. All of them run, and each uses its own memory. Failed forks are reported; with \
         all_or_nothing one failure undoes all.",
    )),
    described: &[
        ("count", "How many forks, 1 to 100."),
        ("snapshot_name", "The snapshot to fork; `golden` if absent."),
    ],
    defaults: &[("snapshot_name", "golden"), ("name_prefix", "worker")],
    without: &["new_name", "secrets"],
    unlisted: &["network"],
    needs: &["count"],
    ..as_is("workspace_fork")
};

const CREATE: Form = Form { unlisted: &["cold", "no_pool", "network"], ..as_is("workspace_create") };

/// Only the operator gives forks secrets, and the operator does not use tools.
const FORK: Form = Form { without: &["secrets"], unlisted: &["network"], ..as_is("workspace_fork") };

const ADOPT_ALL: Form = Form {
    about: Some((
        "Take over all workspaces",
        "Makes this session the owner of all workspaces without an owner. With force also of those whose owner has \
         been idle; never of those in use. Counts against this session's quota.",
    )),
    without: &["workspace_id"],
    ..as_is("workspace_adopt")
};

/// Tools with several actions.
static BUNDLES: [Bundle; 5] = [EXEC_BACKGROUND, SNAPSHOT, PORT_FORWARD, IMAGE, INBOX];

/// Actions whose own tool offers them in a different form.
static FORMS: [Form; 3] = [CREATE, FORK, EXEC];

/// Additional tools for single actions.
static ALIASES: [(&str, Form); 5] = [
    (
        "file_upload",
        in_direction(
            "Copy files from the host",
            "Copies a file or directory of any size from the host's transfer directory into a workspace. \
             An existing file or directory at guest_path is replaced.",
            &[("direction", "upload")],
        ),
    ),
    (
        "file_download",
        in_direction(
            "Copy files to the host",
            "Copies a file or directory of any size from a workspace into the host's transfer directory. \
             An existing file or directory at host_path is replaced.",
            &[("direction", "download")],
        ),
    ),
    ("workspace_adopt_all", ADOPT_ALL),
    ("workspace_batch_fork", BATCH_FORK),
    ("workspace_git_status", as_is("git_status")),
];

/// All tools, in the order of the actions. A bundle precedes its first action; additional tools follow the action's own
/// tool.
pub(super) static TABLE: LazyLock<Vec<Spec>> = LazyLock::new(|| {
    let mut table = Vec::new();
    for entry in catalogue::ALL {
        let action = entry.about.name;
        let bundles =
            BUNDLES.iter().filter(|it| it.words.first().is_some_and(|(_, form)| form.action == action));
        table.extend(bundles.map(|it| Spec { name: it.name, sets: it.sets, does: Does::Several(it) }));
        if !entry.about.tools.is_empty() {
            let form = FORMS.iter().find(|form| form.action == action).copied().unwrap_or(as_is(action));
            table.push(Spec { name: action, sets: entry.about.tools, does: Does::One(form) });
        }
        let aliases = ALIASES.iter().filter(|(_, form)| form.action == action);
        table.extend(aliases.map(|(name, form)| Spec { name, sets: FLAT, does: Does::One(*form) }));
    }
    table
});

impl Spec {
    /// The forms of a tool, each with its action word.
    pub(super) fn forms(&self) -> Vec<(Option<&'static str>, Form)> {
        match &self.does {
            Does::One(form) => vec![(None, *form)],
            Does::Several(bundle) => bundle.words.iter().map(|(word, form)| (Some(*word), *form)).collect(),
        }
    }
}
