//! Several threads and processes at once.

use std::process::{Child, Command};
use std::thread;

use agentiso_vfs::{FileOp, FsckRequest, GcRequest, NewContent, PruneKeep, PruneRequest, StateRef, Vaults};

use crate::support::*;

const ROLE: &str = "VFS_TEST_ROLE";
const HOME: &str = "VFS_TEST_HOME";
const NUMBER: &str = "VFS_TEST_NUMBER";
const LINES: usize = 25;

/// What a process of the tests below does.
#[test]
#[ignore = "the other tests of this file run it in processes of its own"]
fn child() {
    let home = std::path::PathBuf::from(std::env::var_os(HOME).unwrap());
    let number: usize = std::env::var(NUMBER).unwrap().parse().unwrap();
    let vaults = open(&home);
    match std::env::var(ROLE).unwrap().as_str() {
        "append" => append_lines(&vaults, number),
        "fork" => {
            for step in 0..LINES {
                let name = format!("p{number}-{step}");
                let request = agentiso_vfs::ForkVault::new("v", name.parse().unwrap());
                vaults.fork(&request).unwrap();
                vaults.change(&name, &[FileOp::write(&path("own"), name.as_str())]).unwrap();
            }
        }
        "gc" => {
            for _ in 0..4 {
                // Another process may be collecting.
                match vaults.gc(&GcRequest { dry_run: false, thorough: true }, no_more) {
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(agentiso_core::Explain::code(&error), agentiso_core::Code::Timeout)
                    }
                }
                let prune = PruneRequest { keep: PruneKeep::Newest(5), path: None, dry_run: false };
                vaults.prune("v", &prune).unwrap();
            }
        }
        other => panic!("{other}"),
    }
}

fn append_lines(vaults: &Vaults, number: usize) {
    for step in 0..LINES {
        let line = format!("{number}:{step}\n");
        let operation = FileOp::Append { path: path("log"), content: NewContent::Bytes(line.into()) };
        vaults.change("v", &[operation]).unwrap();
    }
}

fn start(place: &Place, role: &str, number: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "concurrency::child", "--ignored", "--quiet"])
        .env(ROLE, role)
        .env(HOME, place.path("home"))
        .env(NUMBER, number.to_string())
        .spawn()
        .unwrap()
}

fn finish(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

/// Every line of every writer, each writer's in order.
fn assert_all_lines(text: &str, writers: usize) {
    for number in 0..writers {
        let prefix = format!("{number}:");
        let steps: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let expected: Vec<_> = (0..LINES).map(|step| step.to_string()).collect();
        assert_eq!(steps, expected);
    }
    assert_eq!(text.lines().count(), writers * LINES);
}

#[test]
fn processes_that_change_one_file_lose_nothing() {
    let place = Place::with_vault();
    finish((0..4).map(|number| start(&place, "append", number)).collect());
    assert_all_lines(&place.read("v", "log"), 4);
    assert_eq!(place.vaults.info("v").unwrap().revision, 4 * LINES as u64);
}

#[test]
fn threads_that_change_one_file_lose_nothing() {
    let place = Place::with_vault();
    thread::scope(|scope| {
        for number in 0..4 {
            let vaults = &place.vaults;
            scope.spawn(move || append_lines(vaults, number));
        }
    });
    assert_all_lines(&place.read("v", "log"), 4);
}

#[test]
fn collections_take_nothing_from_writers_and_readers() {
    let place = Place::with_vault();
    place.write("v", "log", "");
    let mut children: Vec<_> = (0..2).map(|number| start(&place, "append", number)).collect();
    children.push(start(&place, "fork", 0));
    children.push(start(&place, "gc", 0));
    let mut reads = 0;
    while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        let view = place.vaults.view("v", &StateRef::Now).unwrap();
        view.read(&path("log"), None, 1 << 20).unwrap();
        reads += 1;
    }
    finish(children);
    assert!(reads > 0);
    assert_all_lines(&place.read("v", "log"), 2);
    assert_eq!(place.vaults.list().unwrap().len(), 1 + LINES);
    place.vaults.gc(&GcRequest { dry_run: false, thorough: true }, no_more).unwrap();
    let report = place.reopened().fsck(&FsckRequest::default()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    for step in 0..LINES {
        assert_eq!(place.read(&format!("p0-{step}"), "own"), format!("p0-{step}"));
    }
}
