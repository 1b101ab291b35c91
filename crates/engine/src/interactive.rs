//! Interactive commands: output and input are streamed.

use std::pin::Pin;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::action::{Effect, Rate, Subject};
use agentiso_core::ports::link::{Exit, Process, ProcessEvent};
use agentiso_core::ports::records::MAX_DETAIL;
use agentiso_core::progress::Silent;
use agentiso_core::wire::{ExecSpec, Word};
use serde_json::json;

use crate::access::Access;
use crate::act::{Call, Context};
use crate::command::Command;
use crate::record::Record;
use crate::secrets::without_credentials;
use crate::{Caller, Engine, NotStarted};

/// A running command. Dropping it ends the command.
pub struct Interactive {
    /// The command.
    pub process: Box<dyn Process>,
    /// Id of its workspace.
    pub workspace_id: String,
    /// Name of its workspace.
    pub workspace_name: String,
    /// Resolves when the machine is paused because the host's disk is full, or when the caller loses the workspace.
    standstill: Pin<Box<dyn Future<Output = Failure> + Send>>,
    context: Context,
    record: Record,
}

impl Interactive {
    /// The next event of the command.
    pub async fn next(&mut self) -> Result<Option<ProcessEvent>, Failure> {
        tokio::select! {
            event = self.process.next() => match event {
                Err(error) => Err(self.context.explained(error.into()).await),
                Ok(event) => Ok(event),
            },
            failure = &mut self.standstill => Err(failure),
        }
    }

    /// Completes its timeline entry.
    pub async fn ended(self, exit: &Exit) -> Result<(), Failure> {
        let (code, _) = crate::actions::code_and_signal(exit);
        self.record.end(Ok(Some(format!("exit code {code}")))).await
    }
}

impl Engine {
    /// Starts an interactive command.
    pub async fn interact(
        self: &Arc<Self>,
        caller: &Caller,
        workspace: &str,
        asked: ExecSpec,
    ) -> Result<Interactive, NotStarted> {
        let name = if asked.tty.is_some() { "shell" } else { "exec_stream" };
        let detail = json!({ "command": shown_line(&asked.argv) });
        let detail = if detail.to_string().len() > MAX_DETAIL { json!({}) } else { detail };
        let mut record = Record::begin(self, caller, name, detail);
        let started = async {
            let call = Call {
                subjects: &[Subject::Workspace(workspace)],
                rate: Rate::Exec,
                access: Access::Works,
                effect: Effect::Destroys,
            };
            let context = self.admit(caller, call, Arc::new(Silent), &mut record).await?;
            let workspace = context.workspace()?;
            let command = Command::of(asked)?;
            let own = context.clone();
            let mut standstill: Pin<Box<dyn Future<Output = Failure> + Send>> = Box::pin(async move {
                tokio::select! {
                    failure = own.standstill() => failure,
                    failure = own.lost() => failure,
                }
            });
            let process = tokio::select! {
                launched = context.start_command(&command) => launched?.started,
                failure = &mut standstill => return Err(failure.into()),
            };
            let (id, name) = (workspace.id.to_string(), workspace.name.to_string());
            Ok((process, standstill, id, name, context))
        };
        match started.await {
            Ok((process, standstill, workspace_id, workspace_name, context)) => {
                Ok(Interactive { process, workspace_id, workspace_name, standstill, context, record })
            }
            Err(error) => {
                let error: NotStarted = error;
                record.end(Err(error.failure.code())).await?;
                Err(error)
            }
        }
    }
}

/// A command as one line without credentials. As one line, because a flag and its value are often two arguments.
fn shown_line(argv: &[Word]) -> String {
    let words = argv.iter().map(|word| {
        let word = word.shown();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./@%+".contains(c);
        match !word.is_empty() && word.chars().all(plain) {
            true => word,
            false => format!("'{}'", word.replace('\'', r"'\''")),
        }
    });
    without_credentials(&words.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_two_words_are_not_shown() {
        let line = |words: &[&str]| {
            shown_line(&words.iter().map(|word| Word::from(word.as_bytes().to_vec())).collect::<Vec<_>>())
        };
        for words in [
            &["mysql", "--password", "hunter2bb"][..],
            &["curl", "-u", "bob:hunter2bb", "https://example.org"],
            &["sshpass", "-p", "hunter2bb", "ssh", "x"],
            &["tool", "--token", "hunter2bb"],
        ] {
            assert!(!line(words).contains("hunter2bb"), "{}", line(words));
        }
        assert_eq!(line(&["sh", "-c", "echo it's"]), r"sh -c 'echo it'\''s'");
    }
}
