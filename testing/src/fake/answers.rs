//! Prepared answers of commands that a fake machine cannot run.

use super::script::Printed;

/// What commands print and how they end, by a text that is in the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers(Vec<(String, Answer)>);

/// What a command prints, and its exit code.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Answer {
    /// What it writes to its standard output.
    pub stdout: String,
    /// What it writes to its standard error.
    pub stderr: String,
    /// Its exit code.
    pub code: i32,
}

impl Answers {
    /// Answers every command that contains the text. A later answer for the same text replaces the earlier one.
    pub fn add(&mut self, contained: &str, answer: Answer) {
        self.0.retain(|(known, _)| known != contained);
        self.0.push((contained.to_owned(), answer));
    }

    /// The answer to a command, if it has one.
    pub fn to(&self, argv: &[Vec<u8>]) -> Option<(Printed, i32)> {
        let line = String::from_utf8_lossy(&argv.join(&b' ')).into_owned();
        let (_, answer) = self.0.iter().find(|(contained, _)| line.contains(contained))?;
        let outputs = [(1, answer.stdout.as_bytes()), (2, answer.stderr.as_bytes())];
        let printed = outputs.into_iter().filter(|(_, bytes)| !bytes.is_empty());
        Some((printed.map(|(stream, bytes)| (stream, bytes.to_vec())).collect(), answer.code))
    }
}
