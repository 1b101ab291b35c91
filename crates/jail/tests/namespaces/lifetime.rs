//! Every process of a sandbox ends: with its command, its timeout, its caller.

use std::os::unix::process::ExitStatusExt;
use std::process;
use std::time::{Duration, Instant};

use agentiso_jail::{Command, End, Stdio};

use crate::place::{Place, environment, launcher, processes_with, run, sh, start};

/// An argument that no other process has.
fn mark(name: &str) -> String {
    format!("{name}-{}", process::id())
}

/// A long sleep that can be recognised.
fn sleeper(mark: &str) -> String {
    format!("perl -e 'sleep 1000' {mark}")
}

as_everyone! {
    fn the_end_of_a_command_is_reported() {
        let place = Place::new();
        assert_eq!(place.run("exit 7").exit.end, End::Code(7));
        assert_eq!(place.run("kill -9 $$").exit.end, End::Signal(9));
        let output = place.run("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
        assert!(output.exit.usage.user > Duration::ZERO && output.exit.usage.max_rss > 100_000, "{output:?}");
        assert!(!output.exit.timed_out && !output.exit.killed && !output.exit.oom_killed);
    }
}

as_everyone! {
    fn a_command_that_takes_too_long_is_ended() {
        let place = Place::new();
        let output = run(&place.spec(), &sh("echo begun; sleep 1000").timeout(Duration::from_millis(200)));
        assert!(output.exit.timed_out, "{output:?}");
        assert_eq!((output.exit.end, output.stdout.as_str()), (End::Signal(15), "begun\n"));
    }
}

as_everyone! {
    fn a_command_that_ignores_sigterm_is_killed() {
        let place = Place::new();
        let mut command = sh("trap '' TERM; echo ready; while :; do sleep 1; done").timeout(Duration::from_millis(200));
        command.grace = Duration::from_millis(100);
        let output = run(&place.spec(), &command);
        assert_eq!((output.exit.end, output.exit.timed_out), (End::Signal(9), true));
    }
}

as_everyone! {
    fn a_command_may_clean_up_before_it_ends() {
        let place = Place::new();
        let mut command = sh("trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.05; done").timeout(Duration::from_millis(200));
        command.grace = Duration::from_secs(60);
        let output = run(&place.spec(), &command);
        assert_eq!((output.exit.end, output.stdout.as_str()), (End::Code(3), "ready\ncleaned\n"));
    }
}

as_everyone! {
    fn it_can_be_signalled_and_killed() {
        let place = Place::new();
        let streams = start(&place.spec(), &sh("trap 'exit 5' USR1; echo > ready; while :; do sleep 0.05; done")).unwrap();
        while !place.workspace().join("ready").exists() {
            std::thread::yield_now();
        }
        streams.running.signal(libc::SIGUSR1).unwrap();
        assert_eq!(streams.finish().exit.end, End::Code(5));
        let mut streams = start(&place.spec(), &sh("sleep 1000")).unwrap();
        assert_eq!(streams.running.wait_until(Instant::now()).unwrap(), None);
        streams.running.kill(Duration::from_secs(60)).unwrap();
        let exit = streams.finish().exit;
        assert!(exit.killed && !exit.timed_out);
        assert_eq!(exit.end, End::Signal(15));
    }
}

as_everyone! {
    fn daemons_end_with_their_command() {
        let place = Place::new();
        let mark = mark("daemon");
        let script = format!(
            "perl -e 'use POSIX; exit if fork; setsid; exit if fork; $SIG{{TERM}} = $SIG{{HUP}} = \"IGNORE\";
               open F, \">/workspace/daemon\"; close F; sleep 1000' {mark}; while [ ! -e daemon ]; do sleep 0.01; done"
        );
        assert_eq!(place.run(&script).exit.end, End::Code(0));
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
    }
}

as_everyone! {
    fn a_command_that_is_dropped_ends() {
        let place = Place::new();
        let mark = mark("dropped");
        let streams = start(&place.spec(), &sh(&format!("{} & {}", sleeper(&mark), sleeper(&mark)))).unwrap();
        while processes_with(&mark).len() < 2 {
            std::thread::yield_now();
        }
        drop(streams);
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
    }
}

as_everyone! {
    fn a_fork_bomb_is_contained_and_ends() {
        let place = Place::new();
        let mut spec = place.spec();
        spec.limits.processes = Some(60);
        let mark = mark("bomb");
        let script = format!("perl -e 'while (1) {{ my $p = fork; if (!defined $p) {{ open F, \">/workspace/refused\"; close F; }} }}' {mark}");
        let mut command = sh(&script).timeout(Duration::from_secs(3));
        command.grace = Duration::ZERO;
        let output = run(&spec, &command);
        assert!(output.exit.timed_out, "{output:?}");
        assert!(place.workspace().join("refused").exists(), "nothing was refused");
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
    }
}

as_everyone! {
    fn a_flood_of_output_neither_blocks_nor_outlives_its_reader() {
        let place = Place::new();
        let (reader, stdout) = std::io::pipe().unwrap();
        let null = Stdio::null().unwrap();
        let stdio = Stdio { stdin: null.stdin, stdout: stdout.into(), stderr: null.stderr };
        let command = Command::new(["yes"]).env(environment());
        let mut running = launcher().run(&place.spec(), &command, stdio).unwrap();
        crate::place::wait_readable(&reader);
        // A reader that does not read any more.
        drop(reader);
        assert_eq!(running.wait().unwrap().end, End::Signal(libc::SIGPIPE));
    }
}

/// What [`nothing_is_left_when_the_caller_is_killed`] runs and kills.
#[test]
#[ignore = "a part of another test"]
fn caller_that_waits() {
    let place = Place::new();
    let mark = std::env::var("JAIL_TEST_MARK").unwrap();
    let script = format!("trap '' TERM HUP INT; setsid {0} & {0} & {0}", sleeper(&mark));
    start(&place.spec(), &sh(&script)).unwrap().finish();
}

as_everyone! {
    fn nothing_is_left_when_the_caller_is_killed() {
        let mark = mark("orphan");
        let mut caller = process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lifetime::caller_that_waits", "--ignored"])
            .env("JAIL_TEST_MARK", &mark)
            .stdout(process::Stdio::null())
            .spawn()
            .unwrap();
        while processes_with(&mark).len() < 3 {
            assert_eq!(caller.try_wait().unwrap(), None);
            std::thread::yield_now();
        }
        caller.kill().unwrap();
        assert_eq!(caller.wait().unwrap().signal(), Some(9));
        // Init notices by itself; a test that hangs is ended by its runner.
        while !processes_with(&mark).is_empty() {
            std::thread::yield_now();
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains("/workspace"), "{mounts}");
    }
}

/// What [`a_caller_may_be_killed_at_any_time`] runs and kills: a caller that runs one command after another.
#[test]
#[ignore = "a part of another test"]
fn caller_that_never_ends() {
    let place = Place::new();
    let mark = std::env::var("JAIL_TEST_MARK").unwrap();
    loop {
        let script = sh(&format!("setsid {} & exec perl -e 1 {mark}", sleeper(&mark)));
        start(&place.spec(), &script).unwrap().finish();
    }
}

as_everyone! {
    fn a_caller_may_be_killed_at_any_time() {
        let mark = mark("any-time");
        for round in 0..40 {
            let mut caller = process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "lifetime::caller_that_never_ends", "--ignored"])
                .env("JAIL_TEST_MARK", &mark)
                .stdout(process::Stdio::null())
                .spawn()
                .unwrap();
            // Each round is killed at another point of its work. What is checked does not depend on which.
            std::thread::sleep(Duration::from_millis(round * 3));
            caller.kill().unwrap();
            assert_eq!(caller.wait().unwrap().signal(), Some(9));
        }
        while !processes_with(&mark).is_empty() {
            std::thread::yield_now();
        }
    }
}

as_everyone! {
    fn arguments_and_variables_can_be_large() {
        let place = Place::new();
        let large = "x".repeat(100_000);
        let mut command = Command::new(["sh", "-c", "echo ${#1} ${#BIG}", "sh", &large]).env(environment());
        command.env.set("BIG", &large);
        assert_eq!(run(&place.spec(), &command).text(), "100000 100000");
        // More than the kernel takes in one argument.
        let error = start(&place.spec(), &Command::new(["true", &"x".repeat(1 << 20)]).env(environment())).err().unwrap();
        assert!(matches!(error, agentiso_jail::JailError::NotExecutable { .. }), "{error:?}");
    }
}
