//! Shells and builtins that run or change what the shell does.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::simple::hidden_code;
use super::state::{Input, Streams, UNKNOWN, Walk};

impl Walk<'_> {
    /// `sh`, `bash` and others.
    pub(super) fn shell(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options_first();
        judged.add(options.adds, format!("{} is a shell", call.name));
        let mut certain = options.positional.iter().filter(|index| !call.args[**index].optional);
        if options.has("-c") {
            // Everything behind the code are its arguments.
            let Some(code) = options.positional.first() else { return Ok(()) };
            let line = call.text(*code).to_owned();
            if line.contains(UNKNOWN) && line.trim_matches(UNKNOWN).is_empty() {
                judged.add(Categories::MUTATING, "the code is not known before the command runs");
            }
            let before = self.state.clone();
            self.state.positional =
                options.positional.iter().skip(2).map(|index| call.text(*index).to_owned()).collect();
            let result = self.subshell(|walk| walk.text(&line, call.streams.clone()));
            self.state = before;
            result?;
        } else if let Some(script) =
            certain.next().filter(|index| !options.has("-s") && !is_stream(call.text(**index)))
        {
            self.judge_path(call.text(*script), false, judged);
            if options.is_harmless() {
                judged.add(Categories::READ_ONLY, "only checks the syntax of a script");
            } else {
                judged.add(Categories::MUTATING, "runs a script, which is not read");
            }
        } else {
            self.shell_input(call, judged)?;
        }
        Ok(())
    }

    /// A shell that reads its commands from standard input.
    fn shell_input(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        match &call.streams.input {
            Input::Text(text) => {
                judged.add(Categories::MUTATING, "runs its input as commands");
                let text = text.clone();
                self.subshell(|walk| {
                    walk.text(&text, Streams { captured: call.streams.captured, ..Streams::default() })
                })?;
            }
            Input::Unknown { hidden } => {
                judged.add(Categories::MUTATING, "runs its input as commands");
                for draft in std::mem::take(&mut self.drafts) {
                    self.subshell(|walk| {
                        walk.text(&draft, Streams { captured: true, ..Streams::default() })
                    })?;
                }
                if *hidden {
                    judged.add(hidden_code(), "runs commands that come out of a decoder");
                }
            }
            Input::Terminal => {
                judged.add(
                    Categories::INTERACTIVE.and(Categories::MUTATING),
                    "a shell without commands wants a terminal",
                );
            }
        }
        // `bash $(…)` runs a script if the substitution prints something.
        if !call.args.is_empty() && call.args.iter().any(|arg| arg.optional) {
            judged.add(Categories::MUTATING, "runs a script, which is not read");
        }
        Ok(())
    }

    /// `at` and `batch` run their input later.
    pub(super) fn later(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        if let Input::Text(text) = &call.streams.input {
            let text = text.clone();
            self.subshell(|walk| walk.text(&text, Streams::default()))?;
        }
        Ok(())
    }

    /// `set -- a b` and `shift`.
    pub(super) fn positional_parameters(&mut self, call: &Call<'_>, judged: &mut Judged) {
        judged.add(Categories::READ_ONLY, "sets options or arguments of the shell");
        let texts = || call.args.iter().map(|arg| arg.text.clone());
        if call.name == "shift" {
            let count = call.args.first().and_then(|arg| arg.text.parse().ok()).unwrap_or(1);
            let count = usize::min(count, self.state.positional.len());
            self.state.positional.drain(..count);
        } else if let Some(separator) = call.args.iter().position(|arg| arg.text == "--") {
            self.state.positional = texts().skip(separator + 1).collect();
        } else if call.args.first().is_some_and(|arg| !arg.text.starts_with(['-', '+'])) {
            self.state.positional = texts().collect();
        }
    }

    pub(super) fn eval(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let words: Vec<&str> = call.args.iter().map(|arg| arg.text.as_str()).collect();
        let line = words.join(" ");
        judged.add(Categories::READ_ONLY, "runs its arguments as a line");
        if line.contains(UNKNOWN) {
            judged.add(Categories::MUTATING, "the code is not known before the command runs");
        }
        self.text(&line, call.streams.clone())?;
        Ok(())
    }

    pub(super) fn source(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        judged.add(Categories::MUTATING, "runs a file in this shell, which is not read");
        let Some(file) = call.args.first() else { return Ok(()) };
        self.judge_path(&file.text, false, judged);
        match &call.streams.input {
            Input::Text(text) if is_stream(&file.text) => {
                let text = text.clone();
                self.text(&text, Streams::default())?;
            }
            Input::Unknown { hidden: true } if is_stream(&file.text) => {
                judged.add(hidden_code(), "runs commands that come out of a decoder");
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn cd(&mut self, call: &Call<'_>, judged: &mut Judged) {
        let target = call.args.iter().find(|arg| !arg.text.starts_with('-') || arg.text == "-");
        let before = self.state.cwd.clone();
        match target {
            None if call.name == "popd" => {
                if let Some(previous) = self.state.previous_cwd.clone() {
                    self.state.cwd = previous;
                }
            }
            None => {
                let home = self.scope.home().to_owned();
                self.judge_path(&home, false, judged);
                self.state.cwd = home;
            }
            Some(arg) if arg.text == "-" => {
                if let Some(previous) = self.state.previous_cwd.clone() {
                    self.state.cwd = previous;
                }
            }
            Some(arg) => {
                let path = arg.text.clone();
                self.judge_path(&path, false, judged);
                self.enter(&path);
            }
        }
        judged.add(Categories::READ_ONLY, format!("the directory is now {}", self.state.cwd));
        self.state.previous_cwd = Some(before);
    }

    /// `export`, `declare`, `local`: arguments that are assignments.
    pub(super) fn declare(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        judged.add(Categories::READ_ONLY, "sets variables of the shell");
        for arg in call.args {
            if let Some((name, value)) = arg.text.split_once('=') {
                let (name, value) = (name.to_owned(), value.to_owned());
                self.judge_variable(&name, &value, judged)?;
                self.set(&name, value);
            } else if call.name == "unset" {
                let name = arg.text.clone();
                self.set(&name, String::new());
            }
        }
        Ok(())
    }

    pub(super) fn alias(&mut self, call: &Call<'_>, judged: &mut Judged) {
        judged.add(Categories::READ_ONLY, "defines names for commands");
        for arg in call.args {
            if let Some((name, value)) = arg.text.split_once('=') {
                self.state.aliases.retain(|(known, _)| known != name);
                self.state.aliases.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    pub(super) fn trap(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        judged.add(Categories::READ_ONLY, "runs a line on a signal");
        match call.args.first() {
            Some(line) if !line.text.starts_with('-') && call.args.len() > 1 => {
                let line = line.text.clone();
                self.subshell(|walk| walk.text(&line, Streams::default()))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// `read`: asks a person if its input is the terminal.
    pub(super) fn ask(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        judged.add(Categories::READ_ONLY, "reads a line of input");
        let options = call.options();
        self.values(&options, judged)?;
        let line = match &call.streams.input {
            Input::Text(text) if call.name != "read" => Some(text.replace('\n', " ")),
            Input::Text(text) => text.lines().next().map(str::to_owned),
            _ => None,
        };
        let count = options.positional.len();
        let mut words: Vec<String> =
            line.iter().flat_map(|line| line.splitn(count.max(1), [' ', '\t']).map(str::to_owned)).collect();
        words.resize(count, if line.is_some() { String::new() } else { UNKNOWN.to_string() });
        if count == 0 {
            self.set("REPLY", line.unwrap_or_else(|| UNKNOWN.to_string()));
        }
        for (index, value) in options.positional.iter().zip(words) {
            let name = call.text(*index).to_owned();
            self.set(&name, value);
        }
        if matches!(call.streams.input, Input::Terminal) && !options.has("-u") {
            judged.add(Categories::INTERACTIVE, "asks for input from the terminal");
        }
        Ok(())
    }
}

/// A file that is standard input or the output of another command.
fn is_stream(path: &str) -> bool {
    path == "/dev/stdin" || path == "-" || path.starts_with("/dev/fd/")
}
