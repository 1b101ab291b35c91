//! `git` where the number of arguments or their form decides.

use super::super::Categories;
use super::super::shell::Excess;
use super::super::tools::Options;
use super::call::Call;
use super::judged::Judged;
use super::simple::quoted;
use super::state::{Input, Streams, Walk};

/// Settings whose value is a command.
const COMMAND_SETTINGS: &[&str] = &[
    "core.pager",
    "core.editor",
    "core.sshcommand",
    "core.fsmonitor",
    "core.hookspath",
    "core.gitproxy",
    "sequence.editor",
    "diff.external",
    "credential.helper",
    "uploadpack.packobjectshook",
    "gpg.program",
    "core.askpass",
];

impl Walk<'_> {
    pub(super) fn git(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        let subcommand = call.found.subcommand().unwrap_or_default();
        self.effects(call, &options, judged);
        let before = self.state.cwd.clone();
        self.git_settings(call, judged)?;
        self.values(&options, judged)?;
        self.arguments(call, &options, judged)?;
        self.state.cwd = before;
        if options.is_harmless() {
            return Ok(());
        }
        let words = call.positional(&options);
        // `ext::COMMAND` as a repository runs the command.
        for line in words.iter().filter_map(|word| word.strip_prefix("ext::")) {
            judged.add(Categories::MUTATING, "runs a command to reach the repository");
            let line = line.to_owned();
            self.subshell(|walk| walk.text(&line, Streams { captured: true, ..Streams::default() }))?;
        }
        match subcommand {
            "commit" => commit(&options, call, judged),
            "checkout" => checkout(call, &options, &words, judged),
            "push" if words.iter().any(|word| word.starts_with('+') || word.starts_with(':')) => {
                judged.add(Categories::DESTRUCTIVE, "the refspec overwrites or deletes a branch");
            }
            "remote/show" if !words.is_empty() && !options.has("-n") => {
                judged.add(Categories::NETWORKED, "asks the other repository");
            }
            "tag" if options.has("-a") && !options.has("-m") && !options.has("-F") && !options.has("-d") => {
                judged.add(
                    Categories::INTERACTIVE.and(Categories::MUTATING),
                    "opens an editor for the message",
                );
            }
            "branch" | "tag" if !words.is_empty() && !options.has("-l") => {
                judged.add(Categories::MUTATING, format!("creates or moves a {subcommand}"));
            }
            "config" => {
                if words.len() > 1 && !options.has("--get") {
                    judged.add(Categories::MUTATING, "changes a setting");
                }
                let changes = judged.categories.has(super::super::Category::Mutating);
                if changes && (options.has("--global") || options.has("--system")) {
                    judged.add(Categories::HOST_ESCAPE_RISK, "changes settings outside the workspace");
                }
            }
            "restore" if options.has("-S") && !options.has("-W") => {}
            "restore" => judged.add(Categories::DESTRUCTIVE, "overwrites files of the work tree"),
            "rm" if !options.has("--cached") => judged.add(Categories::DESTRUCTIVE, "deletes files"),
            "bisect/run" | "submodule/foreach" => {
                let first = call.options_first();
                let line = match call.positional(&first).as_slice() {
                    [line] => (*line).to_owned(),
                    words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
                };
                self.subshell(|walk| walk.text(&line, Streams::default()))?;
            }
            "merge" | "pull" | "revert" | "cherry-pick" if options.has("-e") => {
                judged.add(Categories::INTERACTIVE, "opens an editor");
            }
            _ => {}
        }
        Ok(())
    }

    /// `git -c key=value`: some keys run commands.
    fn git_settings(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        for pair in call.args.windows(2).filter(|pair| pair[0].text == "-c") {
            let Some((key, value)) = pair[1].text.split_once('=') else { continue };
            let key = key.to_ascii_lowercase();
            let is_alias = key.starts_with("alias.");
            let is_command = COMMAND_SETTINGS.contains(&key.as_str())
                || key.ends_with(".helper")
                || key.ends_with(".textconv");
            if is_alias || is_command {
                judged.add(
                    if is_alias || key == "core.hookspath" {
                        Categories::MUTATING
                    } else {
                        Categories::READ_ONLY
                    },
                    format!("{key} is a command"),
                );
                let line = value.strip_prefix('!').unwrap_or(value).to_owned();
                let runs = !is_alias || value.starts_with('!');
                if runs && !line.is_empty() && !line.starts_with("ssh") {
                    self.subshell(|walk| walk.text(&line, Streams { captured: true, ..Streams::default() }))?;
                }
            }
        }
        Ok(())
    }
}

/// Without a message, `git commit` opens an editor.
fn commit(options: &Options<'_>, call: &Call<'_>, judged: &mut Judged) {
    let has_message = ["-m", "-F", "-C", "--no-edit", "--fixup"].iter().any(|flag| options.has(flag));
    let from_input = options.value("-F") == Some("-") && matches!(call.streams.input, Input::Terminal);
    if !has_message || from_input {
        judged.add(Categories::INTERACTIVE, "opens an editor for the message");
    }
}

/// `git checkout` switches branches, or overwrites files.
fn checkout(call: &Call<'_>, options: &Options<'_>, words: &[&str], judged: &mut Judged) {
    let has_separator = call.args.iter().any(|arg| arg.text == "--");
    let looks_like_path = |word: &&str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        word.starts_with('.')
            || word.contains('*')
            || name.contains('.') && !name.starts_with('v')
            || word.starts_with('/')
    };
    let creates = options.has("-b") || options.has("--orphan");
    let names_files = words.len() > 1 && !creates && !options.has("-t");
    if has_separator || names_files || (!creates && words.iter().any(looks_like_path)) {
        judged.add(Categories::DESTRUCTIVE, "overwrites files of the work tree");
    }
}
