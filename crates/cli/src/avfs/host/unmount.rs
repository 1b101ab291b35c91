//! `avfs unmount`.

use std::io::Write;
use std::path::{Path, PathBuf};

use agentiso_core::Failure;
use agentiso_proxy::Mounting;
use agentiso_proxy::envelope::{ChangeReport, FileConflict};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::ui::counted;

/// Flags of `unmount`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs unmount ~/work")]
pub struct Unmount {
    /// Where the vault is mounted
    pub mountpoint: PathBuf,
    /// Unmount although it is in use
    #[arg(short, long)]
    pub lazy: bool,
}

/// What was changed in a mount.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Unmounted {
    mountpoint: String,
    /// Always true: a failure is an error.
    success: bool,
    vault: String,
    /// What was changed; the first ones if there are many.
    changes: Vec<ChangeReport>,
    /// How many changes there are.
    changes_total: u64,
    /// Where the vault had been changed too. The vault has what it had.
    conflicts: Vec<FileConflict>,
    /// The fork with what the mount had, if the vault could not take it.
    saved_as: Option<String>,
    /// What could not be kept.
    notices: Vec<String>,
}

impl Unmounted {
    /// For a person.
    pub fn in_words(&self) -> String {
        let mut text = format!(
            "Unmounted {}: {} in {}",
            self.mountpoint,
            counted(self.changes_total, "change"),
            self.vault
        );
        for notice in &self.notices {
            text.push_str(&format!("\n{notice}"));
        }
        if let Some(fork) = &self.saved_as {
            let conflicts = match self.conflicts.len() {
                0 => String::new(),
                count => format!("{}: ", counted(count, "conflict")),
            };
            text.push_str(&format!(
                "\n{conflicts}{} keeps what it had, {fork} has what the mount had",
                self.vault
            ));
        }
        text
    }
}

/// Unmounts.
pub fn unmount(context: &Context, flags: Unmount) -> Result<u8, Failure> {
    let mounting = Mounting::open(context.vaults()?, &context.places)?;
    let done = unmount_at(context, &mounting, &flags.mountpoint, flags.lazy)?;
    context.shown.result(&done, |out| writeln!(out, "{}", done.in_words()))?;
    Ok(0)
}

/// Unmounts one mount.
pub(super) fn unmount_at(
    context: &Context,
    mounting: &Mounting<'_>,
    point: &Path,
    lazy: bool,
) -> Result<Unmounted, Failure> {
    let (mounted, back) = mounting.unmount(point, lazy)?;
    let vault = match context.vaults()?.info(&mounted.vault.to_string()) {
        Ok(info) => info.name,
        // It was removed.
        Err(_) => mounted.vault.to_string(),
    };
    Ok(Unmounted {
        mountpoint: mounted.info.point.display().to_string(),
        success: true,
        vault,
        changes: back.changes,
        changes_total: back.total,
        conflicts: back.conflicts,
        saved_as: back.saved_as,
        notices: back.notices,
    })
}
