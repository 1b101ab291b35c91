//! `agentiso write`.

use std::io::{Read, Write};

use agentiso_config::paths::Paths;
use agentiso_core::action::{Encoding, FileWrite};
use agentiso_core::{Code, Failure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Daemon;
use crate::args;
use crate::output::Output;
use crate::ui::bytes;

/// Files up to this size are written in one step, so that nobody sees half of one.
const MOST: u64 = 16 << 20;

/// Writes a file from standard input.
pub async fn write(here: &Paths, flags: args::Write, output: Output) -> Result<u8, Failure> {
    let mut input = Vec::new();
    let read = std::io::stdin().take(MOST + 1).read_to_end(&mut input);
    read.map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not read standard input: {error}"))
    })?;
    if input.len() as u64 > MOST {
        return Err(Failure::new(Code::FileTooLarge, format!("the input is larger than {}", bytes(MOST)))
            .with_remedy(format!("copy a file: agentiso cp FILE {}:{}", flags.workspace, flags.path)));
    }
    let request = FileWrite {
        workspace_id: flags.workspace,
        path: flags.path,
        content: STANDARD.encode(&input).into(),
        mode: flags.mode,
        encoding: Some(Encoding::Base64),
        append: flags.append,
    };
    let written = Daemon::reach(here, output).await?.ask("Still writing", &request).await?;
    output.result(&written, |out| writeln!(out, "Wrote {} to {}.", bytes(written.bytes), written.path))?;
    Ok(0)
}
