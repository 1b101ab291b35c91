//! Reads the tables.
//!
//! One line is one program or, if indented, one of its subcommands:
//!
//! ```text
//! NAME[,NAME…]  EFFECT[+EFFECT…]  [args=KIND,KIND*] [-f,--flag:EFFECT] [-f,--flag=KIND] [-n:!] [@handler] [dashes]
//! ```
//!
//! Effects are `ro`, `mut`, `del`, `net`, `esc` and `tty`. `-f:EFFECT` adds an effect, `-f=KIND` takes a value,
//! `-f=KIND:EFFECT` does both, `-f:!` makes the command read-only, and `-f:!EFFECT` leaves only that effect. `past` makes
//! flags behind `--` count, and `bare` makes the program read-only without arguments. `-f:^EFFECT` adds an effect that
//! no other flag takes away. `unless=-e,-f` means that with one of these flags the first positional argument has the
//! second kind, `args>N:EFFECT` and `args<N:EFFECT` add effects by the number of positional arguments, and
//! `sets:EFFECT` adds one if an argument contains `=`. `#` begins a comment.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use super::super::Categories;
use super::model::{Entry, FlagRule, Handler, Kind, Tool};

/// Every table, by subject.
const TABLES: &[&str] = &[
    include_str!("tables/shell.txt"),
    include_str!("tables/files.txt"),
    include_str!("tables/text.txt"),
    include_str!("tables/git.txt"),
    include_str!("tables/build.txt"),
    include_str!("tables/packages.txt"),
    include_str!("tables/languages.txt"),
    include_str!("tables/network.txt"),
    include_str!("tables/system.txt"),
    include_str!("tables/data.txt"),
    include_str!("tables/cloud.txt"),
    include_str!("tables/terminal.txt"),
];

/// The programs by name.
pub(super) static TOOLS: LazyLock<HashMap<String, Arc<Tool>>> = LazyLock::new(|| load(TABLES).0);

