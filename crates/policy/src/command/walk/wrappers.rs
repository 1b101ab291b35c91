//! Programs that run other programs.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Arg, Input, Output, Streams, UNKNOWN, Walk};

/// Programs that fetch a package and run a program of it; its version may follow its name.
const FETCHING: &[&str] = &["npx", "bunx", "pnpx", "dlx", "npm", "pnpm", "yarn", "bun", "uvx", "uv", "pipx"];

impl Walk<'_> {
    /// A program that runs its arguments as a command, behind `skipped` arguments of its own.
    pub(super) fn wrapper(
        &mut self,
        call: &Call<'_>,
        skipped: usize,
        judged: &mut Judged,
    ) -> Result<Output, Excess> {
        let options = call.options_first();
        judged.add(
            options.leaves.unwrap_or(call.found.entry().effect).and(options.adds),
            format!("{} runs another command", call.name),
        );
        let before = self.state.clone();
        self.values(&options, judged)?;
        let mut rest: Vec<Arg> = options.positional.iter().map(|index| call.args[*index].clone()).collect();
        let is_login = matches!(call.name, "su" | "runuser");
        if is_login {
            rest.retain(|arg| arg.text != "-");
        }
        for arg in rest.drain(..skipped.min(rest.len())) {
            // `chroot DIR`, `flock FILE`: paths; `timeout 5`: not.
            self.judge_argument(&arg.text, false, judged);
        }
        if call.name == "command" && options.has("-v") {
            return Ok(rest
                .first()
                .map_or_else(Output::default, |program| Output::known(program.text.clone())));
        }
        let takes_line = matches!(call.name, "flock" | "su" | "runuser" | "script");
        if takes_line && rest.first().is_some_and(|arg| matches!(arg.text.as_str(), "-c" | "--command")) {
            // These take flags behind their first argument.
            let line = rest.get(1).map(|arg| arg.text.clone()).unwrap_or_default();
            return self.subshell(|walk| walk.text(&line, call.streams.clone()));
        }
        // What follows the user are arguments of the login shell.
        if is_login && !options.has("-c") && call.name == "su" {
            rest.clear();
        }
        let is_env = matches!(
            call.name,
            "env" | "sudo" | "doas" | "exec" | "command" | "cross-env" | "env-cmd" | "dotenv"
        );
        while is_env && rest.first().is_some_and(|arg| is_setting(&arg.text) || arg.text == "--") {
            let arg = rest.remove(0);
            if let Some((name, value)) = arg.text.split_once('=') {
                self.judge_variable(name, value, judged)?;
            }
        }
        if options.has("-c")
            && matches!(call.name, "su" | "runuser" | "script" | "flock" | "watch" | "unbuffer")
        {
            rest.clear();
        }
        // `npx rimraf@5 dist`.
        if let Some(package) = rest.first_mut()
            && FETCHING.contains(&call.name)
            && let Some(end) = package.text.char_indices().skip(1).find(|(_, letter)| *letter == '@')
        {
            package.text.truncate(end.0);
        }
        let joins = matches!(
            call.name,
            "watch" | "entr" | "parallel" | "concurrently" | "nodemon" | "reflex" | "ssh-agent"
        ) || (call.name == "flock" && rest.len() == 1);
        let output = if rest.is_empty() {
            self.without_command(call, options.has("-c"), judged);
            Ok(Output::default())
        } else if joins && rest.len() == 1 {
            let line = rest[0].text.clone();
            self.text(&line, call.streams.clone())
        } else {
            self.deeper(|walk| walk.command(&rest, call.streams))
        };
        self.state = before;
        output
    }

    /// A wrapper without a command: some open a shell.
    fn without_command(&mut self, call: &Call<'_>, has_line: bool, judged: &mut Judged) {
        let opens_shell = matches!(
            call.name,
            "su" | "chroot"
                | "unshare"
                | "nsenter"
                | "script"
                | "sg"
                | "newgrp"
                | "runuser"
                | "bwrap"
                | "firejail"
        );
        let asks =
            call.args.iter().any(|arg| matches!(arg.text.as_str(), "-i" | "-s" | "--login" | "--shell"));
        let is_sudo = matches!(call.name, "sudo" | "doas");
        if !has_line && (opens_shell || is_sudo && asks) {
            let effect = Categories::INTERACTIVE.and(Categories::MUTATING);
            judged.add(effect, format!("{} without a command opens a shell", call.name));
        }
    }

    /// `xargs`: the command gets arguments from standard input.
    pub(super) fn xargs(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options_first();
        judged.add(call.found.entry().effect.and(options.adds), "xargs runs a command on its input");
        self.values(&options, judged)?;
        let mut rest: Vec<Arg> = options.positional.iter().map(|index| call.args[*index].clone()).collect();
        let items: Vec<String> = match &call.streams.input {
            Input::Text(text) => text.split_whitespace().take(64).map(str::to_owned).collect(),
            _ => vec![UNKNOWN.to_string()],
        };
        if rest.is_empty() && call.name == "parallel" {
            judged.add(Categories::MUTATING, "runs the lines of its input");
            if let Input::Text(text) = &call.streams.input {
                let text = text.clone();
                self.subshell(|walk| walk.text(&text, Streams::default()))?;
            }
        }
        if rest.is_empty() {
            rest.push(Arg::known("echo"));
        }
        let replaced = options.value("-I").or(options.value("-i")).or(options.value("-J")).map(str::to_owned);
        let is_parallel = call.name == "parallel";
        let replaced = replaced.or(is_parallel.then(|| "{}".to_owned()));
        let streams = Streams {
            input: Input::Unknown { hidden: false },
            captured: call.streams.captured,
            saved: false,
        };
        let commands: Vec<Vec<Arg>> = match replaced {
            Some(mark) if rest.iter().any(|arg| arg.text.contains(&mark)) => items
                .iter()
                .map(|item| {
                    let fill = |arg: &Arg| Arg { text: arg.text.replace(&mark, item), ..arg.clone() };
                    rest.iter().map(fill).collect()
                })
                .collect(),
            _ => {
                rest.extend(items.into_iter().map(|text| Arg {
                    optional: text == UNKNOWN.to_string(),
                    text,
                    is_pattern: false,
                }));
                vec![rest]
            }
        };
        for command in commands {
            if is_parallel {
                let words: Vec<&str> =
                    command.iter().map(|arg| arg.text.as_str()).take_while(|word| *word != ":::").collect();
                let line = words.join(" ");
                self.subshell(|walk| walk.text(&line, streams.clone()))?;
            } else {
                self.subshell(|walk| walk.command(&command, &streams))?;
            }
        }
        Ok(())
    }
}

/// `NAME=value` before the command of `env`.
fn is_setting(text: &str) -> bool {
    let Some((name, _)) = text.split_once('=') else { return false };
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == 0)
}
