//! A command line that makes no sense, for programs that read JSON.

use std::ffi::OsString;

use agentiso_core::{Code, Failure};

/// What the parser says last, to people.
const MORE: &str = "For more information";

/// Whether a program is to read what is wrong. What the flags mean is not known when they cannot be parsed, so this
/// takes `--json` anywhere before a `--`.
pub fn wants_json(words: &[OsString]) -> bool {
    words.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// What the parser says as a failure: the first paragraph is the message, what follows is the remedy.
pub fn failure_of(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    let joined = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n").map(joined).filter(|paragraph| !paragraph.starts_with(MORE));
    let message = paragraphs.next().unwrap_or_default();
    let remedy: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    let failure = Failure::new(Code::InvalidArgument, message.strip_prefix("error: ").unwrap_or(&message));
    if remedy.is_empty() { failure } else { failure.with_remedy(remedy.join("; ")) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn what_the_parser_says_becomes_a_message_and_a_remedy() {
        let failure = failure_of(&Cli::try_parse_from(["agentiso", "--json", "lss"]).unwrap_err());
        assert_eq!(failure.code(), Code::InvalidArgument);
        assert_eq!(failure.message(), "unrecognized subcommand 'lss'");
        assert!(failure.remedy().unwrap().starts_with("tip: some similar subcommands exist"), "{failure:?}");
    }

    #[test]
    fn a_flag_of_the_command_is_not_ours() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&words("agentiso --json ls")));
        assert!(!wants_json(&words("agentiso exec web -- gh pr list --json")));
    }
}
