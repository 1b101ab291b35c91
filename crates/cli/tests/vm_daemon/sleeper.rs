//! Long-running commands, and whether they are still running.

use crate::http::Http;

/// A shell with a child, both of which must end. It writes its process id for [`runs`] and [`is_gone`].
pub fn command(name: &str) -> String {
    format!("echo $$ > /run/{name}.new; mv /run/{name}.new /run/{name}; sleep 1000; true")
}

/// Waits until the command with this name runs.
pub fn runs(http: &Http, workspace: &str, name: &str) {
    http.sh(workspace, &format!("timeout 60 sh -c 'until test -s /run/{name}; do sleep 0.05; done'"));
}

/// Waits until it and its child have exited.
pub fn is_gone(http: &Http, workspace: &str, name: &str) {
    let gone = "pid=$(cat /run/NAME); timeout 60 sh -c \
                \"while kill -0 $pid 2>/dev/null || grep -qs 'PPid:.*\\b$pid\\$' /proc/[0-9]*/status; do sleep 0.05; done\"";
    http.sh(workspace, &gone.replace("NAME", name));
}
