//! Starts the detached server of a mount, and is it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentiso_store::{Options, Store};

use super::record::{Record, path};
use super::table::start_time;
use crate::error::MountError;
use crate::fuse::{Serving, serve};
use crate::layouts::{LayoutOptions, Layouts};
use crate::support::Support;
use crate::workdir::{Access, WorkDirs};

/// The answer of a server that works. Anything else is why it does not.
const READY: &str = "ready";

/// How a server is started: this program with these arguments and the path of a record. It must call [`serve_mount`].
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program, usually the present one.
    pub program: PathBuf,
    /// What makes it call [`serve_mount`].
    pub arguments: Vec<OsString>,
}

impl Launcher {
    /// Starts a server and waits until it works.
    pub(super) fn start(&self, record_path: &Path, log: &Path) -> Result<(), MountError> {
        let mut record = Record::read(record_path)?
            .ok_or_else(|| MountError::NotFound { what: record_path.display().to_string() })?;
        let log = File::options().create(true).append(true).open(log).map_err(MountError::io("open", log))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).arg(record_path).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        // SAFETY: setsid is one system call and touches no memory.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            })
        };
        let mut child = command.spawn().map_err(MountError::io("start", &self.program))?;
        record.server = start_time(child.id())?.map(|time| (child.id(), time));
        record.write(record_path)?;
        // What is said before has nothing to do with it: the program may greet.
        let mut answer = String::new();
        let lines = child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        for line in lines {
            let line = line.map_err(MountError::io("start", &self.program))?;
            if line == READY {
                return Ok(());
            }
            if !line.trim().is_empty() {
                answer = line;
            }
        }
        // It ends by itself after it has said why.
        let status = child.wait().map_err(MountError::io("start", &self.program))?;
        let reason = match answer.trim() {
            "" => format!("the server ended with {status}"),
            said => said.to_owned(),
        };
        Err(MountError::Mount { point: record.point(), reason })
    }
}

/// Serves the mount of a record until it is unmounted. Called by a process of its own, with one thread, whose standard
/// output is read by the one that started it.
pub fn serve_mount(record_path: &Path) -> Result<(), MountError> {
    let answer = |text: &str| {
        let mut out = std::io::stdout();
        // On a line of its own, whatever the program has printed. If nobody reads it, the mount works all the same.
        let _ = writeln!(out, "\n{}", text.replace('\n', " "));
        let _ = out.flush();
    };
    let served = prepare(record_path).and_then(|(serving, workdir)| {
        let result = serve(&serving, || {
            answer(READY);
            // Whoever waits for the end of this output must not wait for the end of the mount.
            if let Ok(null) = File::options().write(true).open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(null);
            }
        });
        drop(workdir);
        result
    });
    if let Err(error) = &served {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        answer(&text);
    }
    served
}

fn prepare(record_path: &Path) -> Result<(Serving, crate::workdir::WorkDir), MountError> {
    let record = Record::read(record_path)?
        .ok_or_else(|| MountError::NotFound { what: record_path.display().to_string() })?;
    let store = Store::open(&path(&record.store), Options::default())?;
    let layouts = Layouts::open(&path(&record.layouts), &store, LayoutOptions::default())?;
    let workdirs_path = path(&record.workdirs);
    let support = Support::probe(&workdirs_path)?;
    let workdirs = WorkDirs::open(&workdirs_path, &store, &layouts, &support)?;
    let workdir = workdirs.claim(&record.workdir)?;
    let Access::Overlay(overlay) = workdir.access()? else {
        return Err(MountError::damaged(record_path, "its working directory is no overlay"));
    };
    let merged = workdir.path().join("merged");
    crate::files::private_directory(&merged)?;
    let serving = Serving { overlay, merged, point: record.point(), read_only: record.read_only };
    Ok((serving, workdir))
}
