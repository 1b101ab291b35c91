//! Marks the content of workspaces, to check later that nothing was lost.
//!
//! A token is written to a file on the disk, and given to a process that keeps it in memory and reports it on request.

use crate::command::Agentiso;

/// The content of a disk without a token.
pub const NOTHING: &str = "nothing";

/// Keeps its first argument in memory.
const KEEPER: &str = r#"trap "echo $0 > /dev/shm/said" USR1
echo $$ > /dev/shm/keeper; echo $0 > /dev/shm/ready
while :; do sleep 1000 & wait $!; kill $! 2>/dev/null; done"#;

const WRITE: &str = r#"set -e
head -c 512K /dev/urandom > /ballast; echo "$1" > /token; sync
[ ! -e /dev/shm/keeper ] || kill "$(cat /dev/shm/keeper)" 2>/dev/null || :
sh -c "$2" "$1" </dev/null >/dev/null 2>&1 &
until [ "$(cat /dev/shm/ready 2>/dev/null)" = "$1" ]; do sleep 0.02; done
echo written"#;

const READ: &str = r#"if [ -e /token ]; then cat /token; else echo nothing; fi
[ -n "$1" ] || exit 0
rm -f /dev/shm/said; kill -USR1 "$(cat /dev/shm/keeper)" || exit 3
until [ -s /dev/shm/said ]; do sleep 0.02; done; cat /dev/shm/said"#;

/// Writes a token to the disk and memory of a running workspace. It is on the disk when this returns.
pub fn write(agentiso: &Agentiso, workspace: &str, token: &str) {
    let printed = sh(agentiso, workspace, WRITE, &[token, KEEPER]);
    assert_eq!(printed, "written\n", "writing {token} to {workspace}");
}

/// The token on the disk of a running workspace.
pub fn on_disk(agentiso: &Agentiso, workspace: &str) -> String {
    sh(agentiso, workspace, READ, &[""]).trim_end().to_owned()
}

/// The tokens on the disk and in the memory of a running workspace.
pub fn on_disk_and_in_memory(agentiso: &Agentiso, workspace: &str) -> (String, String) {
    let printed = sh(agentiso, workspace, READ, &["memory too"]);
    let (disk, memory) = printed.trim_end().split_once('\n').unwrap_or((printed.trim_end(), "nobody"));
    (disk.to_owned(), memory.to_owned())
}

fn sh(agentiso: &Agentiso, workspace: &str, script: &str, arguments: &[&str]) -> String {
    let mut words = vec!["exec", workspace, "--timeout", "30", "--", "sh", "-c", script, "sh"];
    words.extend(arguments);
    let report = agentiso.must(&words);
    assert_eq!(report["exit_code"], 0, "in {workspace}: {report}");
    report["stdout"].as_str().unwrap_or_default().to_owned()
}
