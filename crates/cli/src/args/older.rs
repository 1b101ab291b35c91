//! Translates command lines of older versions, and habits from other programs.
//!
//! The grammar is `NOUN VERB WS`. In older versions `jobs` and `forward` had the workspace first, and `forward` had flags
//! for verbs. These forms are still accepted:
//!
//! ```text
//! jobs WS                   jobs ls WS
//! jobs WS VERB ...          jobs VERB WS ...
//! forward WS PORT [HOST]    forward add WS [HOST:]PORT
//! forward WS --ls           forward ls WS
//! forward WS --rm PORT      forward rm WS PORT
//! ```
//!
//! `-q` and `--quiet` after a verb that lists mean `--names`, as with docker; before the verb they disable progress.

use std::ffi::{OsStr, OsString};

/// Global flags that take a value in the next word.
const WITH_VALUE: &[&str] = &["--config"];
/// The verbs of `jobs`, with their aliases.
const JOBS: &[&str] = &["start", "ls", "list", "logs", "kill", "wait", "help"];
/// The verbs of `forward`, with their aliases.
const FORWARD: &[&str] = &["add", "ls", "list", "rm", "remove", "delete", "help"];

/// The same command line in the current grammar.
pub fn modern(words: Vec<OsString>) -> Vec<OsString> {
    quiet_lists(verbs_first(words))
}

/// Replaces `-q` after a verb that lists with `--names`.
fn quiet_lists(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = next_word(&words, 1) else { return words };
    let verb = match words[first].to_str() {
        Some("ls" | "list" | "ps") => first,
        Some("jobs" | "forward" | "snapshot" | "image") => match next_word(&words, first + 1) {
            Some(verb) if is_one_of(&words[verb], &["ls", "list"]) => verb,
            _ => return words,
        },
        _ => return words,
    };
    for word in &mut words[verb + 1..] {
        if word == "-q" || word == "--quiet" {
            *word = "--names".into();
        }
    }
    words
}

/// Puts verbs before workspaces.
fn verbs_first(mut words: Vec<OsString>) -> Vec<OsString> {
    let Some(noun) = next_word(&words, 1) else { return words };
    let verbs = match words[noun].to_str() {
        Some("jobs" | "job") => JOBS,
        Some("forward") => FORWARD,
        _ => return words,
    };
    let Some(first) = next_word(&words, noun + 1) else { return words };
    if is_one_of(&words[first], verbs) {
        return words;
    }
    if verbs == JOBS {
        match next_word(&words, first + 1) {
            Some(verb) if is_one_of(&words[verb], verbs) => {
                let verb = words.remove(verb);
                words.insert(first, verb);
            }
            _ => words.insert(first, "ls".into()),
        }
    } else {
        forward(&mut words, noun);
    }
    words
}

/// Rewrites what follows `forward`, which is the word at `noun`.
fn forward(words: &mut Vec<OsString>, noun: usize) {
    let flag = |wanted: fn(&OsStr) -> bool| {
        words.iter().skip(noun + 1).position(|word| wanted(word)).map(|at| noun + 1 + at)
    };
    let (listed, removed) = (flag(|word| word == "--ls"), flag(is_rm));
    let mut port = None;
    let verb = match (listed, removed) {
        (Some(flag), _) => {
            words.remove(flag);
            "ls"
        }
        (None, Some(flag)) => {
            let word = words.remove(flag);
            port = match word.to_str().and_then(|word| word.strip_prefix("--rm=")) {
                Some(port) => Some(port.into()),
                None if flag < words.len() => Some(words.remove(flag)),
                None => None,
            };
            "rm"
        }
        (None, None) => "add",
    };
    let Some(workspace) = next_word(words, noun + 1) else { return };
    if let Some(port) = port {
        words.insert(workspace + 1, port);
    }
    if verb == "add"
        && let Some(port) = next_word(words, workspace + 1)
        && let Some(host) = next_word(words, port + 1)
    {
        let mut pair = words.remove(host);
        pair.push(":");
        pair.push(&words[port]);
        words[port] = pair;
    }
    words.insert(workspace, verb.into());
}

fn is_rm(word: &OsStr) -> bool {
    word == "--rm" || word.as_encoded_bytes().starts_with(b"--rm=")
}

fn is_one_of(word: &OsStr, words: &[&str]) -> bool {
    word.to_str().is_some_and(|word| words.contains(&word))
}

/// Where the next word that is no flag is, from `from` on; none behind `--`.
fn next_word(words: &[OsString], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(word) = words.get(at) {
        if word == "--" {
            return None;
        }
        if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(at);
        }
        at += if is_one_of(word, WITH_VALUE) { 2 } else { 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        modern(words).into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn older_lines_become_the_lines_of_today() {
        for (older, now) in [
            ("agentiso jobs web", "agentiso jobs ls web"),
            ("agentiso jobs web --json", "agentiso jobs ls web --json"),
            ("agentiso --json jobs web", "agentiso --json jobs ls web"),
            ("agentiso --config a.toml jobs web", "agentiso --config a.toml jobs ls web"),
            ("agentiso jobs web start -- make -j4", "agentiso jobs start web -- make -j4"),
            ("agentiso jobs web --json wait 1", "agentiso jobs wait web --json 1"),
            ("agentiso jobs web kill 1 TERM", "agentiso jobs kill web 1 TERM"),
            ("agentiso forward web 80", "agentiso forward add web 80"),
            ("agentiso forward web 80 8080", "agentiso forward add web 8080:80"),
            ("agentiso forward web --ls", "agentiso forward ls web"),
            ("agentiso forward --ls web", "agentiso forward ls web"),
            ("agentiso forward --rm 80 web", "agentiso forward rm web 80"),
            ("agentiso forward web --rm 80", "agentiso forward rm web 80"),
            ("agentiso forward web --rm=80", "agentiso forward rm web 80"),
            ("agentiso ls -q", "agentiso ls --names"),
            ("agentiso ps --quiet", "agentiso ps --names"),
            ("agentiso snapshot ls -q web", "agentiso snapshot ls --names web"),
            ("agentiso jobs web -q", "agentiso jobs ls web --names"),
        ] {
            assert_eq!(rewritten(older), now);
        }
    }

    #[test]
    fn lines_of_today_stay_as_they_are() {
        for line in [
            "agentiso",
            "agentiso jobs",
            "agentiso jobs --help",
            "agentiso jobs start web -- jobs web",
            "agentiso jobs ls web",
            "agentiso forward add web 8080:80",
            "agentiso forward ls web",
            "agentiso exec web -- jobs web",
            "agentiso exec jobs web",
            "agentiso run -- forward web 80 8080",
            "agentiso -q ls",
            "agentiso exec web ls -q",
            "agentiso snapshot create -q ls a",
        ] {
            assert_eq!(rewritten(line), line);
        }
    }
}
