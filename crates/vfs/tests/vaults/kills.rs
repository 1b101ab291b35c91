//! Processes are killed in the middle of their work. What was answered is there; what was not has not happened.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use agentiso_store::Steps;
use agentiso_vfs::{
    BeginUse, FileOp, ForkVault, FsckRequest, GcRequest, ImportMode, ImportRequest, MergeVaults, OnConflict,
    Options, PruneKeep, PruneRequest, Restore, SaveCheckpoint, StateRef, Vaults,
};

use crate::support::*;

const HOME: &str = "VFS_TEST_KILL_HOME";
const OPERATION: &str = "VFS_TEST_KILL_OPERATION";
const KILL_AT: &str = "VFS_TEST_KILL_AT";
const ROUND: &str = "VFS_TEST_KILL_ROUND";

/// Changes vaults until it is killed; prints a line for each answer. Every change writes two files with one text, so a
/// state in which they differ is a change that was torn.
#[test]
#[ignore = "a test of this file runs it in processes of its own"]
fn child() {
    let vaults = open(&std::path::PathBuf::from(std::env::var_os(HOME).unwrap()));
    let round = std::env::var(ROUND).unwrap();
    for step in 0..10_000 {
        let text = format!("{round}.{step}");
        let operations =
            [FileOp::write(&path("a"), text.as_str()), FileOp::write(&path("dir/b"), text.as_str())];
        vaults.change("v", &operations).unwrap();
        println!("\nwrote {text}");
        let name = format!("c{round}-{step}");
        let request = SaveCheckpoint { name: Some(name.clone()), ..SaveCheckpoint::default() };
        vaults.save_checkpoint("v", &request).unwrap();
        println!("\nsaved {name} {text}");
        let fork = format!("f{round}-{step}");
        vaults.fork(&ForkVault::new("v", fork.parse().unwrap())).unwrap();
        println!("\nforked {fork} {text}");
        let run = vaults.begin_use(&fork, &BeginUse::default()).unwrap();
        vaults.change(&fork, &[FileOp::write(&path("extra"), text.as_str())]).unwrap();
        vaults.end_use(run).unwrap();
        let merge = MergeVaults { on_conflict: OnConflict::Theirs, ..MergeVaults::new(&fork, "v") };
        vaults.merge(&merge).unwrap();
        let state = StateRef::Checkpoint(name);
        vaults.restore("v", &Restore { state, force: true, ..Restore::default() }).unwrap();
        if step % 3 == 2 {
            let _ = vaults.gc(&GcRequest { dry_run: false, thorough: true }, no_more);
            let prune = PruneRequest { keep: PruneKeep::Newest(20), path: None, dry_run: false };
            vaults.prune("v", &prune).unwrap();
        }
    }
}

