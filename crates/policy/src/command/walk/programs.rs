//! Programs: those in the tables, and all others.

use super::super::Categories;
use super::super::shell::Excess;
use super::super::tools::{Found, Kind, Options, find};
use super::call::Call;
use super::judged::Judged;
use super::scripts::deletes;
use super::state::{Arg, Output, Streams, UNKNOWN, Walk};

/// Programs that count if they are an argument of a program that is in no table.
const RISKY: &[&str] = &[
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "mv",
    "dd",
    "truncate",
    "mkfs",
    "curl",
    "wget",
    "ssh",
    "scp",
    "rsync",
    "nc",
    "ncat",
    "sudo",
    "doas",
    "chmod",
    "chown",
    "tee",
    "git",
    "npm",
    "npx",
    "pip",
    "docker",
    "kubectl",
    "apt",
    "apt-get",
    "mount",
    "umount",
    "chroot",
    "systemctl",
    "find",
    "xargs",
    "eval",
];

impl Walk<'_> {
    /// Judges a program with its arguments.
    pub(super) fn program(&mut self, args: &[Arg], streams: &Streams) -> Result<Output, Excess> {
        let Some(first) = args.first() else { return Ok(Output::default()) };
        let name = first.text.rsplit('/').next().unwrap_or_default();
        let mut judged = Judged::default();
        let is_guess = name.contains(UNKNOWN);
        let known_part: String;
        let name = match is_guess {
            true => {
                judged.add(Categories::MUTATING, "the program is not known before the command runs");
                known_part = name.replace(UNKNOWN, "");
                known_part.as_str()
            }
            false => name,
        };
        if name.contains(['*', '?', '[']) && name != "[" && name != "[[" {
            let hidden = super::simple::hidden_code();
            judged.add(hidden.and(Categories::NETWORKED), "the program is given by a pattern of its name");
        }
        let rest = &args[1..];
        if ["/etc/init.d/", "/etc/rc.d/"].iter().any(|place| first.text.starts_with(place)) {
            judged.add(Categories::HOST_ESCAPE_RISK, "controls a service of the host");
        }
        let found = if name.is_empty() { None } else { find(name, rest) };
        let is_local = self.is_project_script(&first.text);
        let output = match found {
            Some(found) if !is_local => {
                let call = Call { name, args: rest, found: &found, streams };
                let output = self.known(&call, &mut judged)?;
                let is_plain = judged.categories.is_read_only() && found.tool.subcommands.is_empty();
                let asks =
                    rest.iter().any(|arg| matches!(arg.text.as_str(), "--version" | "--help" | "-V" | "-v"));
                if is_plain && !asks && self.is_own(&first.text) {
                    judged.add(Categories::MUTATING, "a program of the workspace with a known name");
                }
                output
            }
            _ => {
                self.unknown(name, rest, streams, &mut judged)?;
                Output::default()
            }
        };
        self.record(judged.program_step(name, args));
        Ok(output)
    }

    /// Whether a path leads to a script of the workspace that only has the name of a known program. Directories called
    /// `bin` hold the programs of environments, such as `.venv/bin/pip` and `node_modules/.bin/tsc`.
    fn is_project_script(&self, path: &str) -> bool {
        let Some((directory, name)) = path.rsplit_once('/') else { return false };
        let is_environment = matches!(directory.rsplit('/').next(), Some("bin" | ".bin" | "Scripts"));
        let is_wrapper = matches!(name, "gradlew" | "mvnw" | "configure" | "manage.py" | "artisan");
        self.is_own(path) && !is_environment && !is_wrapper
    }

    /// Whether the path of a program leads into the workspace.
    fn is_own(&self, path: &str) -> bool {
        let place = self.scope.place(&super::super::scope::normalise(&self.state.cwd, path));
        path.contains('/')
            && matches!(place, super::super::scope::Place::Workspace | super::super::scope::Place::Scratch)
            && !self.scope.is_machine()
    }

    /// A program that is in the tables.
    fn known(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<Output, Excess> {
        if asks_for_help(call) {
            judged.add(Categories::READ_ONLY, "prints its help or version");
            return Ok(Output::default());
        }
        let handler = call.found.entry().handler.or(call.found.tool.entry.handler);
        match handler {
            Some(handler) => self.handle(handler, call, judged),
            None => {
                self.by_table(call, judged)?;
                Ok(Output::default())
            }
        }
    }

    /// Judges a program by its row alone.
    pub(super) fn by_table(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        self.effects(call, &options, judged);
        let entry = call.found.entry();
        let changes_services = entry.effect.covers(Categories::MUTATING)
            && entry.effect.without(Categories::MUTATING) != Categories::READ_ONLY;
        let is_open = changes_services || call.found.subcommand() == Some("*");
        let words = call.positional(&options).into_iter().take(4);
        let flags = options.unknown.iter().map(|arg| arg.text.as_str());
        if is_open && !options.is_harmless() && words.chain(flags).any(deletes) {
            judged.add(Categories::DESTRUCTIVE, format!("{} is asked to delete", call.name));
        }
        let cwd = self.state.cwd.clone();
        self.values(&options, judged)?;
        self.arguments(call, &options, judged)?;
        self.state.cwd = cwd;
        Ok(())
    }

    /// The effects of the row and its flags.
    pub(super) fn effects(&mut self, call: &Call<'_>, options: &Options<'_>, judged: &mut Judged) {
        let entry = call.found.entry();
        let what = match call.found.subcommand() {
            Some("-") | None => call.name.to_owned(),
            Some("*") => format!("{} with this subcommand", call.name),
            Some(subcommand) => format!("{} {}", call.name, subcommand.replace('/', " ")),
        };
        let count = options.positional.iter().filter(|index| !call.args[**index].optional).count();
        if let Some((_, effect)) = entry.with_more.filter(|(most, _)| count > *most) {
            judged.add(effect, format!("{what} with an argument changes a setting"));
        }
        let is_bare = call.args.is_empty() && entry.bare_is_harmless;
        if let Some(left) = options.leaves.or(is_bare.then_some(Categories::READ_ONLY)) {
            let left = left.and(options.insists);
            judged.add(left, format!("{what} with these flags is {left}"));
            return;
        }
        if let Some((_, effect)) = entry.with_fewer.filter(|(least, _)| count < *least) {
            judged.add(effect, format!("{what} chooses a file of its own"));
        }
        if !entry.with_setting.is_read_only() && call.args.iter().any(|arg| arg.text.contains('=')) {
            judged.add(entry.with_setting, format!("{what} with NAME=VALUE changes a setting"));
        }
        judged.add(entry.effect.and(options.adds), format!("{what} is {}", entry.effect.and(options.adds)));
        if call.found.is_strange && call.found.subcommand.is_none() {
            judged.add(Categories::MUTATING, format!("{} has no such subcommand in the tables", call.name));
        }
    }

    /// The values of flags.
    pub(super) fn values(&mut self, options: &Options<'_>, judged: &mut Judged) -> Result<(), Excess> {
        for (_, kind, value) in &options.values {
            self.judge_kind(*kind, value, judged)?;
        }
        for flag in &options.unknown {
            self.judge_argument(&flag.text, false, judged);
        }
        Ok(())
    }

    /// The positional arguments, by the kinds of the row.
    pub(super) fn arguments(
        &mut self,
        call: &Call<'_>,
        options: &Options<'_>,
        judged: &mut Judged,
    ) -> Result<(), Excess> {
        let entry = call.found.entry();
        let kinds = match entry.first_is_given_by.iter().any(|flag| options.has(flag)) {
            true => entry.args.get(1..).unwrap_or_default(),
            false => entry.args.as_slice(),
        };
        let count = options.positional.len();
        for (number, index) in options.positional.iter().enumerate() {
            // `args=read,write` of two kinds ending in `write` means: the last argument is written.
            let kind = match kinds {
                [] => Kind::Read,
                [Kind::Read, Kind::Write] if number + 1 < count || count == 1 => Kind::Read,
                [Kind::Read, Kind::Write] if entry.effect.is_read_only() => Kind::Output,
                [Kind::Read, Kind::Write] => Kind::Write,
                kinds => kinds[number.min(kinds.len() - 1)],
            };
            self.judge_kind(kind, call.text(*index), judged)?;
        }
        Ok(())
    }

    pub(super) fn judge_kind(&mut self, kind: Kind, text: &str, judged: &mut Judged) -> Result<(), Excess> {
        match kind {
            Kind::Text => {}
            Kind::Read => {
                self.judge_argument(text, false, judged);
            }
            Kind::Write => {
                self.judge_argument(text, true, judged);
            }
            Kind::Output => self.judge_written(text, judged),
            Kind::Directory => {
                let writes = judged.categories.has(super::super::Category::Mutating);
                self.judge_path(text, writes, judged);
                self.enter(text);
            }
            Kind::Shell => {
                self.subshell(|walk| walk.text(text, Streams { captured: true, ..Streams::default() }))?;
            }
            Kind::Code => self.code(text, judged)?,
            Kind::Sql => self.sql(text, judged)?,
            Kind::Sed => self.sed(text, judged)?,
            Kind::Awk => self.awk(text, judged)?,
        }
        Ok(())
    }

    /// A program that is in no table: it may do anything with its arguments.
    pub(super) fn unknown(
        &mut self,
        name: &str,
        args: &[Arg],
        streams: &Streams,
        judged: &mut Judged,
    ) -> Result<(), Excess> {
        judged.add(Categories::MUTATING, format!("{name} is not in the tables"));
        let mut is_networked = false;
        for arg in args {
            is_networked |= self.judge_argument(&arg.text, false, judged);
            let asks = matches!(arg.text.as_str(), "-rf" | "-fr" | "-Rf" | "-fR" | "--hard");
            if asks || deletes(&arg.text) {
                judged.add(Categories::DESTRUCTIVE, format!("{} asks a program to delete", arg.text));
            }
        }
        if deletes(name) {
            judged.add(Categories::DESTRUCTIVE, format!("{name} sounds as if it deletes"));
        }
        // It may be a wrapper.
        let command = args.iter().take(16).position(|arg| RISKY.contains(&arg.text.as_str()));
        if let Some(start) = command {
            self.deeper(|walk| walk.command(&args[start..], streams))?;
        }
        if is_networked {
            judged.add(Categories::NETWORKED, "a URL is given to a program that is not in the tables");
        }
        if let super::state::Input::Text(text) = &streams.input {
            let text = text.clone();
            self.code(&text, judged)?;
        }
        Ok(())
    }

    /// Follows a change of directory as far as it is literal.
    pub(super) fn enter(&mut self, path: &str) {
        let next = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{}{rest}", self.scope.home()),
            _ => path.to_owned(),
        };
        self.state.cwd = super::super::scope::normalise(&self.state.cwd, &next);
    }
}

