//! Commands somebody sits in front of: their output comes as it is made, their input as it is typed.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentiso_core::action::Rate;
use agentiso_core::progress::Silent;
use agentiso_core::{Code, Failure};
use agentiso_runtime::guest::{Exec, Exit, Process, User};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::act::Record;
use crate::redact::without_credentials;
use crate::{Caller, Engine, held};

/// A command to run while somebody listens.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Interaction {
    /// Program and arguments; the user's shell if there are none.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Variables on top of the workspace's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Directory it runs in.
    #[serde(default)]
    pub workdir: Option<String>,
    /// User it runs as.
    #[serde(default)]
    pub user: Option<String>,
    /// A terminal of so many columns and rows.
    #[serde(default)]
    pub tty: Option<(u16, u16)>,
    /// Whether it is given input.
    #[serde(default)]
    pub stdin: bool,
    /// Milliseconds after which it is ended.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// A command that runs. When this is dropped the command is ended.
pub struct Interactive {
    /// The command.
    pub process: Process,
    record: Record,
}

impl Interactive {
    /// Remembers how it ended.
    pub fn ended(self, exit: &Exit) {
        let (code, _) = crate::actions::code_and_signal(exit);
        self.record.end(Ok(Some(format!("exit code {code}"))));
    }
}

impl Engine {
    /// Starts a command somebody sits in front of.
    pub async fn interact(
        self: &Arc<Self>,
        caller: &Caller,
        workspace: &str,
        asked: Interaction,
    ) -> Result<Interactive, Failure> {
        let name = if asked.tty.is_some() { "shell" } else { "exec_stream" };
        let detail =
            json!({ "argv": asked.argv.iter().map(|word| without_credentials(word)).collect::<Vec<_>>() });
        let detail = if detail.to_string().len() > agentiso_meta::MAX_DETAIL { json!({}) } else { detail };
        let mut record = Record::begin(self, caller, name, detail);
        let started = async {
            let context = self.admit(caller, Some(workspace), Rate::Exec, Arc::new(Silent), &mut record)?;
            let exec = command(asked)?;
            held::start(&context.guest().await?, &exec).await
        };
        match started.await {
            Ok(process) => Ok(Interactive { process, record }),
            Err(failure) => {
                let failure: Failure = failure;
                record.end(Err(failure.code()));
                Err(failure)
            }
        }
    }
}

fn command(asked: Interaction) -> Result<Exec, Failure> {
    if asked.argv.iter().any(|word| word.contains('\0'))
        || asked.env.values().any(|value| value.contains('\0'))
    {
        return Err(Failure::new(Code::InvalidArgument, "a word of the command contains a zero byte"));
    }
    let shell = ["/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash -l; else exec sh -l; fi"];
    let argv: Vec<Vec<u8>> = match asked.argv.is_empty() {
        true => shell.iter().map(|word| word.as_bytes().to_vec()).collect(),
        false => asked.argv.into_iter().map(String::into_bytes).collect(),
    };
    Ok(Exec {
        argv,
        env: asked.env.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect(),
        workdir: asked.workdir.map(String::into_bytes),
        user: asked.user.map(User::Name),
        stdin: asked.stdin,
        tty: asked.tty,
        timeout_ms: asked.timeout_ms,
    })
}
