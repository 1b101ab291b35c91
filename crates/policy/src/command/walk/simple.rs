//! Simple commands: assignments, redirections, functions and aliases.

use std::rc::Rc;

use super::super::Categories;
use super::super::shell::{Assignment, Excess, Redirect, RedirectKind, Simple};
use super::judged::Judged;
use super::state::{Arg, Input, Output, Streams, UNKNOWN, Walk};

/// Variables that make a later program load or run something.
const LOADERS: &[&str] = &[
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "DYLD_LIBRARY_PATH",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "GIT_EXEC_PATH",
    "RUSTC_WRAPPER",
    "GIT_CONFIG_GLOBAL",
    "GIT_TEMPLATE_DIR",
    "BASH_FUNC_ls",
];

/// Variables whose value is a command that other programs run.
const COMMANDS: &[&str] = &[
    "PROMPT_COMMAND",
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH_COMMAND",
    "GIT_SSH",
    "GIT_EXTERNAL_DIFF",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "LESSOPEN",
    "LESSCLOSE",
    "BROWSER",
    "GIT_PROXY_COMMAND",
    "PS4",
];

/// Variables whose value names files that other programs use.
const PATHS: &[&str] = &[
    "CDPATH",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "KUBECONFIG",
    "DOCKER_CONFIG",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "NETRC",
    "GNUPGHOME",
    "MYSQL_HOME",
];

/// Builtins that evaluate subscripts in their arguments.
const EVALUATING: &[&str] = &[
    "test",
    "[",
    "printf",
    "read",
    "let",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "mapfile",
    "readarray",
    "wait",
    "getopts",
];

