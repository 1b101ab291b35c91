//! Sandboxes that stay.
//!
//! ```text
//!  start ──► a server process of its own: sandbox, working directory, socket
//!              │ exec: policy, checkpoint, command in the sandbox, changes recorded in the vault, envelope
//!              │   └─ the client goes away: the command is ended
//!              └ end, a signal, or nobody calls for a while: everything in the sandbox ends, the directory is removed
//! ```
//!
//! What a command changed is in the vault when its envelope is there, so a killed server loses nothing that was answered.

mod client;
mod record;
mod server;
mod wire;

use agentiso_core::Failure;
use agentiso_jail::{Launcher, Session};
use agentiso_vfs::{Use, Vaults};

pub use client::Sessions;
pub use record::SessionInfo;
pub use server::serve_session;

use crate::envelope::EnforcementReport;
use crate::run::record::{Directory, purpose};
use crate::run::{Boundary, sandbox};

/// A sandbox that stays.
pub(crate) struct Resident {
    /// The sandbox.
    pub sandbox: Session,
    /// What is in force in it.
    pub enforcement: EnforcementReport,
    /// Its files.
    pub directory: Directory,
    /// Its use of the vault.
    pub using: Use,
    /// Whether it cannot change the vault.
    pub readonly: bool,
}

impl Resident {
    /// Makes a sandbox for a vault.
    pub fn open(boundary: &Boundary<'_>, vault: &str, id: &str, readonly: bool) -> Result<Self, Failure> {
        let using = boundary.vaults.begin_use(vault, &purpose(id, "session"))?;
        let made = boundary.directory("session", readonly, &using).and_then(|directory| {
            let files = directory.files(readonly)?;
            let spec = sandbox::spec(&files, sandbox::WORKSPACE.as_ref(), false);
            let sandbox = Launcher::new().open(&spec)?;
            let enforcement = sandbox::report(sandbox.enforcement(), &spec, &files);
            Ok((sandbox, enforcement, directory))
        });
        match made {
            Ok((sandbox, enforcement, directory)) => {
                Ok(Self { sandbox, enforcement, directory, using, readonly })
            }
            Err(failure) => {
                boundary.vaults.end_use(using)?;
                Err(failure)
            }
        }
    }

    /// Ends everything in it.
    pub fn close(self, vaults: &Vaults) -> Result<(), Failure> {
        self.sandbox.close();
        vaults.end_use(self.using)?;
        if let Directory::Own(work) = self.directory {
            work.remove()?;
        }
        Ok(())
    }
}
