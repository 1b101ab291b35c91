//! The parser of the shell language and the classification of commands: no panic, and no line becomes less risky when
//! a risky command follows it.
#![no_main]

use agentiso_policy::command::{Categories, Command, Scope, classify};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let scope = Scope::new("/workspace").with_home("/home/user");
    let before = classify(&scope, Command::Shell(&text));
    let sum: Categories = before.steps.iter().flat_map(|step| step.categories.iter()).collect();
    assert!(sum.covers(before.categories), "a category has no step");
    let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    classify(&scope, Command::Argv(&words));

    let is_damaged = before.steps.iter().any(|step| {
        step.reasons.iter().any(|(_, reason)| reason.contains("not valid shell syntax"))
    });
    // What follows an open quote becomes a part of it, so only complete lines can be continued.
    if is_damaged {
        return;
    }
    for joint in ["; ", " && ", "\n"] {
        let line = format!("{text}{joint}rm -rf x");
        let after = classify(&scope, Command::Shell(&line)).categories;
        assert!(after.covers(before.categories), "{line:?}: {after}, before {}", before.categories);
    }
});
