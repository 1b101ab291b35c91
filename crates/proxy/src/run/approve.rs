//! Commands that need approval.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use agentiso_core::approval::{Approval, Asked};
use agentiso_core::{Code, Failure};
use agentiso_policy::command::Decision;

use super::target::Target;
use super::{Boundary, Call};
use crate::approvals::{Approvals, Standing};
use crate::envelope::{ApprovalReport, ResultReport};
use crate::request::Run;

/// The most standard input of a command that needs approval: it is part of what is approved, so it is read first.
const MAX_STDIN: u64 = 64 << 20;

/// What the queue says.
pub enum Answer {
    /// It may run.
    Granted,
    /// It waits for the owner.
    Waiting,
    /// The owner denied it.
    Denied,
}

impl Boundary<'_> {
    /// Asks for approval, or uses one.
    pub(super) fn approve(
        &self,
        run: &Run,
        target: &Target,
        decision: &Decision,
        call: &mut Call<'_>,
        result: &mut ResultReport,
    ) -> Result<Answer, Failure> {
        let mut hash = blake3::Hasher::new();
        for variable in &run.env {
            for text in [&variable.name, &variable.value] {
                hash.update(&(text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        }
        // From here on the command reads the copy.
        if let Some(stdin) = call.stdin.take() {
            call.stdin = Some(spool(stdin, &mut hash)?);
        }
        let asked = Asked::VaultCommand {
            vault: target.source.name.clone(),
            fork: target.asked_fork(),
            argv: result.argv.clone(),
            workdir: result.cwd.clone(),
            readonly: run.readonly,
            variables: run.env.iter().map(|one| one.name.clone()).collect(),
            inputs_digest: hash.finalize().to_hex().to_string(),
        };
        let queue = Approvals::new(self.places.database.clone(), self.clock);
        let reason = decision.reason.as_deref().unwrap_or("the policy requires approval");
        let (vault, name) = (target.source.id.0, &target.source.name);
        let standing = queue.request(vault, name, asked, reason, &call.asker, run.approve.as_deref())?;
        let (answer, approval) = match standing {
            Standing::Granted(one) => (Answer::Granted, one),
            Standing::Waiting(one) | Standing::NeedsToken(one) => (Answer::Waiting, one),
            Standing::Denied(one) => {
                result.decision.reason = Some("the owner denied this command".to_owned());
                (Answer::Denied, one)
            }
        };
        result.approval = Some(report(&queue, &approval));
        Ok(answer)
    }
}

fn report(queue: &Approvals<'_>, approval: &Approval) -> ApprovalReport {
    let token = approval.id.to_string();
    ApprovalReport {
        grant_with: format!("avfs inbox grant {token}"),
        token,
        state: approval.state,
        expires_at: approval.until.map(|until| queue.shown(until)),
        digest: blake3::Hash::from_bytes(approval.digest).to_hex().to_string(),
    }
}

/// Reads standard input into a file without a name.
fn spool(stdin: File, hash: &mut blake3::Hasher) -> Result<File, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::of_io(&error), format!("could not read standard input: {error}"))
    };
    let mut file = unnamed().map_err(failed)?;
    let mut input = stdin.take(MAX_STDIN + 1);
    let mut chunk = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        let read = input.read(&mut chunk).map_err(failed)?;
        if read == 0 {
            break;
        }
        total += read as u64;
        hash.update(&chunk[..read]);
        file.write_all(&chunk[..read]).map_err(failed)?;
    }
    if total > MAX_STDIN {
        return Err(Failure::new(
            Code::InvalidArgument,
            format!("the standard input of a command that needs approval is limited to {MAX_STDIN} bytes"),
        )
        .with_remedy("write it to a file in the vault"));
    }
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(file)
}

fn unnamed() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("avfs-stdin", MemfdFlags::CLOEXEC)?.into())
}
