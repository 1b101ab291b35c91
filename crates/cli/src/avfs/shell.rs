//! `avfs shell`: an interactive shell for avfs commands.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::{Code, Failure};
use clap::{Args, CommandFactory};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor, Helper, Highlighter, Hinter, Validator};

use super::Cli;
use super::context::Context;
use super::dispatch::perform;
use crate::ui::Stream;

/// How many lines of history are kept.
const HISTORY: usize = 1000;

/// Flags of `shell`.
#[derive(Args, Debug)]
#[command(
    after_help = "Lines are avfs commands without avfs. use NAME changes the vault, exit or Ctrl-D leaves.\n\n\
                  Example:\n  avfs --vault work shell"
)]
pub struct Shell {
    /// Keep no history
    #[arg(long)]
    pub no_history: bool,
}

/// Runs the shell.
pub fn shell(context: &Context, flags: Shell) -> Result<u8, Failure> {
    let failed = |error: ReadlineError| Failure::new(Code::Io, format!("could not read a line: {error}"));
    let config = Config::builder().max_history_size(HISTORY).map_err(failed)?.auto_add_history(true).build();
    let mut editor: Editor<Words<'_>, FileHistory> = Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Words { context, verbs: verbs() }));
    let history = context.places.vaults.join("history");
    if !flags.no_history {
        // A missing or damaged history is no reason not to work.
        let _ = editor.load_history(&history);
    }
    let mut vault = context.named()?;
    let mut last = 0;
    loop {
        let prompt = format!("{}> ", vault.as_deref().unwrap_or("avfs"));
        let line = match editor.readline(&prompt) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        match words(&line).as_deref() {
            None => {
                let _ = writeln!(Stream::stderr(), "a quote is not closed");
                last = 2;
            }
            Some([]) => {}
            Some([word]) if word == "exit" || word == "quit" => break,
            Some([word, name]) if word == "use" => match context.vaults()?.info(name) {
                Ok(info) => vault = Some(info.name),
                Err(error) => context.shown.failure(&error.into()),
            },
            Some(words) => last = run(context, vault.as_deref(), words),
        }
    }
    if !flags.no_history {
        let _ = editor.save_history(&history);
    }
    Ok(last)
}

/// Performs one line.
fn run(context: &Context, vault: Option<&str>, words: &[String]) -> u8 {
    let mut line: Vec<OsString> = vec!["avfs".into()];
    line.extend(vault.map(|vault| format!("--vault={vault}").into()));
    if context.shown.json {
        line.push("--json".into());
    }
    line.extend(words.iter().map(OsString::from));
    perform(&line)
}

/// Splits a line as a shell does: spaces, quotes and backslashes. Nothing if a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => word.push(letters.next()?),
                        other => word.push(other),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next()?),
            space if space.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Some(words)
}

/// The commands, and the commands below them.
fn verbs() -> Vec<(String, Vec<String>)> {
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|verb| !verb.is_hide_set());
    let below = |verb: &clap::Command| verb.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let mut verbs: Vec<(String, Vec<String>)> =
        shown.map(|verb| (verb.get_name().to_owned(), below(verb))).collect();
    verbs.extend(["use", "exit"].map(|word| (word.to_owned(), Vec::new())));
    verbs
}

/// What completes a line: commands, paths and vaults.
#[derive(Helper, Highlighter, Hinter, Validator)]
struct Words<'c> {
    context: &'c Context,
    verbs: Vec<(String, Vec<String>)>,
}

impl Completer for Words<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..position];
        let start = before.rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let begun = &before[start..];
        let earlier: Vec<&str> = before[..start].split_whitespace().collect();
        let found = match earlier[..] {
            [] => self.verbs.iter().map(|(verb, _)| verb.clone()).collect(),
            ["use"] => self.vaults(),
            [verb] => match self.verbs.iter().find(|(name, below)| name == verb && !below.is_empty()) {
                Some((_, below)) => below.clone(),
                None => self.paths(begun),
            },
            ["vault", ..] => self.vaults(),
            _ => self.paths(begun),
        };
        let pairs = found.into_iter().filter(|word| word.starts_with(begun));
        Ok((start, pairs.map(|word| Pair { display: word.clone(), replacement: word }).collect()))
    }
}

impl Words<'_> {
    fn vaults(&self) -> Vec<String> {
        let listed = self.context.vaults().ok().and_then(|vaults| vaults.list().ok());
        listed.unwrap_or_default().into_iter().map(|vault| vault.name).collect()
    }

    /// The entries of the directory that a path begins with.
    fn paths(&self, begun: &str) -> Vec<String> {
        let above = begun.rfind('/').map_or("/", |slash| &begun[..=slash]);
        let list = || {
            let view = self.context.view().ok()?;
            view.list(&super::context::path(above.as_ref()).ok()?).ok()
        };
        let entries = list().unwrap_or_default();
        let name = |stat: &agentiso_vfs::Stat| {
            let end = if super::shown::is_directory(stat.kind) { "/" } else { "" };
            format!("{above}{}{end}", String::from_utf8_lossy(&stat.name()))
        };
        entries.iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_as_shells_do() {
        let split = |line| words(line).map(|words| words.join("|"));
        assert_eq!(split("ls -l  /a").as_deref(), Some("ls|-l|/a"));
        assert_eq!(split(r#"write '/a b' "c \"d\"" e\ f"#).as_deref(), Some("write|/a b|c \"d\"|e f"));
        assert_eq!(words("  ").unwrap(), Vec::<String>::new());
        assert_eq!(words("''").unwrap(), [""]);
        assert_eq!(split("echo 'open"), None);
        assert_eq!(split("echo \\"), None);
    }
}
