//! Git in a workspace: each action runs one command in the guest and parses its output.

use std::time::Duration;

use agentiso_core::action::forms::{MAX_DIFF_BYTES, MAX_GIT_SECS};
use agentiso_core::action::{
    CommitStatus, GitClone, GitCloned, GitCommit, GitCommitted, GitDiff, GitDiffed, GitPush, GitPushed,
    GitState, GitStatus,
};
use agentiso_core::{Capture, Code, Failure};
use jiff::Timestamp;

use super::checks::{checked_ref, checked_url};
use super::state::state;
use crate::act::Context;
use crate::actions::commands::{bounded, code_and_signal, run};
use crate::actions::files::absolute;
use crate::command::{Command, Program};
use crate::network::is_about_network;
use crate::secrets::without_credentials;
use crate::{Access, Perform};

const DEFAULT_PATH: &str = "/workspace";
const QUICK: u64 = 60;
const CLONE: u64 = 300;
const PUSH: u64 = 120;
/// The most bytes of a listing that are kept.
const LISTING: usize = 8 << 20;
const DIFF: u64 = 64 * 1024;
/// How much longer than its time limit a command is waited for.
const GRACE: Duration = Duration::from_secs(20);
/// The script's own exit codes, which git does not use.
const NO_GIT: i32 = 97;
const NO_REPOSITORY: i32 = 98;
const NOTHING: i32 = 99;

/// Finds git and the repository before anything else, in the same command.
const PRELUDE: &str = "command -v git >/dev/null || exit 97
cd -- \"$AGENTISO_REPO\" 2>/dev/null && git rev-parse --git-dir >/dev/null 2>&1 || exit 98
";

/// The result of a script.
struct Said {
    code: i32,
    stdout: Capture,
    stderr: Capture,
}

impl Context {
    /// Runs a script with its parameters as variables, which no shell looks into.
    async fn git(
        &self,
        script: &str,
        variables: &[(&str, &str)],
        seconds: u64,
        keep: usize,
    ) -> Result<Said, Failure> {
        let mut command = Command::new(Program::Script(script.to_owned()));
        let own = [("GIT_TERMINAL_PROMPT", "0"), ("LC_ALL", "C"), ("GIT_OPTIONAL_LOCKS", "0")];
        command.env = own
            .iter()
            .chain(variables)
            .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
            .collect();
        command.timeout_ms = Some(seconds * 1000);
        let launched = self.start_command(&command).await?;
        let limit = Duration::from_secs(seconds) + GRACE;
        let ran = tokio::time::timeout(limit, run(launched.started, keep)).await;
        let (exit, stdout, stderr) =
            ran.map_err(|_| Failure::new(Code::Timeout, "the machine did not end git in time"))??;
        if exit.timed_out {
            return Err(Failure::new(Code::Timeout, format!("git took longer than {seconds} s"))
                .with_remedy("raise timeout_secs; for a clone, depth 1 is faster"));
        }
        let said = Said { code: code_and_signal(&exit).0, stdout, stderr };
        match said.code {
            NO_GIT => Err(Failure::new(Code::ToolMissing, "git is not installed in this workspace")
                .with_remedy("use an image that has it, debian for example")),
            NO_REPOSITORY => {
                let path =
                    variables.iter().find(|(name, _)| *name == "AGENTISO_REPO").map_or("", |(_, path)| path);
                Err(Failure::new(Code::NotARepository, format!("{path} is not a git repository"))
                    .with_remedy("give the path of one, or git_clone first"))
            }
            _ => Ok(said),
        }
    }
}

impl Context {
    /// The failure of a command that uses a remote: the network rules may be the reason.
    async fn remote_failure(&self, said: &Said, doing: &str, began: Timestamp) -> Failure {
        let failure = said.failure(doing);
        match self.network_advice(began, is_about_network(&said.stderr.text())).await {
            Some(advice) => failure.with_remedy(advice),
            None => failure,
        }
    }
}

impl Said {
    /// Git's own words, without credentials.
    fn failure(&self, doing: &str) -> Failure {
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        // Which ref a push was refused for, and why, is in what it prints for programs.
        let refused = stdout.lines().filter(|line| line.starts_with("!\t"));
        let words: Vec<&str> = std::iter::once(stderr.trim()).chain(refused).collect();
        let words = without_credentials(&words.join("\n"));
        let failure = Failure::new(Code::GitFailed, format!("git could not {doing}: {words}"));
        let lower = words.to_lowercase();
        let hint = if lower.contains("authentication") || lower.contains("could not read username") {
            "give credentials with set_env: GIT_ASKPASS, or a token your remote takes"
        } else if lower.contains("non-fast-forward") || lower.contains("fetch first") {
            "fetch and merge what the remote has first, or push with force"
        } else if lower.contains("does not appear to be a git repository") || lower.contains("no such remote")
        {
            "look at the remotes with exec: git remote -v"
        } else if lower.contains("please tell me who you are")
            || lower.contains("unable to auto-detect email")
        {
            "give author_name and author_email"
        } else {
            return failure;
        };
        failure.with_remedy(hint)
    }

