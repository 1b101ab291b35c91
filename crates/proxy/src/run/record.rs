//! Carrying a command out, and recording what it changed.

use std::fs;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_jail::{Launcher, Stdio};
use agentiso_mounts::{
    Access, By, IngestOptions, Ingested, Kind, LayoutOptions, Layouts, Running, Support, WorkDir,
    WorkDirOptions, WorkDirs,
};
use agentiso_policy::command::{Category, Decision};
use agentiso_vfs::{BeginUse, Note, Use, VaultInfo};
use serde_json::json;
use uuid::Uuid;

use super::child::{Streams, attend, not_started, streams};
use super::renames::Renames;
use super::sandbox::{self, Files};
use super::target::Target;
use super::{Boundary, Call, Stop, checkpoint, sweep};
use crate::changes;
use crate::envelope::{FileConflict, Outcome, ResultReport};
use crate::mounting::Mounting;
use crate::request::Run;
use crate::session::Resident;

/// Where the files of a run are, while it runs.
pub(crate) enum Directory {
    /// A directory of its own, with what the command changes.
    Own(Box<WorkDir>),
    /// The layers of the tree: the command cannot change anything.
    Shared(agentiso_mounts::Base),
}

impl Boundary<'_> {
    /// Runs an allowed command.
    pub(super) fn carry_out(
        &self,
        run: &Run,
        target: Target,
        decision: &Decision,
        call: &mut Call<'_>,
        resident: Option<&mut Resident>,
        result: &mut ResultReport,
    ) -> Result<Outcome, Stop> {
        let workspace = target.make(self.vaults, &result.command)?;
        result.workspace = workspace.vault.name.clone();
        result.fork = workspace.fork.clone();
        result.checkpoint = checkpoint::take(self.vaults, run, decision, &workspace)?;
        let id = Uuid::now_v7().to_string();
        let vault = &workspace.vault;
        self.note(vault, "proxy_exec_requested", result, &id);
        let done = match resident {
            Some(resident) => self.in_session(run, call, resident, &id, result),
            None => self.in_directory(run, decision, call, vault, &id, result),
        };
        if let Ok(outcome) = &done {
            super::end(result, *outcome);
            if run.keep_mount {
                self.keep_mounted(run, vault, result);
            }
        }
        self.note(vault, "proxy_exec_completed", result, &id);
        sweep::after_run(self.vaults, self.places);
        Ok(done?)
    }

    /// Mounts the vault where the command saw it. The command has run, so a failure is a warning.
    fn keep_mounted(&self, run: &Run, vault: &VaultInfo, result: &mut ResultReport) {
        let point = PathBuf::from(&result.mountpoint);
        let mount = || {
            let mounting = Mounting::open(self.vaults, self.places)?;
            mounting.mount(&vault.id.to_string(), &point, run.readonly, By::Auto)
        };
        match mount() {
            Ok(_) => result.kept_mounted = true,
            Err(failure) => result.warnings.push(format!("the vault is not mounted: {}", failure.message())),
        }
    }

    /// In a sandbox of its own.
    fn in_directory(
        &self,
        run: &Run,
        decision: &Decision,
        call: &mut Call<'_>,
        vault: &VaultInfo,
        id: &str,
        result: &mut ResultReport,
    ) -> Result<Outcome, Failure> {
        let using = self.vaults.begin_use(&vault.id.to_string(), &purpose(id, &result.command))?;
        let directory = match self.directory("run", run.readonly, &using) {
            Ok(directory) => directory,
            Err(failure) => {
                self.vaults.end_use(using)?;
                return Err(failure);
            }
        };
        let ran = self.execute(run, decision, call, &directory, id, result);
        // What a command changed before it was killed is recorded as well.
        let recorded = self.keep_changes(directory, using, result);
        let outcome = ran?;
        recorded?;
        Ok(outcome)
    }

    /// In a sandbox that stays.
    fn in_session(
        &self,
        run: &Run,
        call: &mut Call<'_>,
        resident: &mut Resident,
        id: &str,
        result: &mut ResultReport,
    ) -> Result<Outcome, Failure> {
        result.readonly = resident.readonly;
        let command = sandbox::command(run, result, Path::new(&result.mountpoint), id);
        let (theirs, ours) = pipes(call)?;
        let output = self.places.output();
        create(&output)?;
        let ran = match resident.sandbox.exec(&command, theirs) {
            Ok(running) => {
                result.enforcement = Some(resident.enforcement.clone());
                watch(running, ours, &output.join(id), call, result)
            }
            Err(error) => not_started(error, result),
        };
        if let Directory::Own(work) = &resident.directory {
            self.record(work, &mut resident.using, result)?;
        }
        ran
    }

    /// The directory for a command.
    pub(crate) fn directory(&self, kind: &str, readonly: bool, using: &Use) -> Result<Directory, Failure> {
        let store = self.vaults.store();
        let layouts = Layouts::open(&self.places.layouts(), store, LayoutOptions::default())?;
        let support = Support::probe(&self.places.work())?;
        if readonly && support.overlay().is_ok() {
            return Ok(Directory::Shared(layouts.base(using.base())?));
        }
        let work = WorkDirs::open(&self.places.work(), store, &layouts, &support)?;
        let label =
            json!({ "kind": kind, "vault": using.vault().to_string(), "use": using.id().to_string() });
        let options = WorkDirOptions { label: label.to_string(), kind: Kind::Auto };
        Ok(Directory::Own(Box::new(work.create(using.base(), &options)?)))
    }

    fn execute(
        &self,
        run: &Run,
        decision: &Decision,
        call: &mut Call<'_>,
        directory: &Directory,
        id: &str,
        result: &mut ResultReport,
    ) -> Result<Outcome, Failure> {
        let mountpoint = PathBuf::from(&result.mountpoint);
        let files = directory.files(run.readonly)?;
        let network = decision.categories.has(Category::Networked);
        let spec = sandbox::spec(&files, &mountpoint, network);
        let command = sandbox::command(run, result, &mountpoint, id);
        let (theirs, ours) = pipes(call)?;
        let output = self.places.output();
        create(&output)?;
        let running = match Launcher::new().run(&spec, &command, theirs) {
            Ok(running) => running,
            Err(error) => return not_started(error, result),
        };
        result.enforcement = Some(sandbox::report(running.enforcement(), &spec, &files));
        watch(running, ours, &output.join(id), call, result)
    }

    /// Records what the command changed.
    fn keep_changes(
        &self,
        directory: Directory,
        mut using: Use,
        result: &mut ResultReport,
    ) -> Result<(), Failure> {
        let Directory::Own(work) = directory else { return Ok(self.vaults.end_use(using)?) };
        let recorded = self.record(&work, &mut using, result);
        let ended = self.vaults.end_use(using);
        work.remove()?;
        recorded?;
        Ok(ended?)
    }

    fn record(&self, work: &WorkDir, using: &mut Use, result: &mut ResultReport) -> Result<(), Failure> {
        if !work.is_touched()? {
            return Ok(());
        }
        let Ingested { tree, lease, changes, report, .. } =
            work.ingest(&IngestOptions { running: Running::Nothing, threads: 0 })?;
        changes::report(&changes, result);
        result.warnings.extend(report.notices.iter().map(changes::notice));
        if changes.total == 0 {
            return Ok(());
        }
        let note = Note::new("proxy_exec").detail(json!({ "command": result.command }).to_string());
        let report = self.vaults.commit_use(using, tree, lease, &note)?;
        result.conflicts = report
            .conflicts
            .iter()
            .map(|one| FileConflict { path: changes::shown(&one.path), reason: changes::reason(one.kind) })
            .collect();
        if let Some(saved) = report.saved {
            result.warnings.push(format!(
                "some changes are in conflict with others made meanwhile; the checkpoint {} has all of them",
                saved.name
            ));
        }
        Ok(())
    }

    /// Notes in the audit log that a command was refused. It was refused either way.
    pub(super) fn note_refusal(&self, target: &Target, result: &mut ResultReport, operation: &str) {
        self.note(&target.source, operation, result, "");
    }

    fn note(&self, vault: &VaultInfo, operation: &str, result: &mut ResultReport, id: &str) {
        let detail = json!({
            "run": id,
            "command": result.command,
            "cwd": result.cwd,
            "action": result.decision.action,
            "categories": result.decision.categories,
            "rule": result.decision.rule,
            "checkpoint": result.checkpoint,
            "exit_code": result.exit_code,
            "duration_ms": result.duration_ms,
            "changes": result.changes_total,
            "outcome": result.outcome,
        });
        let noted =
            self.vaults.audit_append(Some(&vault.id.to_string()), operation, None, Some(&detail.to_string()));
        if let Err(error) = noted {
            result.warnings.push(format!("the audit log could not be written: {error}"));
        }
    }
}

