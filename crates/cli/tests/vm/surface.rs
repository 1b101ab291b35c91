//! Snapshots of the output of commands on a machine, in `snapshots/`; see `tests/surface.rs`.

use std::fmt::Write;

use regex::Regex;

use crate::place::Place;

/// Replaces ids, times and amounts, which differ between runs.
fn without_figures(text: &str, home: &str) -> String {
    let mut text = text.replace(home, "HOME");
    for (pattern, instead) in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "ID"),
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME"),
        (r"\b[0-9a-f]{8}\b", "ID"),
        (r"\b\d+(\.\d+)? ?(ns|µs|ms|s|min|h|B|KiB|MiB|GiB|%)(\b|/s|$)", "AMOUNT"),
        (r"\): [a-z_]+, AMOUNT", "): TIER, AMOUNT"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, instead).into_owned();
    }
    text
}

#[test]
fn the_output_of_commands_matches_its_snapshot() {
    let place = Place::new();
    let mut said = String::new();
    for line in [
        "create --name web --label team=blue",
        "ls",
        "ls -q",
        "exec web sh -c 'echo out; echo err >&2; exit 3'",
        "exec web no-such-program",
        "exec web --workdir /nowhere true",
        "exec web --user nosuch true",
        "exec web --timeout 1s sleep 60",
        "read web /nowhere",
        "edit web /etc/hostname nosuch other",
        "cp web:/nowhere .",
        "env web STAGE=test",
        "env web",
        "label web stage=one team-",
        "snapshot create web before",
        "snapshot create web before",
        "exec web sh -c 'echo new > /root/new'",
        "snapshot diff web before",
        "snapshot ls web",
        "snapshot restore web nosuch",
        "snapshot restore web before",
        "fork web --name copy",
        "ls",
        "rename copy web",
        "rename copy other",
        "snapshot rm web before",
        "forward add web 80:80",
        "forward ls web",
        "forward rm web 80",
        "jobs ls web",
        "jobs kill web 99",
        "update web --idle-stop 1h",
        "grow web 1G",
        "rm web",
        "suspend other",
        "resume other",
        "stop other",
        "stop other",
        "prune --dry-run",
        "prune",
        "start other",
        "rm --force web other",
    ] {
        let words = shell_words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = place.output(&words);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let text = without_figures(&text, place.path().to_str().unwrap());
        write!(said, "$ agentiso {line}\n{text}[exit code {}]\n\n", output.status.code().unwrap()).unwrap();
    }
    insta::assert_snapshot!("what_verbs_print", said);
}

/// Splits at spaces, except within single quotes.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('\'').enumerate() {
        if index % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}