/// `--help` and `--version` of programs that are in the tables, unless they would run something else with them.
fn asks_for_help(call: &Call<'_>) -> bool {
    let certain = |arg: &&Arg| !arg.optional;
    let Some(last) = call.args.last().filter(certain) else { return false };
    if call.args.iter().any(|arg| arg.text == "--") {
        return false;
    }
    let runs_others =
        matches!(call.name, "echo" | "printf" | "eval" | "exec" | "command" | "test" | "[" | "source" | ".");
    let asks = |text: &str| matches!(text, "--help" | "--version" | "-help");
    if runs_others || !(asks(&last.text) || call.args.first().is_some_and(|first| asks(&first.text))) {
        return false;
    }
    // Only flags and words of the subcommand stand before it, and nothing that could be a command of its own.
    let handler = call.found.entry().handler.or(call.found.tool.entry.handler);
    let runs_code = matches!(call.name, "java" | "javaw")
        || call
            .args
            .first()
            .is_some_and(|arg| matches!(arg.text.as_str(), "run" | "exec" | "r" | "x" | "test" | "eval"));
    let count = call.args.iter().filter(|arg| !arg.text.starts_with('-')).count();
    count <= words(call.found) || handler.is_none() && !runs_code
}

fn words(found: &Found) -> usize {
    found.subcommand().map_or(0, |name| if name == "-" { 0 } else { name.split('/').count() })
}