    fn lines(&self) -> Vec<String> {
        self.stdout.text().lines().map(str::to_owned).collect()
    }
}

impl Perform for GitClone {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<GitCloned, Failure> {
        checked_url(&self.url)?;
        let path = path(self.path.as_deref())?;
        let branch = self.branch.as_deref().map(checked_ref).transpose()?;
        let depth = self.depth.map(|depth| depth.to_string());
        if self.depth == Some(0) {
            return Err(Failure::new(Code::InvalidArgument, "depth must be at least 1"));
        }
        let seconds = bounded("timeout_secs", self.timeout_secs, CLONE, 1, MAX_GIT_SECS)?;
        let script = "command -v git >/dev/null || exit 97
set -- clone --quiet
[ -n \"$AGENTISO_BRANCH\" ] && set -- \"$@\" --branch \"$AGENTISO_BRANCH\"
[ -n \"$AGENTISO_DEPTH\" ] && set -- \"$@\" --depth \"$AGENTISO_DEPTH\"
git \"$@\" -- \"$AGENTISO_URL\" \"$AGENTISO_REPO\" || exit 1
cd -- \"$AGENTISO_REPO\" || exit 1
git rev-parse --verify --quiet HEAD || echo
git symbolic-ref --quiet --short HEAD || echo";
        let variables = [
            ("AGENTISO_URL", self.url.as_str()),
            ("AGENTISO_REPO", path),
            ("AGENTISO_BRANCH", branch.unwrap_or("")),
            ("AGENTISO_DEPTH", depth.as_deref().unwrap_or("")),
        ];
        let began = context.engine.clock.wall();
        let said = context.git(script, &variables, seconds, LISTING).await?;
        if said.code != 0 {
            return Err(context.remote_failure(&said, "clone", began).await);
        }
        let lines = said.lines();
        let line = |index: usize| lines.get(index).filter(|line| !line.is_empty()).cloned();
        Ok(GitCloned {
            success: true,
            path: path.to_owned(),
            commit_sha: line(0),
            url: without_credentials(&self.url),
            branch: line(1),
            depth: self.depth,
        })
    }

    fn changed(outcome: &GitCloned) -> Option<String> {
        Some(outcome.path.clone())
    }
}

impl Perform for GitStatus {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<GitState, Failure> {
        let path = path(self.path.as_deref())?;
        let script = format!("{PRELUDE}git status --porcelain=v2 --branch -z --untracked-files=all");
        let said = context.git(&script, &[("AGENTISO_REPO", path)], QUICK, LISTING).await?;
        if said.code != 0 {
            return Err(said.failure("say its status"));
        }
        Ok(state(&said.stdout.text()))
    }
}

impl Perform for GitCommit {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<GitCommitted, Failure> {
        let path = path(self.path.as_deref())?;
        if self.message.trim().is_empty() || self.message.contains('\0') {
            return Err(Failure::new(Code::InvalidArgument, "message is empty"));
        }
        if self.author_name.is_some() != self.author_email.is_some() {
            return Err(Failure::new(Code::InvalidArgument, "author_name and author_email belong together"));
        }
        let all = if self.add_all.unwrap_or(true) { "1" } else { "" };
        let script = format!(
            "{PRELUDE}if [ -n \"$AGENTISO_NAME\" ]; then
  export GIT_AUTHOR_NAME=\"$AGENTISO_NAME\" GIT_AUTHOR_EMAIL=\"$AGENTISO_EMAIL\"
  export GIT_COMMITTER_NAME=\"$AGENTISO_NAME\" GIT_COMMITTER_EMAIL=\"$AGENTISO_EMAIL\"
fi
if [ -n \"$AGENTISO_ALL\" ]; then git add --all || exit 1; fi
git diff --cached --quiet && exit {NOTHING}
git commit --quiet --message=\"$AGENTISO_MESSAGE\" || exit 1
git log -1 --format='%H%n%h%n%s'
git symbolic-ref --quiet --short HEAD || echo"
        );
        let variables = [
            ("AGENTISO_REPO", path),
            ("AGENTISO_MESSAGE", self.message.as_str()),
            ("AGENTISO_ALL", all),
            ("AGENTISO_NAME", self.author_name.as_deref().unwrap_or("")),
            ("AGENTISO_EMAIL", self.author_email.as_deref().unwrap_or("")),
        ];
        let said = context.git(&script, &variables, QUICK, LISTING).await?;
        if said.code == NOTHING {
            return Ok(GitCommitted {
                status: CommitStatus::NothingToCommit,
                commit_sha: None,
                short_sha: None,
                branch: None,
                summary: None,
            });
        }
        if said.code != 0 {
            return Err(said.failure("commit"));
        }
        let lines = said.lines();
        let line = |index: usize| lines.get(index).filter(|line| !line.is_empty()).cloned();
        Ok(GitCommitted {
            status: CommitStatus::Committed,
            commit_sha: line(0),
            short_sha: line(1),
            summary: line(2),
            branch: line(3),
        })
    }