/// Waits for the command while its renames are served. When this returns, nobody changes its files any more.
fn watch(
    mut running: agentiso_jail::Running,
    ours: Streams,
    files: &Path,
    call: &Call<'_>,
    result: &mut ResultReport,
) -> Result<Outcome, Failure> {
    let renames = Renames::serve(&mut running, result)?;
    let attended = attend(&mut running, ours, files, call, result);
    // Ends the command if that failed, and the renames end with the command.
    drop(running);
    renames.finish(result);
    attended
}

/// What a run says about itself.
pub(crate) fn purpose(id: &str, command: &str) -> BeginUse {
    let purpose = format!("run {id}: {command}").chars().take(500).collect();
    BeginUse { directory: None, purpose }
}

fn pipes(call: &mut Call<'_>) -> Result<(Stdio, Streams), Failure> {
    streams(call.stdin.take())
        .map_err(|error| Failure::new(Code::of_io(&error), format!("could not make pipes: {error}")))
}

impl Directory {
    pub(crate) fn files(&self, readonly: bool) -> Result<Files, Failure> {
        Ok(match self {
            Self::Shared(base) => Files::Layers { lowers: base.lowers().to_vec(), writable: None },
            Self::Own(work) => match work.access()? {
                Access::Overlay(overlay) => Files::Layers {
                    writable: (!readonly).then_some((overlay.upper, overlay.work)),
                    lowers: overlay.lowers,
                },
                Access::Directory(path) => Files::Directory { path: path.to_owned(), readonly },
            },
        })
    }
}

pub(crate) fn create(directory: &Path) -> Result<(), Failure> {
    fs::create_dir_all(directory).map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not create {}: {error}", directory.display()))
    })
}