fn start(place: &Place, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::child", "--ignored", "--nocapture"])
        .env(HOME, place.path("home"))
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_answered() {
    let place = Place::with_vault();
    place.write("v", "dir/b", "");
    place.write("v", "a", "");
    let mut answers = 0;
    for round in 0..100 {
        let mut child = start(&place, round);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The kill comes after a different number of answers each time, and falls where it falls.
        let mut told: Vec<String> = Vec::new();
        while told.len() < 1 + round % 7 {
            let line = lines.next().expect("the child ends only when it is killed").unwrap();
            if ["wrote ", "saved ", "forked "].iter().any(|word| line.starts_with(word)) {
                told.push(line);
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rest = lines.map_while(Result::ok);
        told.extend(rest.filter(|line| ["saved ", "forked "].iter().any(|word| line.starts_with(word))));
        answers += told.len();
        let vaults = place.reopened();
        verify(&vaults, &told);
    }
    assert!(answers > 300, "{answers}");
    let vaults = place.reopened();
    assert!(vaults.uses(None).unwrap().iter().all(|one| !one.is_alive));
    for left in vaults.uses(None).unwrap() {
        assert!(vaults.forget_use(left.id).unwrap());
    }
    vaults.gc(&GcRequest { dry_run: false, thorough: true }, no_more).unwrap();
    let report = vaults.fsck(&FsckRequest::default()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let stats = vaults.stats(None).unwrap();
    assert_eq!((stats.store.temporary_files, stats.store.leases), (0, 0));
}

fn verify(vaults: &Vaults, told: &[String]) {
    let pair = |vault: &str, state: &StateRef| {
        let view = vaults.view(vault, state).unwrap();
        let read = |at: &str| String::from_utf8(view.read(&path(at), None, 99).unwrap().bytes).unwrap();
        let (a, b) = (read("a"), read("dir/b"));
        assert_eq!(a, b);
        assert_eq!(view.totals().unwrap(), counted(vaults, &view));
        a
    };
    pair("v", &StateRef::Now);
    for line in told {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["saved", name, text] => assert_eq!(pair("v", &StateRef::Checkpoint((*name).to_owned())), **text),
            ["forked", name, text] => assert_eq!(pair(name, &StateRef::Now), **text),
            _ => {}
        }
    }
}

/// Files and bytes, counted one by one.
fn counted(vaults: &Vaults, view: &agentiso_vfs::View) -> agentiso_vfs::Totals {
    let texts = texts(vaults, view.tree());
    let directories = u64::from(texts.keys().any(|at| at.starts_with("/dir/")));
    let bytes = texts.values().map(|text| text.len() as u64).sum();
    agentiso_vfs::Totals { files: texts.len() as u64, directories, bytes }
}

/// One operation, in a process that is killed at one of its steps.
#[test]
#[ignore = "the other tests of this file run it in processes of its own"]
fn one_operation() {
    let kill_at: usize = std::env::var(KILL_AT).unwrap().parse().unwrap();
    let count = AtomicUsize::new(1);
    let steps = Steps::new(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == kill_at {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
        }
        Ok(())
    });
    let home = std::path::PathBuf::from(std::env::var_os(HOME).unwrap());
    let vaults = Vaults::open(&home, Options { steps, ..Options::default() }).unwrap();
    match std::env::var(OPERATION).unwrap().as_str() {
        "change" => drop(vaults.change("v", &[FileOp::write(&path("dir/b"), "after")]).unwrap()),
        "import" => {
            let request = ImportRequest { mode: ImportMode::Replace, ..ImportRequest::default() };
            drop(vaults.import("v", &home.join("../in"), &path("dir"), &request).unwrap());
        }
        "merge" => drop(vaults.merge(&MergeVaults::new("x", "v")).unwrap()),
        "restore" => {
            let state = StateRef::Checkpoint("c".to_owned());
            let request = Restore { state, paths: vec![path("dir")], force: false };
            drop(vaults.restore("v", &request).unwrap());
        }
        other => panic!("{other}"),
    }
}

/// Kills the operation at each step until it completes. Before that the vault is as it was, and a collection leaves
/// nothing of the attempts behind.
fn kill_everywhere(operation: &str, expected: &str) {
    let place = Place::with_vault();
    std::fs::create_dir(place.path("in")).unwrap();
    std::fs::write(place.path("in/b"), "after").unwrap();
    place.write("v", "dir/b", "after");
    let saved = SaveCheckpoint { name: Some("c".to_owned()), ..SaveCheckpoint::default() };
    place.vaults.save_checkpoint("v", &saved).unwrap();
    place.write("v", "dir/b", "before");
    place.fork("v", "x");
    place.write("x", "dir/b", "after");
    for kill_at in 1..200 {
        let before = place.vaults.info("v").unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::one_operation", "--ignored", "--quiet"])
            .env(HOME, place.path("home"))
            .env(OPERATION, operation)
            .env(KILL_AT, kill_at.to_string())
            .output()
            .unwrap();
        let vaults = place.reopened();
        vaults.gc(&GcRequest { dry_run: false, thorough: true }, no_more).unwrap();
        assert!(vaults.fsck(&FsckRequest::default()).unwrap().is_clean());
        if status.status.success() {
            assert!(kill_at > 1, "{operation} was never killed");
            assert_eq!(read(&vaults, "v", "dir/b"), expected);
            let stats = vaults.stats(None).unwrap().store;
            assert_eq!((stats.temporary_files, stats.leases), (0, 0));
            return;
        }
        let signal = std::os::unix::process::ExitStatusExt::signal(&status.status);
        assert_eq!(signal, Some(9), "{}", String::from_utf8_lossy(&status.stdout));
        assert_eq!(vaults.info("v").unwrap(), before);
    }
    panic!("the operation does not end");
}

#[test]
fn a_change_killed_at_any_step_is_complete_or_absent() {
    kill_everywhere("change", "after");
}

#[test]
fn an_import_killed_at_any_step_is_complete_or_absent() {
    kill_everywhere("import", "after");
}

#[test]
fn a_merge_killed_at_any_step_is_complete_or_absent() {
    kill_everywhere("merge", "after");
}

#[test]
fn a_restore_killed_at_any_step_is_complete_or_absent() {
    kill_everywhere("restore", "after");
}

#[test]
fn a_full_disk_at_any_step_changes_nothing() {
    let place = Place::with_vault();
    place.write("v", "f", "before");
    let before = place.vaults.info("v").unwrap();
    for fail_at in 1..200 {
        let count = AtomicUsize::new(1);
        let steps = Steps::new(move |_| match count.fetch_add(1, Ordering::Relaxed) == fail_at {
            true => Err(std::io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        });
        let vaults = Vaults::open(&place.path("home"), Options { steps, ..Options::default() }).unwrap();
        match vaults.change("v", &[FileOp::write(&path("f"), "after")]) {
            Ok(_) => {
                assert!(fail_at > 3);
                return;
            }
            Err(error) => assert_eq!(agentiso_core::Explain::code(&error), agentiso_core::Code::DiskFull),
        }
        drop(vaults);
        assert_eq!(place.vaults.info("v").unwrap(), before);
        assert_eq!(place.read("v", "f"), "before");
    }
    panic!("the change never succeeds");
}
