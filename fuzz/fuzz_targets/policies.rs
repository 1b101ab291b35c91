//! Policy files: any text is read or refused, and mistakes have lines of the file.
#![no_main]

use agentiso_policy::command::{Command, CommandPolicies, Scope, explain, parse_policy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match parse_policy(&text, "policy.toml") {
        Ok(file) => {
            let policies = CommandPolicies::new(Some(file), None, None);
            let scope = Scope::new("/workspace");
            explain(&policies, &scope, Command::Shell("git push && cat /etc/passwd > a"));
        }
        Err(mistakes) => {
            assert!(!mistakes.problems.is_empty());
            assert!(mistakes.problems.iter().all(|problem| problem.line <= text.split('\n').count()));
        }
    }
});