    fn changed(outcome: &GitCommitted) -> Option<String> {
        outcome.short_sha.as_ref().map(|sha| format!("commit {sha}"))
    }
}

impl Perform for GitPush {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<GitPushed, Failure> {
        let path = path(self.path.as_deref())?;
        let remote = checked_ref(self.remote.as_deref().unwrap_or("origin"))?;
        let branch = self.branch.as_deref().map(checked_ref).transpose()?;
        let seconds = bounded("timeout_secs", self.timeout_secs, PUSH, 1, MAX_GIT_SECS)?;
        let script = format!(
            "{PRELUDE}[ -n \"$AGENTISO_BRANCH\" ] || AGENTISO_BRANCH=$(git symbolic-ref --quiet --short HEAD) || exit {NOTHING}
set -- push --porcelain
[ -n \"$AGENTISO_FORCE\" ] && set -- \"$@\" --force-with-lease
[ -n \"$AGENTISO_UPSTREAM\" ] && set -- \"$@\" --set-upstream
echo \"$AGENTISO_BRANCH\"
git \"$@\" -- \"$AGENTISO_REMOTE\" \"$AGENTISO_BRANCH\""
        );
        let variables = [
            ("AGENTISO_REPO", path),
            ("AGENTISO_REMOTE", remote),
            ("AGENTISO_BRANCH", branch.unwrap_or("")),
            ("AGENTISO_FORCE", if self.force { "1" } else { "" }),
            ("AGENTISO_UPSTREAM", if self.set_upstream { "1" } else { "" }),
        ];
        let began = context.engine.clock.wall();
        let said = context.git(&script, &variables, seconds, LISTING).await?;
        if said.code == NOTHING {
            return Err(Failure::new(Code::GitFailed, "no branch is checked out")
                .with_remedy("say which branch to push"));
        }
        if said.code != 0 {
            return Err(context.remote_failure(&said, "push", began).await);
        }
        let lines = said.lines();
        let (branch, output) = lines
            .split_first()
            .map_or((String::new(), String::new()), |(first, rest)| (first.clone(), rest.join("\n")));
        Ok(GitPushed {
            remote: remote.to_owned(),
            branch,
            success: true,
            output: without_credentials(&output),
        })
    }

    fn changed(outcome: &GitPushed) -> Option<String> {
        Some(format!("{} at {}", outcome.branch, outcome.remote))
    }
}

impl Perform for GitDiff {
    const ACCESS: Access = Access::Works;

    async fn perform(self, context: &Context) -> Result<GitDiffed, Failure> {
        let path = path(self.path.as_deref())?;
        let keep = bounded("max_bytes", self.max_bytes, DIFF, 1, MAX_DIFF_BYTES)?;
        let script = format!(
            "{PRELUDE}set -- diff --no-color --no-ext-diff
[ -n \"$AGENTISO_STAGED\" ] && set -- \"$@\" --cached
[ -n \"$AGENTISO_STAT\" ] && set -- \"$@\" --stat
[ -n \"$AGENTISO_FILE\" ] && set -- \"$@\" -- \"$AGENTISO_FILE\"
git \"$@\""
        );
        let variables = [
            ("AGENTISO_REPO", path),
            ("AGENTISO_STAGED", if self.staged { "1" } else { "" }),
            ("AGENTISO_STAT", if self.stat { "1" } else { "" }),
            ("AGENTISO_FILE", self.file_path.as_deref().unwrap_or("")),
        ];
        let said =
            context.git(&script, &variables, QUICK, usize::try_from(keep).unwrap_or(usize::MAX)).await?;
        if said.code != 0 {
            return Err(said.failure("say what changed"));
        }
        let diff = said.stdout.text();
        Ok(GitDiffed { stat: self.stat.then(|| diff.clone()), truncated: said.stdout.omitted() > 0, diff })
    }
}

fn path(asked: Option<&str>) -> Result<&str, Failure> {
    let path = asked.unwrap_or(DEFAULT_PATH);
    absolute(path)?;
    Ok(path)
}
