//! Mounts a copy of an empty directory, runs a command there and unmounts: `mounted STATE BY POINT COMMAND...`, where BY is
//! `overlay`, `fuse` or `plain`. `scripts/test-fs` runs file system test suites in it.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a program for developers")]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use agentiso_mounts::{
    By, IngestOptions, Launcher, LayoutOptions, Layouts, MountRequest, Mounts, Support, WorkDirs, serve_mount,
};
use agentiso_store::{ImportOptions, Options, Root, Store, import_directory};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.as_slice() {
        [word, record] if word == "serve" => match serve_mount(Path::new(record)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        [state, by, point, program, rest @ ..] => {
            let by = match by.to_str() {
                Some("overlay") => By::Overlay,
                Some("fuse") => By::Fuse,
                Some("plain") => By::Plain,
                _ => panic!("BY must be overlay, fuse or plain"),
            };
            run(Path::new(state), by, Path::new(point), Command::new(program).args(rest))
        }
        _ => {
            eprintln!("usage: mounted STATE overlay|fuse|plain POINT COMMAND...");
            ExitCode::FAILURE
        }
    }
}

fn run(state: &Path, by: By, point: &Path, command: &mut Command) -> ExitCode {
    let at = |name: &str| state.join(name);
    let store = Store::open_or_create(&at("store"), Options::default()).unwrap();
    std::fs::create_dir_all(at("empty")).unwrap();
    let session = store.begin().unwrap();
    let tree = import_directory(&session, &at("empty"), &ImportOptions::default()).unwrap().tree;
    let _lease = session.commit(&[Root::Tree(tree)]).unwrap();
    let support = Support::probe(&at("work")).unwrap();
    let layouts = Layouts::open(&at("layouts"), &store, LayoutOptions::default()).unwrap();
    let dirs = WorkDirs::open(&at("work"), &store, &layouts, &support).unwrap();
    let launcher = Launcher { program: std::env::current_exe().unwrap(), arguments: vec!["serve".into()] };
    let mounts = Mounts::open(&at("mounts"), &dirs, launcher).unwrap();
    let request = MountRequest { tree, point: point.to_owned(), label: String::new(), read_only: false, by };
    let info = mounts.mount(&request).unwrap();
    let status = command.current_dir(&info.point).status().unwrap();
    let workdir = mounts.unmount(&info.point, false).unwrap();
    let ingested = workdir.ingest(&IngestOptions::default()).unwrap();
    eprintln!("{} changes were read back", ingested.changes.total);
    workdir.remove().unwrap();
    if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
