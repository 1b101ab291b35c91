//! Targets and scripts of a project, and verbs of clouds: their names tell what they are for.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Arg, Streams, Walk};

/// Parts of names of targets that delete.
const DELETING: &[&str] = &[
    "clean",
    "clear",
    "purge",
    "wipe",
    "uninstall",
    "reset",
    "destroy",
    "nuke",
    "mrproper",
    "drop",
    "teardown",
];
/// Parts of names of targets that use the network.
const NETWORK: &[&str] =
    &["deploy", "publish", "release", "upload", "download", "fetch", "push", "pull", "docker-build", "sync"];

impl Walk<'_> {
    pub(super) fn make(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        self.effects(call, &options, judged);
        let before = self.state.cwd.clone();
        self.values(&options, judged)?;
        if options.is_harmless() {
            self.state.cwd = before;
            return Ok(());
        }
        let words = call.positional(&options);
        let is_staged = words
            .iter()
            .any(|word| ["DESTDIR=", "PREFIX=", "prefix="].iter().any(|key| word.starts_with(key)));
        for word in words {
            if let Some((name, value)) = word.split_once('=') {
                if name == "SHELL" || value.contains("$(shell") || value.contains('`') {
                    let line = value.to_owned();
                    self.subshell(|walk| walk.text(&line, Streams::default()))?;
                }
                self.judge_argument(value, true, judged);
                continue;
            }
            target(word, judged);
            let is_make =
                matches!(call.name, "make" | "gmake" | "bmake" | "ninja" | "samu" | "scons" | "waf");
            if word == "install" && is_make && !is_staged {
                judged.add(Categories::HOST_ESCAPE_RISK, "install usually writes to /usr/local");
            }
        }
        self.state.cwd = before;
        Ok(())
    }

    /// `npm run NAME` and the like: the script is not read.
    pub(super) fn scripts(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options_first();
        self.effects(call, &options, judged);
        if options.is_harmless() {
            return Ok(());
        }
        self.values(&options, judged)?;
        let words = call.positional(&options);
        // Without a name they list what there is.
        let lists = matches!(call.found.subcommand(), Some("run" | "run-script")) && words.is_empty();
        if lists {
            return Ok(());
        }
        judged.add(Categories::MUTATING, "runs code of the project, which is not read");
        if let Some(name) = words.first() {
            target(name, judged);
        }
        // Some run any program: `poetry run rm x`, `pnpm exec eslint`.
        let runs_programs = matches!(call.found.subcommand(), Some("run" | "exec" | "x" | "shell"))
            && matches!(
                call.name,
                "poetry"
                    | "uv"
                    | "pipenv"
                    | "pdm"
                    | "hatch"
                    | "pnpm"
                    | "yarn"
                    | "bundle"
                    | "conda"
                    | "mamba"
                    | "rye"
                    | "mise"
                    | "rbenv"
                    | "pyenv"
                    | "direnv"
                    | "nix"
                    | "lerna"
                    | "op"
                    | "doppler"
                    | "infisical"
            );
        if runs_programs && !words.is_empty() {
            let skipped = usize::from(call.name == "direnv");
            let command: Vec<Arg> =
                options.positional.iter().skip(skipped).map(|index| call.args[*index].clone()).collect();
            self.deeper(|walk| walk.command(&command, call.streams))?;
        } else {
            for word in words.iter().skip(1) {
                if self.judge_argument(word, false, judged) {
                    judged.add(Categories::NETWORKED, "a URL is given to a script");
                }
            }
        }
        Ok(())
    }

    /// `aws`, `gcloud`, `kubectl` and others: the verb decides what changes.
    pub(super) fn cloud(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        let entry = call.found.entry();
        if let Some(left) = options.leaves {
            judged.add(left, format!("{} only shows what it would do", call.name));
            return Ok(());
        }
        judged.add(entry.effect.and(options.adds), format!("{} talks to a service", call.name));
        for (_, kind, value) in &options.values {
            self.judge_kind(*kind, value, judged)?;
        }
        for arg in call.args {
            if let Some(path) = arg.text.find("file://") {
                self.judge_path(&arg.text[path + 7..], false, judged);
            }
        }
        if call.found.subcommand.is_some() && call.found.subcommand() != Some("*") {
            return self.arguments(call, &options, judged);
        }
        let words: Vec<&str> = call.positional(&options);
        let verbs: Vec<&str> = words.iter().take(5).copied().collect();
        let deletes = [
            "delete",
            "remove",
            "terminate",
            "destroy",
            "purge",
            "rm",
            "rb",
            "deregister",
            "uninstall",
            "prune",
            "revoke",
            "drop",
            "kill",
            "rollback",
            "reset",
        ];
        let reads = [
            "list", "describe", "get", "show", "ls", "view", "status", "logs", "log", "search", "whoami",
            "version", "help", "head", "lookup", "tail", "info", "diff", "plan", "cat", "wait", "read",
            "inspect", "check", "validate", "ps", "history", "regions", "env", "config", "print",
        ];
        let is = |word: &str, verbs: &[&str]| {
            verbs.iter().any(|verb| {
                word == *verb
                    || word.strip_prefix(verb).is_some_and(|rest| rest.starts_with('-') || rest == "s")
            })
        };
        if verbs.iter().any(|word| is(word, &deletes)) {
            judged.add(Categories::DESTRUCTIVE, "the verb deletes");
        } else if !verbs.iter().any(|word| is(word, &reads)) && !verbs.is_empty() {
            judged.add(Categories::MUTATING, "the verb is not one that only reads");
        }
        Ok(())
    }
}

fn target(name: &str, judged: &mut Judged) {
    let lower = name.to_ascii_lowercase();
    let has_part = |parts: &[&str]| {
        parts
            .iter()
            .any(|part| lower.split([':', '-', '_', '.', '/']).any(|word| word == *part) || lower == *part)
    };
    if has_part(DELETING) || lower.starts_with("clean") || lower.ends_with("clean") {
        judged.add(Categories::DESTRUCTIVE, format!("{name} sounds as if it deletes"));
    }
    if has_part(NETWORK) {
        judged.add(Categories::NETWORKED, format!("{name} sounds as if it uses the network"));
    }
}
