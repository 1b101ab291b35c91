//! Targets and scripts of a project, and verbs of clouds: their names tell what they are for.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Arg, Input, Streams, Walk};

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
        let shows = ["targets", "query", "deps", "graph", "commands", "list", "compdb", "rules", "inputs"];
        let tool = options.value("-t").filter(|_| matches!(call.name, "ninja" | "samu" | "n2"));
        match tool {
            Some(tool) if shows.contains(&tool) => {
                judged.add(Categories::READ_ONLY, "only shows what the build files say");
                return Ok(());
            }
            Some(tool) => target(tool, judged),
            None => {}
        }
        self.effects(call, &options, judged);
        let before = self.state.cwd.clone();
        self.values(&options, judged)?;
        if options.is_harmless() {
            self.state.cwd = before;
            return Ok(());
        }
        if let (Some("-" | "/dev/stdin"), Input::Text(rules)) = (options.value("-f"), &call.streams.input) {
            // A recipe stands behind a tab, or behind the `;` of its rule.
            for rule in rules.lines() {
                let recipe =
                    rule.strip_prefix('\t').or_else(|| rule.split_once(';').map(|(_, recipe)| recipe));
                if let Some(recipe) = recipe {
                    let recipe = recipe.trim_start_matches(['@', '-', '+', ' ']).to_owned();
                    self.subshell(|walk| walk.text(&recipe, Streams::default()))?;
                }
            }
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

    /// `cmake --build DIR --target clean`.
    pub(super) fn cmake(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        let options = call.options();
        for (_, _, value) in options.values.iter().filter(|(name, ..)| *name == "--target") {
            target(value, judged);
            if value == "install" {
                judged.add(Categories::HOST_ESCAPE_RISK, "install usually writes to /usr/local");
            }
        }
        let runs = call.args.iter().position(|arg| arg.text == "-E").map(|index| &call.args[index + 1..]);
        match runs {
            Some([verb, ..]) if verb.text.starts_with("rm") || verb.text.starts_with("remove") => {
                judged.add(Categories::DESTRUCTIVE, "deletes files");
            }
            Some([verb, rest @ ..]) if matches!(verb.text.as_str(), "env" | "time" | "chdir") => {
                let skipped = usize::from(verb.text == "chdir");
                let command: Vec<Arg> =
                    rest.iter().skip(skipped).skip_while(|arg| arg.text.contains('=')).cloned().collect();
                self.deeper(|walk| walk.command(&command, call.streams))?;
            }
            _ => {}
        }
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
            for word in &words {
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
        let only_shows =
            matches!(call.positional(&options).first(), Some(&("version" | "help" | "completion")));
        let effect = if only_shows { Categories::READ_ONLY } else { entry.effect.and(options.adds) };
        judged.add(effect, format!("{} talks to a service", call.name));
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
        if only_shows {
            return Ok(());
        }
        if verbs.iter().any(|word| deletes(word)) {
            judged.add(Categories::DESTRUCTIVE, "the verb deletes");
        } else if verbs.iter().any(|word| *word == "get-credentials" || word.starts_with("update-")) {
            judged.add(Categories::MUTATING, "the verb writes settings");
        } else if !verbs.iter().any(|word| is(word, &reads)) && !verbs.is_empty() {
            judged.add(Categories::MUTATING, "the verb is not one that only reads");
        }
        Ok(())
    }
}

/// Verbs of subcommands and flags that delete.
const VERBS: &[&str] = &[
    "delete",
    "del",
    "rm",
    "remove",
    "drop",
    "destroy",
    "purge",
    "prune",
    "wipe",
    "reset",
    "uninstall",
    "truncate",
    "terminate",
    "erase",
    "yank",
    "revoke",
    "kill",
    "flush",
    "flushall",
    "nuke",
    "unpublish",
    "luksformat",
    "rmdir",
    "unlink",
    "shred",
    "cleanup",
    "clean",
    "deregister",
    "rb",
    "trash",
    "rollback",
];

/// Whether a word of a command line sounds as if it deletes: `db:drop`, `batch-delete-image`, `--force-reset`.
pub(super) fn deletes(word: &str) -> bool {
    word.len() < 64
        && !word.contains(['/', '=', ' '])
        && word
            .trim_start_matches('-')
            .split([':', '-', '_', '.'])
            .any(|part| VERBS.iter().any(|verb| part.eq_ignore_ascii_case(verb)))
}

fn target(name: &str, judged: &mut Judged) {
    let lower = name.to_ascii_lowercase();
    if matches!(lower.as_str(), "menuconfig" | "nconfig" | "xconfig" | "gconfig" | "oldconfig") {
        judged.add(Categories::INTERACTIVE, format!("{name} asks at a terminal"));
    }
    if lower.starts_with("dependency:") || lower.starts_with("update") || lower.starts_with("install-deps") {
        judged.add(Categories::NETWORKED, format!("{name} sounds as if it uses the network"));
    }
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
