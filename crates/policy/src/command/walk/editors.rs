//! Programs with commands of their own, some of which run others: editors, debuggers, and generators of keys.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Input, Streams, Walk};

impl Walk<'_> {
    /// `vim -c ':!rm x'`, `gdb -ex 'shell rm x'`, `ed FILE <<< '!rm x'`.
    pub(super) fn editor(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        let mut lines: Vec<String> = call.args.iter().map(|arg| arg.text.clone()).collect();
        if let Input::Text(text) = &call.streams.input {
            lines.extend(text.lines().map(str::to_owned));
        }
        for line in lines {
            self.editor_command(&line, judged)?;
        }
        Ok(())
    }

    /// A command of an editor, debugger or pager: what stands behind `!` or `shell` is run.
    pub(super) fn editor_command(&mut self, text: &str, judged: &mut Judged) -> Result<(), Excess> {
        let inner = text.trim_start_matches(['+', ':', '%', ' ']);
        let run = match inner.split_once('!') {
            Some((_, run)) if !run.starts_with(['=', '<', '>']) && !run.is_empty() => Some(run),
            _ => ["shell ", "pipe ", "make ", "terminal ", "term "]
                .iter()
                .find_map(|word| inner.strip_prefix(word)),
        };
        if let Some(run) = run {
            judged.add(Categories::MUTATING, "runs another command");
            let run = run.to_owned();
            self.subshell(|walk| walk.text(&run, Streams { captured: true, ..Streams::default() }))?;
        } else if [
            "system(",
            "delete(",
            "rename(",
            "writefile(",
            "python",
            "lua ",
            "perl ",
            "ruby ",
            "(shell-",
        ]
        .iter()
        .any(|word| inner.contains(word))
        {
            self.code(inner, judged)?;
        }
        Ok(())
    }

    /// `ssh-keygen` without a file and a password asks for them.
    pub(super) fn keygen(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        let options = call.options();
        let makes_key = !options.is_harmless() && !options.has("-R");
        if makes_key && !options.has("-N") {
            judged.add(Categories::INTERACTIVE, "asks for a password");
        }
        if makes_key && !options.has("-f") {
            judged.add(Categories::HOST_ESCAPE_RISK, "the keys of the caller are in the home directory");
        }
        Ok(())
    }
}
