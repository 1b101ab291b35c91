//! Checkpoints while commands run.

use std::fs;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use agentiso_mounts::{IngestOptions, Kind, MountError, Quiesce, Running};
use agentiso_store::{Node, TreeId, TreePath, lookup, read_content};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::support::*;

/// Stops one process.
struct Stop {
    pid: Pid,
    stops: AtomicU32,
    is_stopped: AtomicBool,
}

impl Quiesce for Stop {
    fn freeze(&self) -> io::Result<()> {
        kill_process(self.pid, Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(self.pid), options)?;
        self.stops.fetch_add(1, Ordering::Relaxed);
        self.is_stopped.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn thaw(&self) -> io::Result<()> {
        self.is_stopped.store(false, Ordering::Relaxed);
        Ok(kill_process(self.pid, Signal::CONT)?)
    }
}

fn text(place: &Place, tree: TreeId, path: &str) -> String {
    let Some(Node::File(file)) = lookup(&place.store, tree, &TreePath::parse(path).unwrap()).unwrap() else {
        panic!("{path}")
    };
    String::from_utf8(read_content(&place.store, file.content, file.size, 1 << 20).unwrap()).unwrap()
}

#[test]
fn a_frozen_command_gives_a_tree_of_one_moment() {
    let place = Place::new();
    let workdir = place.create(place.tree(|root| fill(root, 1, 1)), Kind::Overlay);
    let mut entered = place.enter_test(&workdir, "consistency::count_up");
    // The first line tells that both files exist.
    let mut byte = [0];
    let mut pipe = fs::File::open(pipe_of(&place)).unwrap();
    pipe.read_exact(&mut byte).unwrap();
    let stop = Stop {
        pid: Pid::from_raw(entered.id() as i32).unwrap(),
        stops: AtomicU32::new(0),
        is_stopped: AtomicBool::new(false),
    };
    for round in 1..6 {
        let options = IngestOptions { running: Running::Frozen(&stop), ..IngestOptions::default() };
        let ingested = workdir.ingest(&options).unwrap();
        assert!(ingested.is_consistent);
        // The command writes to `a`, then to `b`: at no moment is `b` ahead, or behind by more than one.
        let number = |path| text(&place, ingested.tree, path).trim().parse::<u64>().unwrap();
        let (a, b) = (number("a"), number("b"));
        assert!(a == b || a == b + 1, "{a} {b}");
        assert_eq!(stop.stops.load(Ordering::Relaxed), round);
        assert!(!stop.is_stopped.load(Ordering::Relaxed));
    }
    entered.child().kill().unwrap();
    entered.child().wait().unwrap();
}

fn pipe_of(place: &Place) -> std::path::PathBuf {
    let path = place.path("started");
    if !path.exists() {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let made = rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0);
        assert!(matches!(made, Ok(()) | Err(rustix::io::Errno::EXIST)));
    }
    path
}

#[test]
#[ignore = "run by another test"]
fn count_up() {
    let place = Place::inherited();
    let put = |name: &str, number: u64| {
        fs::write(format!("{name}.new"), number.to_string()).unwrap();
        fs::rename(format!("{name}.new"), name).unwrap();
    };
    put("a", 0);
    put("b", 0);
    fs::write(pipe_of(&place), "x").unwrap();
    // Ends when it is killed.
    for number in 1..10_000_000 {
        put("a", number);
        put("b", number);
    }
}

#[test]
fn a_hook_that_fails_stops_the_ingest_before_anything_is_recorded() {
    struct Broken;
    impl Quiesce for Broken {
        fn freeze(&self) -> io::Result<()> {
            Err(io::Error::other("no cgroup"))
        }
        fn thaw(&self) -> io::Result<()> {
            panic!("nothing is frozen")
        }
    }
    let place = Place::new();
    let tree = place.tree(|root| fill(root, 1, 1));
    let workdir = place.create(tree, Kind::Overlay);
    fs::write(workdir.writable().join("new"), "x").unwrap();
    let options = IngestOptions { running: Running::Frozen(&Broken), ..IngestOptions::default() };
    assert!(matches!(workdir.ingest(&options), Err(MountError::Io { what: "stop", .. })));
    assert_eq!(workdir.current().unwrap(), tree);
    assert_eq!(place.ingest(&workdir).changes.total, 1);
}

#[test]
fn without_a_hook_quiet_moments_are_recognised() {
    let place = Place::new();
    let workdir = place.create(place.tree(|root| fill(root, 2, 2)), Kind::Overlay);
    place.run(&workdir, "echo x > new; rm -r dir-0");
    let ingested =
        workdir.ingest(&IngestOptions { running: Running::Unfrozen, ..IngestOptions::default() }).unwrap();
    assert!(ingested.is_consistent);
    assert_eq!(ingested.tree, place.shown(&workdir));
}
