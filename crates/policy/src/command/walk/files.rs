//! `find`, `tar`, `dd`, and copies between hosts.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Arg, Input, Streams, Walk};

impl Walk<'_> {
    pub(super) fn find_files(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        judged.add(Categories::READ_ONLY, "finds files");
        let mut at = 0;
        let mut in_paths = true;
        while at < call.args.len() {
            let word = call.text(at);
            at += 1;
            if in_paths && !word.starts_with('-') && !matches!(word, "(" | "!" | ")" | ",") {
                self.judge_argument(word, false, judged);
                continue;
            }
            in_paths &= matches!(word, "-H" | "-L" | "-P" | "-E" | "-X" | "-x");
            match word {
                "-delete" => judged.add(Categories::DESTRUCTIVE, "find deletes what it finds"),
                "-exec" | "-execdir" | "-ok" | "-okdir" => {
                    if word.starts_with("-ok") {
                        judged.add(Categories::INTERACTIVE, "find asks before each command");
                    }
                    let rest = &call.args[at..];
                    let length = rest
                        .iter()
                        .position(|arg| matches!(arg.text.as_str(), ";" | "+"))
                        .unwrap_or(rest.len());
                    let command: Vec<Arg> = rest[..length].to_vec();
                    let streams =
                        Streams { input: Input::Unknown { hidden: false }, captured: true, saved: false };
                    self.subshell(|walk| walk.command(&command, &streams))?;
                    at += length + 1;
                }
                "-fprint" | "-fprint0" | "-fls" | "-fprintf" => {
                    if let Some(file) = call.args.get(at) {
                        let file = file.text.clone();
                        self.judge_written(&file, judged);
                    }
                    at += 1;
                }
                "-newer" | "-anewer" | "-cnewer" | "-samefile" | "-files0-from" => {
                    if let Some(file) = call.args.get(at) {
                        let file = file.text.clone();
                        self.judge_path(&file, false, judged);
                    }
                    at += 1;
                }
                "-f" => in_paths = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// `fd … -x COMMAND` runs a command on what it finds.
    pub(super) fn find_simple(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let runs = |text: &str| matches!(text, "-x" | "--exec" | "-X" | "--exec-batch");
        let mut own: Vec<Arg> = Vec::new();
        let mut rest = call.args;
        while let Some(start) = rest.iter().position(|arg| runs(&arg.text)) {
            own.extend_from_slice(&rest[..start]);
            let behind = &rest[start + 1..];
            let length = behind.iter().position(|arg| arg.text == ";").unwrap_or(behind.len());
            let streams = Streams { input: Input::Unknown { hidden: false }, captured: true, saved: false };
            self.subshell(|walk| walk.command(&behind[..length], &streams))?;
            rest = behind.get(length + 1..).unwrap_or_default();
        }
        own.extend_from_slice(rest);
        self.by_table(&Call { args: &own, ..*call }, judged)
    }

    /// `cp /dev/null FILE` empties the file.
    pub(super) fn copy(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        if call.args.iter().any(|arg| arg.text == "/dev/null") {
            judged.add(Categories::DESTRUCTIVE, "empties a file");
        }
        Ok(())
    }

    /// `ar d` and `ar m` take members out; `ar t` and `ar p` only read.
    pub(super) fn archive(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let operation = call.args.first().map_or("", |arg| arg.text.trim_start_matches('-'));
        if operation.starts_with(['t', 'p']) {
            judged.add(Categories::READ_ONLY, "lists an archive");
            for arg in &call.args[1..] {
                self.judge_argument(&arg.text, false, judged);
            }
            return Ok(());
        }
        self.by_table(call, judged)?;
        if operation.starts_with('d') {
            judged.add(Categories::DESTRUCTIVE, "deletes members of an archive");
        }
        Ok(())
    }

    /// `mount HOST:/DIRECTORY DIRECTORY` uses the network.
    pub(super) fn mount(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        let options = call.options();
        let is_remote = |text: &str| {
            text.starts_with("//")
                || text.contains(":/")
                || text.starts_with("nfs")
                || text.starts_with("cifs")
        };
        let kind = options.value("-t").unwrap_or_default();
        if is_remote(kind) || call.positional(&options).iter().any(|word| is_remote(word)) {
            judged.add(Categories::NETWORKED, "mounts a directory of another host");
        }
        Ok(())
    }

    pub(super) fn dd(&mut self, call: &Call<'_>, judged: &mut Judged) {
        judged.add(Categories::READ_ONLY, "copies blocks");
        for arg in call.args {
            match arg.text.split_once('=') {
                Some(("of", file)) => {
                    let before = judged.categories;
                    self.judge_written(file, judged);
                    if judged.categories != before {
                        judged.add(Categories::DESTRUCTIVE, format!("overwrites {file}"));
                    }
                }
                Some(("if", file)) => self.judge_path(file, false, judged),
                _ => {}
            }
        }
    }

    pub(super) fn tar(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        // `tar xzf FILE` is `tar -x -z -f FILE`.
        let mut args = call.args.to_vec();
        let is_old = args.first().is_some_and(|arg| {
            !arg.text.starts_with('-')
                && !arg.text.is_empty()
                && arg.text.bytes().all(|byte| byte.is_ascii_alphabetic())
        });
        if is_old {
            args[0].text.insert(0, '-');
        }
        let call = Call { args: &args, ..*call };
        let options = call.options();
        judged.add(options.adds, format!("{} with archives", call.name));
        let before = self.state.cwd.clone();
        let lists = options.has("-t") || options.has("-d");
        let creates = options.has("-c") || options.has("-r");
        let archive = options.value("-f").unwrap_or("-").to_owned();
        let is_remote = archive.split_once(':').is_some_and(|(host, _)| !host.contains('/'))
            && !options.has("--force-local");
        if is_remote {
            judged.add(Categories::NETWORKED, "the archive is on another host");
        } else if creates {
            self.judge_written(&archive, judged);
        } else {
            self.judge_path(&archive, false, judged);
        }
        let extracts = options.has("-x");
        for (name, kind, value) in &options.values {
            match *name {
                "-f" => {}
                "-C" if extracts => {
                    self.judge_path(value, true, judged);
                    self.enter(value);
                }
                _ => self.judge_kind(*kind, value, judged)?,
            }
        }
        if extracts && !options.has("-O") {
            judged.add(Categories::MUTATING, "extracts files");
        }
        if creates || lists {
            for index in &options.positional {
                self.judge_argument(call.text(*index), false, judged);
            }
        }
        if !lists && !creates && !extracts {
            judged.add(Categories::MUTATING, "it is not clear what is done with the archive");
        }
        for flag in &options.unknown {
            let runs =
                ["--checkpoint-action", "--to-command", "--rmt-command", "--rsh-command", "--info-script"];
            if runs.iter().any(|known| flag.text.starts_with(known)) {
                judged.add(Categories::MUTATING, "runs another command");
                if let Some((_, line)) = flag.text.split_once('=') {
                    let line = line.strip_prefix("exec=").unwrap_or(line).to_owned();
                    self.subshell(|walk| walk.text(&line, Streams::default()))?;
                }
            } else {
                self.judge_argument(&flag.text, false, judged);
            }
        }
        self.state.cwd = before;
        Ok(())
    }

    /// `rsync`, `scp` and others: networked if one side is another host.
    pub(super) fn remote(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        if options.is_harmless() {
            judged.add(Categories::READ_ONLY, "only shows what it would do");
        } else {
            judged.add(call.found.entry().effect.and(options.adds), format!("{} copies files", call.name));
        }
        self.values(&options, judged)?;
        if let Some(line) = options.value("-e").filter(|line| !line.starts_with("ssh")).map(str::to_owned) {
            judged.add(Categories::MUTATING, "runs another command for the connection");
            self.subshell(|walk| walk.text(&line, Streams::default()))?;
        }
        let count = options.positional.len();
        let mut is_remote = false;
        for (number, index) in options.positional.iter().enumerate() {
            let text = call.text(*index);
            let host = text.split_once(':').is_some_and(|(host, _)| !host.contains('/') && !host.is_empty());
            if host || text.contains("://") {
                is_remote = true;
            } else {
                self.judge_argument(text, number + 1 == count && count > 1, judged);
            }
        }
        if is_remote {
            judged.add(Categories::NETWORKED, "one side is another host");
        }
        Ok(())
    }
}