/// The programs, and the lines that could not be read.
fn load(tables: &[&'static str]) -> (HashMap<String, Arc<Tool>>, Vec<String>) {
    let mut tools: Vec<(Vec<String>, Tool)> = Vec::new();
    let mut bad = Vec::new();
    for line in tables.iter().flat_map(|table| table.lines()) {
        let is_blank = line.trim().is_empty() || line.trim_start().starts_with('#');
        if is_blank {
            continue;
        }
        let Some((names, entry)) = row(line) else {
            bad.push(line.to_owned());
            continue;
        };
        if !line.starts_with(' ') {
            tools.push((names, Tool { entry, subcommands: Vec::new() }));
        } else if let Some((_, tool)) = tools.last_mut() {
            tool.subcommands.extend(names.into_iter().map(|name| (name, entry.clone())));
        } else {
            bad.push(line.to_owned());
        }
    }
    let mut by_name = HashMap::new();
    for (names, tool) in tools {
        let tool = Arc::new(tool);
        for name in names {
            if by_name.insert(name.clone(), Arc::clone(&tool)).is_some() {
                bad.push(format!("{name} is listed twice"));
            }
        }
    }
    (by_name, bad)
}

fn row(line: &str) -> Option<(Vec<String>, Entry)> {
    let mut words = line.split_whitespace();
    let names = words.next()?.split(',').map(str::to_owned).collect();
    let mut entry = Entry { effect: effects(words.next()?)?, ..Entry::default() };
    for word in words {
        if let Some(kinds) = word.strip_prefix("args=") {
            entry.args =
                kinds.split(',').map(|name| kind(name.trim_end_matches('*'))).collect::<Option<_>>()?;
        } else if let Some(flags) = word.strip_prefix("unless=") {
            entry.first_is_given_by = flags.split(',').map(str::to_owned).collect();
        } else if let Some(rule) = word.strip_prefix("args>") {
            entry.with_more = Some(counted(rule)?);
        } else if let Some(rule) = word.strip_prefix("args<") {
            entry.with_fewer = Some(counted(rule)?);
        } else if let Some(effect) = word.strip_prefix("sets:") {
            entry.with_setting = effects(effect)?;
        } else if let Some(name) = word.strip_prefix('@') {
            entry.handler = Some(handler(name)?);
        } else if word == "dashes" {
            entry.long_dashes = true;
        } else if word == "past" {
            entry.past_dashes = true;
        } else if word == "bare" {
            entry.bare_is_harmless = true;
        } else {
            entry.flags.push(flag(word)?);
        }
    }
    Some((names, entry))
}

fn counted(rule: &str) -> Option<(usize, Categories)> {
    let (count, effect) = rule.split_once(':')?;
    Some((count.parse().ok()?, effects(effect)?))
}

fn flag(word: &str) -> Option<FlagRule> {
    let (head, effect) = match word.rsplit_once(':') {
        Some((head, effect)) => (head, Some(effect)),
        None => (word, None),
    };
    let (names, value) = match head.split_once('=') {
        Some((names, value)) => (names, Some(kind(value)?)),
        None => (head, None),
    };
    let names: Vec<String> = names.split(',').map(str::to_owned).collect();
    let are_flags = names.iter().all(|name| name.starts_with(['-', '+', '/']));
    if !are_flags {
        return None;
    }
    let none = Categories::READ_ONLY;
    let mut rule = FlagRule { names, value, adds: none, insists: none, leaves: None };
    match effect {
        None => {}
        Some("!") => rule.leaves = Some(none),
        Some(effect) => match (effect.strip_prefix('!'), effect.strip_prefix('^')) {
            (Some(left), _) => rule.leaves = Some(effects(left)?),
            (_, Some(insisted)) => {
                rule.insists = effects(insisted)?;
                rule.adds = rule.insists;
            }
            _ => rule.adds = effects(effect)?,
        },
    }
    Some(rule)
}

fn effects(text: &str) -> Option<Categories> {
    text.split('+').try_fold(Categories::READ_ONLY, |sum, name| {
        Some(sum.and(match name {
            "ro" => Categories::READ_ONLY,
            "mut" => Categories::MUTATING,
            "del" => Categories::DESTRUCTIVE,
            "net" => Categories::NETWORKED,
            "esc" => Categories::HOST_ESCAPE_RISK,
            "tty" => Categories::INTERACTIVE,
            _ => return None,
        }))
    })
}

fn kind(name: &str) -> Option<Kind> {
    Some(match name {
        "text" => Kind::Text,
        "read" => Kind::Read,
        "write" => Kind::Write,
        "out" => Kind::Output,
        "cd" => Kind::Directory,
        "sh" => Kind::Shell,
        "code" => Kind::Code,
        "sql" => Kind::Sql,
        "sed" => Kind::Sed,
        "awk" => Kind::Awk,
        _ => return None,
    })
}

fn handler(name: &str) -> Option<Handler> {
    if let Some(count) = name.strip_prefix("wrap") {
        return Some(Handler::Wrap(if count.is_empty() { 0 } else { count.parse().ok()? }));
    }
    Some(match name {
        "xargs" => Handler::Xargs,
        "echo" => Handler::Echo,
        "printf" => Handler::Printf,
        "cat" => Handler::Cat,
        "base64" => Handler::Base64,
        "decode" => Handler::Decode,
        "reverse" => Handler::Reverse,
        "translate" => Handler::Translate,
        "shell" => Handler::Shell,
        "eval" => Handler::Eval,
        "source" => Handler::Source,
        "cd" => Handler::Cd,
        "declare" => Handler::Declare,
        "alias" => Handler::Alias,
        "set" => Handler::Positional,
        "fd" => Handler::FindSimple,
        "editor" => Handler::Editor,
        "archive" => Handler::Archive,
        "copy" => Handler::Copy,
        "mount" => Handler::Mount,
        "later" => Handler::Later,
        "keygen" => Handler::Keygen,
        "local" => Handler::Local,
        "cmake" => Handler::Cmake,
        "trap" => Handler::Trap,
        "ask" => Handler::Ask,
        "find" => Handler::Find,
        "interpreter" => Handler::Interpreter,
        "pager" => Handler::Pager,
        "database" => Handler::Database,
        "cloud" => Handler::Cloud,
        "remote" => Handler::Remote,
        "ssh" => Handler::Ssh,
        "curl" => Handler::Curl,
        "dd" => Handler::Dd,
        "tar" => Handler::Tar,
        "container" => Handler::Container,
        "make" => Handler::Make,
        "git" => Handler::Git,
        "scripts" => Handler::Scripts,
        "which" => Handler::Which,
        "multicall" => Handler::Multicall,
        "pwd" => Handler::Pwd,
        "dirname" => Handler::Dirname,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_can_be_read() {
        let (tools, bad) = load(TABLES);
        assert!(bad.is_empty(), "{bad:#?}");
        assert!(tools.len() > 400, "{} programs", tools.len());
    }
}
