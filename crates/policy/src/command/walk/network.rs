//! `curl`, `wget` and `ssh`.

use super::super::Categories;
use super::super::shell::Excess;
use super::call::Call;
use super::judged::Judged;
use super::state::{Input, Streams, UNKNOWN, Walk};

impl Walk<'_> {
    /// Transfers of URLs. The rows say which flags write files or send data.
    pub(super) fn curl(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options();
        if options.is_harmless() {
            judged.add(Categories::READ_ONLY, format!("{} prints its help or version", call.name));
            return Ok(());
        }
        let mut is_local = !options.positional.is_empty();
        for index in &options.positional {
            let url = call.text(*index);
            match url.strip_prefix("file://") {
                Some(path) => self.judge_path(path, false, judged),
                None => is_local = false,
            }
        }
        if !is_local {
            judged.add(Categories::NETWORKED, format!("{} transfers a URL", call.name));
        }
        let sends_as_query = options.has("-G");
        let adds = match sends_as_query {
            true => options.adds.without(Categories::MUTATING),
            false => options.adds,
        };
        judged.add(adds, format!("{} with these flags", call.name));
        let mut saves = call.found.entry().effect.has(super::super::Category::Mutating);
        for (name, kind, value) in &options.values {
            match *name {
                "-X" => match value.to_ascii_uppercase().as_str() {
                    "GET" | "HEAD" | "OPTIONS" | "TRACE" => {}
                    "DELETE" => judged.add(Categories::DESTRUCTIVE, "asks a server to delete"),
                    _ => judged.add(Categories::MUTATING, "sends a request that changes something"),
                },
                "-o" | "-O" => {
                    saves = false;
                    self.judge_written(value, judged);
                }
                _ if value.starts_with('@') => self.judge_path(&value[1..], false, judged),
                // `-F name=@file`.
                _ if value.contains("=@") || value.contains("=<") => {
                    let file = value.split_once(['@', '<']).map_or("", |(_, file)| file);
                    self.judge_path(file.split(';').next().unwrap_or_default(), false, judged);
                }
                _ => self.judge_kind(*kind, value, judged)?,
            }
        }
        for flag in &options.unknown {
            self.judge_argument(&flag.text, false, judged);
        }
        if saves && !options.has("--spider") {
            judged.add(Categories::MUTATING, "saves what it downloads");
        }
        Ok(())
    }

    /// A program that reads files here unless it is given a URL.
    pub(super) fn local(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        self.by_table(call, judged)?;
        let options = call.options();
        let is_path = |word: &str| word.starts_with(['.', '/', '~', UNKNOWN]) || word.ends_with(".tgz");
        let words = call.positional(&options);
        let names_repository =
            call.name == "helm" && words.iter().any(|word| !is_path(word) && word.contains('/'));
        let has_version = call.name == "go" && words.first().is_some_and(|word| word.contains('@'));
        if names_repository
            || has_version
            || words.iter().any(|word| word.contains("://") || word.contains("github.com"))
        {
            judged.add(Categories::NETWORKED, "reads from another host");
        }
        Ok(())
    }

    /// A command on another host: its paths are not those of this host.
    pub(super) fn ssh(&mut self, call: &Call<'_>, judged: &mut Judged) -> Result<(), Excess> {
        let options = call.options_first();
        if options.is_harmless() {
            judged.add(Categories::READ_ONLY, "prints its version or settings");
            return Ok(());
        }
        let effect = call.found.entry().effect.and(options.adds);
        judged.add(effect, "runs commands on another host");
        self.values(&options, judged)?;
        for (_, _, value) in options.values.iter().filter(|(name, ..)| *name == "-o") {
            let runs = ["ProxyCommand", "LocalCommand", "KnownHostsCommand"];
            if let Some((key, line)) = value.split_once(['=', ' '])
                && runs.contains(&key.trim())
            {
                let line = line.to_owned();
                judged.add(Categories::MUTATING, format!("{key} runs a command on this host"));
                self.subshell(|walk| walk.text(&line, Streams::default()))?;
            }
        }
        let (mut words, mut is_certain) = (Vec::new(), false);
        // Flags may stand behind the host as well.
        let mut rest = options.positional.iter().skip(1).peekable();
        while let Some(index) = rest.peek() {
            if !call.text(**index).starts_with('-') || !words.is_empty() {
                break;
            }
            rest.next();
        }
        for index in rest {
            is_certain |= !call.args[*index].optional;
            words.push(call.text(*index));
        }
        let line = words.join(" ");
        if !words.is_empty() {
            if line.contains(UNKNOWN) && line.trim_matches(UNKNOWN).is_empty() {
                judged.add(Categories::MUTATING, "the remote command is not known");
            }
            let streams = call.streams.clone();
            self.elsewhere(true, |walk| walk.text(&line, streams))?;
        }
        if is_certain || options.has("-N") {
            return Ok(());
        }
        match &call.streams.input {
            Input::Text(text) => {
                let text = text.clone();
                self.elsewhere(true, |walk| walk.text(&text, Streams::default()))?;
                judged.add(Categories::MUTATING, "runs its input on another host");
            }
            Input::Unknown { .. } => judged.add(Categories::MUTATING, "runs its input on another host"),
            Input::Terminal => {
                judged
                    .add(Categories::INTERACTIVE.and(Categories::MUTATING), "opens a shell on another host");
            }
        }
        Ok(())
    }
}
