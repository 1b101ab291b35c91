//! `avfs mount`.

use std::io::Write;
use std::path::PathBuf;

use agentiso_core::{Code, Failure};
use agentiso_proxy::{By, MountState, Mounting};
use clap::{Args, ValueEnum};
use schemars::JsonSchema;
use serde::Serialize;

use super::unmount::unmount_at;
use crate::avfs::context::Context;
use crate::ui::Table;

/// Flags of `mount`.
#[derive(Args, Debug)]
#[command(
    after_help = "The mount shows the vault as it is now, and has its own changes; unmount brings them into the vault, \
                  and checkpoint save those of the moment. Without arguments mounts are listed.\n\nExamples:\n  \
                  avfs mount work ~/work\n  avfs mount task-1 ./t --readonly\n  avfs mount"
)]
pub struct Mount {
    /// The vault
    #[arg(requires = "mountpoint")]
    pub name: Option<String>,
    /// An empty directory
    pub mountpoint: Option<PathBuf>,
    /// Stay until interrupted, then unmount
    #[arg(short, long, requires = "mountpoint")]
    pub foreground: bool,
    /// Nothing can be changed
    #[arg(short, long, visible_alias = "read-only")]
    pub readonly: bool,
    /// What it is made of
    #[arg(long, value_enum, default_value_t = How::Auto)]
    pub by: How,
}

/// What a mount is made of.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum How {
    /// The best that is possible
    Auto,
    /// An overlay of the kernel; needs root
    Overlay,
    /// A FUSE server
    Fuse,
    /// A plain directory, and a link to it
    Plain,
}

/// One mount; several in `mounts` if they are listed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MountShown {
    /// The name of the vault; its id if it was removed.
    pub vault: String,
    pub mountpoint: String,
    pub readonly: bool,
    /// `overlay`, `fuse` or `plain`.
    pub by: String,
    /// The process that serves it, if one does.
    pub server_pid: Option<u32>,
    /// `live` or `dead`. A dead mount has been cleaned up; its changes are kept until it is unmounted.
    pub state: String,
}

/// All mounts.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct MountList(Vec<MountShown>);

/// Mounts a vault, or lists mounts.
pub fn mount(context: &Context, flags: Mount) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let mounting = Mounting::open(vaults, &context.places)?;
    let (Some(name), Some(point)) = (flags.name, flags.mountpoint) else {
        return list(context, &mounting);
    };
    let by = match flags.by {
        How::Auto => By::Auto,
        How::Overlay => By::Overlay,
        How::Fuse => By::Fuse,
        How::Plain => By::Plain,
    };
    let done = mounting.mount(&name, &point, flags.readonly, by)?;
    let shown = shown(context, &done)?;
    context.shown.result(&shown, |out| {
        writeln!(out, "Mounted {} at {} ({})", shown.vault, shown.mountpoint, shown.by)
    })?;
    if !flags.foreground {
        return Ok(0);
    }
    agentiso_proxy::wait_for_interrupt().map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not wait for a signal: {error}"))
    })?;
    let quiet = context.shown.json;
    unmount_at(context, &mounting, &done.info.point, false).map(|unmounted| {
        if !quiet {
            context.shown.note(&unmounted.in_words());
        }
        0
    })
}

fn list(context: &Context, mounting: &Mounting<'_>) -> Result<u8, Failure> {
    let mounts = mounting.list()?;
    let mounts = mounts.iter().map(|one| shown(context, one)).collect::<Result<Vec<_>, _>>()?;
    let list = MountList(mounts);
    context.shown.result(&list, |out| {
        let mut table = Table::new(["VAULT", "MOUNTPOINT", "BY", "STATE"]);
        for one in &list.0 {
            table.row([&one.vault, &one.mountpoint, &one.by, &one.state].map(String::clone));
        }
        table.write(out)
    })?;
    Ok(0)
}

fn shown(context: &Context, one: &agentiso_proxy::Mounted) -> Result<MountShown, Failure> {
    let id = one.vault.to_string();
    Ok(MountShown {
        vault: match context.vaults()?.info(&id) {
            Ok(vault) => vault.name,
            Err(_) => id,
        },
        mountpoint: one.info.point.display().to_string(),
        readonly: one.info.read_only,
        by: match one.info.by {
            By::Overlay => "overlay",
            By::Plain => "plain",
            By::Fuse | By::Auto => "fuse",
        }
        .to_owned(),
        server_pid: one.info.server,
        state: match one.info.state {
            MountState::Live => "live",
            MountState::Dead => "dead",
        }
        .to_owned(),
    })
}
