//! Interpreters of other languages.

use super::super::Categories;
use super::super::shell::Excess;
use super::super::tools::{Kind, find};
use super::call::Call;
use super::code::literals;
use super::harmless::{Language, only_prints};
use super::judged::Judged;
use super::names::PERL_MODULES;
use super::simple::hidden_code;
use super::state::{Arg, Input, Walk};

/// How much code in other languages is read in one line.
const MAX_PROGRAMS: usize = 8 * 1024;

impl Walk<'_> {
    pub(super) fn interpreter(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options_first();
        if options.is_harmless() {
            judged.add(Categories::READ_ONLY, format!("{} prints its version or checks syntax", call.name));
            for index in &options.positional {
                self.judge_argument(call.text(*index), false, judged);
            }
            return Ok(());
        }
        judged.add(options.adds, format!("{} with these flags", call.name));
        let mut has_code = false;
        for (name, kind, value) in &options.values {
            if *kind == Kind::Code {
                has_code = true;
                if self.harmless_code(call, value, judged) {
                    continue;
                }
                judged.add(Categories::MUTATING, format!("runs code given to {name}"));
            }
            if *name == "-m" && call.name.starts_with(['p', 'P']) {
                let module = value.clone();
                return self.module(call, &module, &options.positional, judged);
            }
            self.judge_kind(*kind, value, judged)?;
        }
        let mut rest = options.positional.iter();
        if !has_code {
            let script = rest.clone().find(|index| !call.args[**index].optional);
            match script.map(|index| call.text(*index)) {
                Some(script) if matches!(script, "-" | "/dev/stdin") || script.starts_with("/dev/fd/") => {
                    rest.next();
                    self.interpreter_input(call, judged)?;
                }
                Some(script) => {
                    judged.add(Categories::MUTATING, format!("runs {script}, which is not read"));
                    let name = script.rsplit('/').next().unwrap_or_default();
                    if script == "inspect" && matches!(call.name, "node" | "nodejs") {
                        judged.add(Categories::INTERACTIVE, "a debugger wants a terminal");
                    }
                    let installs =
                        call.args.iter().any(|arg| matches!(arg.text.as_str(), "install" | "develop"));
                    if name == "setup.py" && installs {
                        judged.add(Categories::HOST_ESCAPE_RISK, "install usually writes to the system");
                    }
                    if matches!(name, "manage.py" | "artisan" | "rails") {
                        let mut command = vec![Arg::known(name)];
                        command.extend(rest.clone().skip(1).map(|index| call.args[*index].clone()));
                        self.deeper(|walk| walk.program(&command, call.streams))?;
                    }
                }
                None if options.adds.has(super::super::Category::Networked) => {
                    judged.add(Categories::MUTATING, "serves code of the project");
                }
                None => self.interpreter_input(call, judged)?,
            }
        }
        self.script_arguments(call, rest.as_slice(), judged);
        if judged.categories.has(super::super::Category::HostEscapeRisk) {
            judged.add(Categories::MUTATING, "code works on files outside");
        }
        Ok(())
    }

    /// Whether a program only computes and prints; the files that it names are judged.
    fn harmless_code(&mut self, call: &Call<'_>, code: &str, judged: &mut Judged) -> bool {
        let Some(language) = Language::of(call.name) else { return false };
        // Many long programs in one line would take long.
        self.programs_read = self.programs_read.saturating_add(code.len());
        if self.programs_read > MAX_PROGRAMS {
            return false;
        }
        // Perl opens arguments such as `command|` as commands.
        let opens = |text: &str| text.starts_with(['>', '|']) || text.ends_with('|');
        let is_harmless = only_prints(language, code)
            && !(language == Language::Perl
                && call.args.iter().any(|arg| opens(&arg.text) || loads_unknown(&arg.text)))
            && !(language == Language::Lua && call.args.iter().any(|arg| arg.text.starts_with("-l")));
        if !is_harmless {
            return false;
        }
        // Files outside count as they do for code that is not followed.
        let is_path = |text: &str| text.starts_with(['/', '~']) || text.starts_with("..");
        if literals(code).iter().any(|literal| is_path(&literal.text)) {
            return false;
        }
        judged.add(Categories::READ_ONLY, "only computes and prints");
        true
    }

    fn script_arguments(&mut self, call: &Call<'_>, indices: &[usize], judged: &mut Judged) {
        for index in indices {
            if self.judge_argument(call.text(*index), false, judged) {
                judged.add(Categories::NETWORKED, "a URL is given to a script");
            }
        }
    }

    /// An interpreter that reads its code from standard input.
    fn interpreter_input(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        match &call.streams.input {
            Input::Text(text) if self.harmless_code(call, text, judged) => {}
            Input::Text(text) => {
                judged.add(Categories::MUTATING, "runs its input as code");
                let text = text.clone();
                self.code(&text, judged)?;
            }
            Input::Unknown { hidden } => {
                judged.add(Categories::MUTATING, "runs its input as code");
                if *hidden {
                    judged.add(hidden_code(), "runs code that comes out of a decoder");
                }
            }
            Input::Terminal => {
                let effect = Categories::INTERACTIVE.and(Categories::MUTATING);
                judged.add(effect, format!("{} without a script wants a terminal", call.name));
            }
        }
        Ok(())
    }

    /// `python -m MODULE`.
    fn module(
        &mut self,
        call: &Call<'_>,
        module: &str,
        rest: &[usize],
        judged: &mut Judged,
    ) -> Result<(), Excess> {
        let args: Vec<Arg> = rest.iter().map(|index| call.args[*index].clone()).collect();
        let effect = match module {
            "json.tool" | "this" | "site" | "platform" | "tabnanny" | "tokenize" | "dis" | "ast"
            | "calendar" | "sysconfig" => {
                let count = args.iter().filter(|arg| !arg.text.starts_with('-')).count();
                if module == "json.tool" && count > 1 { Categories::MUTATING } else { Categories::READ_ONLY }
            }
            "http.server" | "SimpleHTTPServer" | "ensurepip" | "smtpd" | "ftplib" | "telnetlib" => {
                Categories::NETWORKED.and(Categories::MUTATING)
            }
            "pdb" | "idlelib" | "code" => Categories::INTERACTIVE.and(Categories::MUTATING),
            "zipfile" | "tarfile"
                if args
                    .first()
                    .is_some_and(|arg| matches!(arg.text.as_str(), "-l" | "-t" | "--list" | "--test")) =>
            {
                Categories::READ_ONLY
            }
            known => {
                let program = known.split('.').next().unwrap_or(known).to_ascii_lowercase();
                let program = program.as_str();
                if find(program, &args).is_some() && !matches!(program, "test" | "time" | "site" | "code") {
                    let mut command = vec![Arg::known(program)];
                    command.extend(args);
                    self.deeper(|walk| walk.program(&command, call.streams))?;
                    return Ok(());
                }
                Categories::MUTATING
            }
        };
        judged.add(effect, format!("runs the module {module}"));
        self.script_arguments(call, rest, judged);
        Ok(())
    }
}

/// Whether a flag of Perl loads a module that may do anything.
fn loads_unknown(flag: &str) -> bool {
    let Some(module) = flag.strip_prefix("-M").or_else(|| flag.strip_prefix("-m")) else {
        return flag.starts_with("-I");
    };
    let name = module.split('=').next().unwrap_or_default();
    !PERL_MODULES.contains(&name) || module.contains([';', '(', '{'])
}