impl Walk<'_> {
    pub(super) fn simple(&mut self, simple: &Simple, outer: &Streams) -> Result<Output, Excess> {
        let mut judged = Judged::default();
        for assignment in &simple.assignments {
            self.assign(assignment, &mut judged)?;
        }
        let mut args = Vec::new();
        let mut printed = None;
        for word in &simple.words {
            let fields = self.fields(word)?;
            printed = fields.process.or(printed);
            if fields.hidden && (args.is_empty() || runs_arguments(&args)) {
                judged.add(hidden_code(), "what is run comes out of a decoder");
            }
            args.extend(fields.args);
        }
        let mut streams = self.redirected(&simple.redirects, outer, &mut judged)?;
        if let Some(output) = printed {
            // `bash <(…)` reads it as a file.
            streams.input = output.into_input();
        }
        if judged.categories.has(super::super::Category::Networked)
            && args.first().is_some_and(|_| runs_arguments(&args))
        {
            judged.add(Categories::HOST_ESCAPE_RISK, "gives a connection to a shell");
        }
        let writes = simple.redirects.iter().find(|redirect| {
            redirect.kind == RedirectKind::Write && matches!(redirect.descriptor, None | Some(1))
        });
        if args.is_empty() {
            if writes.is_some() && judged.categories.has(super::super::Category::Mutating) {
                judged.add(Categories::DESTRUCTIVE, "empties a file");
            }
            let command = if simple.redirects.is_empty() { "assignment" } else { "redirection" };
            let names: Vec<&str> =
                simple.assignments.iter().map(|assignment| assignment.name.as_str()).collect();
            self.record(judged.step(&format!("{command} {}", names.join(" "))));
            return Ok(Output::default());
        }
        let prints_nothing = matches!(args[0].text.as_str(), ":" | "true" | "false");
        if prints_nothing && writes.is_some() && judged.categories.has(super::super::Category::Mutating) {
            judged.add(Categories::DESTRUCTIVE, "empties a file");
        }
        if !judged.categories.is_read_only() {
            self.record(judged.step(&shown(&args)));
        }
        if EVALUATING.contains(&args[0].text.as_str()) {
            for arg in &args[1..] {
                self.subscripts(&arg.text)?;
            }
        }
        let output = self.command(&args, &streams)?;
        // What goes to a file is not printed.
        Ok(if streams.saved { Output::known("") } else { output })
    }

    fn assign(&mut self, assignment: &Assignment, judged: &mut Judged) -> Result<(), Excess> {
        let mut ignored = super::fields::Text::default();
        self.pieces(&assignment.index, &mut ignored, true)?;
        let mut values = Vec::with_capacity(assignment.value.len());
        for word in &assignment.value {
            values.push(self.single(word)?.0);
        }
        let mut value = values.join(" ");
        self.judge_variable(&assignment.name, &value, judged)?;
        if assignment.appends {
            let old = self.get(&assignment.name).unwrap_or_else(|| UNKNOWN.to_string());
            value = format!("{old}{value}");
        }
        self.set(&assignment.name, value);
        Ok(())
    }

    /// What setting a variable may cause.
    pub(super) fn judge_variable(
        &mut self,
        name: &str,
        value: &str,
        judged: &mut Judged,
    ) -> Result<(), Excess> {
        self.subscripts(value)?;
        let loads =
            LOADERS.contains(&name) || name.starts_with("GIT_CONFIG") || name.starts_with("BASH_FUNC_");
        if loads && !value.is_empty() {
            let harmless = name == "NODE_OPTIONS"
                && !value.contains("-r")
                && !value.contains("import")
                && !value.contains(UNKNOWN);
            if !harmless {
                judged.add(Categories::MUTATING, format!("{name} makes programs load other code"));
            }
        } else if COMMANDS.contains(&name) && !value.starts_with("ssh") {
            self.subshell(|walk| walk.text(value, Streams { captured: true, ..Streams::default() }))?;
        } else if PATHS.contains(&name) {
            for part in value.split(':') {
                self.judge_path(part, false, judged);
            }
        } else if name == "PATH" {
            // Programs of the workspace come before those of the system.
            let first = value.split(':').next().unwrap_or_default();
            let place = super::super::scope::normalise(&self.state.cwd, first);
            let is_system = self.scope.place(&place) == super::super::scope::Place::System;
            let is_own = matches!(
                self.scope.place(&place),
                super::super::scope::Place::Workspace | super::super::scope::Place::Scratch
            );
            if !is_system && is_own && !first.contains(UNKNOWN) && !self.scope.is_machine() {
                judged.add(Categories::MUTATING, "programs are searched in the workspace first");
            }
        }
        Ok(())
    }

    /// `a[$(command)]` in a text that a builtin takes for a variable or an expression runs the command.
    pub(super) fn subscripts(&mut self, text: &str) -> Result<(), Excess> {
        let runs = text.find('[').is_some_and(|start| {
            let rest = &text[start..];
            rest.contains("$(") || rest.contains('`')
        });
        if runs {
            let line = format!(": \"{}\"", text.replace('"', ""));
            self.subshell(|walk| walk.text(&line, Streams { captured: true, ..Streams::default() }))?;
        }
        Ok(())
    }

    /// Judges redirections, and returns the streams behind them.
    pub(super) fn redirected(
        &mut self,
        redirects: &[Redirect],
        outer: &Streams,
        judged: &mut Judged,
    ) -> Result<Streams, Excess> {
        let mut streams = Streams { saved: false, ..outer.clone() };
        for redirect in redirects {
            let (target, text) = self.single(&redirect.target)?;
            let is_input = matches!(redirect.descriptor, None | Some(0));
            let is_output = matches!(redirect.descriptor, None | Some(1));
            match redirect.kind {
                RedirectKind::Duplicate => streams.captured |= is_output && redirect.descriptor == Some(1),
                RedirectKind::Text => {
                    if is_input {
                        streams.input = if text.hidden {
                            Input::Unknown { hidden: true }
                        } else if target == UNKNOWN.to_string() {
                            Input::Unknown { hidden: false }
                        } else {
                            Input::Text(target)
                        };
                    }
                }
                RedirectKind::Read => {
                    self.judge_path(&target, false, judged);
                    if is_input {
                        streams.input = match text.process {
                            Some(output) => output.into_input(),
                            None => Input::Unknown { hidden: false },
                        };
                    }
                }
                RedirectKind::Write | RedirectKind::Append | RedirectKind::ReadWrite => {
                    if text.process.is_none() {
                        self.judge_written(&target, judged);
                    }
                    streams.captured |= is_output;
                    let place = self.scope.place(&super::super::scope::normalise(&self.state.cwd, &target));
                    streams.saved |=
                        is_output && text.process.is_none() && place != super::super::scope::Place::Device;
                    if redirect.kind == RedirectKind::ReadWrite {
                        streams.input = Input::Unknown { hidden: false };
                    }
                }
            }
        }
        Ok(streams)
    }

    /// A command after expansion: a function, an alias, or a program.
    pub(super) fn command(&mut self, args: &[Arg], streams: &Streams) -> Result<Output, Excess> {
        self.step()?;
        let Some(first) = args.first() else { return Ok(Output::default()) };
        let function = self.state.functions.iter().find(|(name, _)| *name == first.text);
        if let Some(body) = function.map(|(_, body)| Rc::clone(body)) {
            let outer: Vec<String> = args[1..].iter().map(|arg| arg.text.clone()).collect();
            let before = std::mem::replace(&mut self.state.positional, outer);
            // A function that calls itself again adds nothing new.
            let functions = self.state.functions.clone();
            self.state.functions.retain(|(name, _)| *name != first.text);
            let result = self.deeper(|walk| walk.list(&body, streams));
            for known in functions {
                if !self.state.functions.iter().any(|(name, _)| *name == known.0) {
                    self.state.functions.push(known);
                }
            }
            self.state.positional = before;
            let output = result?;
            if super::super::tools::find(&first.text, &args[1..]).is_none() {
                return Ok(output);
            }
        }
        let alias = self.state.aliases.iter().find(|(name, _)| *name == first.text);
        if let Some(value) = alias.map(|(_, value)| value.clone()) {
            let mut line = value;
            for arg in &args[1..] {
                line.push(' ');
                line.push_str(&quoted(&arg.text));
            }
            let name = first.text.clone();
            let aliases = self.state.aliases.clone();
            self.state.aliases.retain(|(known, _)| *known != name);
            let result = self.text(&line, streams.clone());
            self.state.aliases = aliases;
            result?;
        }
        self.program(args, streams)
    }
}

/// What code that nobody can read may do.
pub(super) fn hidden_code() -> Categories {
    Categories::DESTRUCTIVE.and(Categories::HOST_ESCAPE_RISK)
}

/// Whether a program runs the text of its arguments.
fn runs_arguments(args: &[Arg]) -> bool {
    let name = args[0].text.rsplit('/').next().unwrap_or_default();
    matches!(
        name,
        "eval"
            | "sh"
            | "bash"
            | "dash"
            | "zsh"
            | "ksh"
            | "python"
            | "python3"
            | "node"
            | "perl"
            | "ruby"
            | "php"
    )
}

/// The command for the explanation.
pub(super) fn shown(args: &[Arg]) -> String {
    let mut text = String::new();
    for arg in args {
        if !text.is_empty() {
            text.push(' ');
        }
        if text.len() > 400 {
            break;
        }
        text.push_str(&arg.text);
    }
    text
}

/// A word that means exactly this text.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
