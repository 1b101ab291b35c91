//! A command with the caller's rights that sees a vault.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

use agentiso_core::{Code, Failure};
use agentiso_mounts::{Enter, IngestOptions, Kind, Running, WorkDirOptions, enter as enter_directory};
use agentiso_vfs::{StateRef, Vaults};
use serde_json::json;

use crate::mounting::{BroughtBack, bring_back};
use crate::run::{Places, work_dirs};

/// Runs a command that sees a vault, and brings what it changed into the vault. Returns its exit code.
pub fn enter(
    vaults: &Vaults,
    places: &Places,
    vault: &str,
    argv: &[OsString],
    read_only: bool,
) -> Result<(u8, BroughtBack), Failure> {
    let info = vaults.info(vault)?;
    let view = vaults.view(vault, &StateRef::Now)?;
    let work = work_dirs(vaults.store(), places)?;
    let label = json!({ "kind": "enter", "vault": info.id.to_string() }).to_string();
    let workdir = work.create(view.tree(), &WorkDirOptions { label, kind: Kind::Auto })?;
    // The same path for each vault: it is mounted there for this command alone.
    let at = places.vaults.join("entered").join(&info.name);
    std::fs::create_dir_all(&at).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not create {}: {error}", at.display()))
    })?;
    let what = Enter { workdir: &workdir, at: &at, argv, read_only };
    let entered = enter_directory(&what, |command| {
        command.env("AVFS_VAULT", &info.name).env("AVFS_MOUNTPOINT", &at);
    })?;
    let (status, _) = entered.wait_for_all().map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not wait for the command: {error}"))
    })?;
    let back = match read_only || !workdir.is_touched()? {
        true => BroughtBack::default(),
        false => {
            let got = workdir.ingest(&IngestOptions { running: Running::Nothing, threads: 0 })?;
            bring_back(vaults, info.id, &got)?
        }
    };
    workdir.remove()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok((u8::try_from(code & 0xff).unwrap_or(1), back))
}
