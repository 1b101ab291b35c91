//! Sandboxes that stay.

use std::time::Duration;

use agentiso_jail::{Command, End, JailError, Leftovers, Session, Stdio};

use crate::place::{Place, environment, exec, launcher, processes_with, sh, with_pipes};

fn open(place: &Place) -> Session {
    launcher().open(&place.spec()).unwrap()
}

as_everyone! {
    fn commands_share_files_and_processes() {
        let place = Place::new();
        let session = open(&place);
        assert_eq!(exec(&session, &sh("echo x > /tmp/kept; exit 3")).exit.end, End::Code(3));
        assert_eq!(exec(&session, &sh("cat /tmp/kept")).text(), "x");
        let server = Command { leftovers: Leftovers::Keep, ..sh("perl -e 'sleep 1000' kept-server > /dev/null 2>&1 &") };
        exec(&session, &server);
        assert_eq!(exec(&session, &sh("grep -lzx 'kept-serve[r]' /proc/[0-9]*/cmdline | wc -l")).text(), "1");
    }
}

as_everyone! {
    fn processes_end_with_their_command_unless_they_are_kept() {
        let place = Place::new();
        let session = open(&place);
        let mark = format!("session-{}", std::process::id());
        let daemon = format!("perl -e 'use POSIX; exit if fork; setsid; exit if fork; $SIG{{TERM}} = \"IGNORE\"; open F, \">daemon\"; sleep 1000' {mark}; while [ ! -e daemon ]; do sleep 0.01; done");
        exec(&session, &sh(&daemon));
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
        std::fs::remove_file(place.workspace().join("daemon")).unwrap();
        let keep = Command { leftovers: Leftovers::Keep, ..sh(&format!("({daemon}) > /dev/null 2>&1 < /dev/null")) };
        exec(&session, &keep);
        assert!(!processes_with(&mark).is_empty());
        session.close();
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
    }
}

as_everyone! {
    fn commands_run_at_the_same_time_and_end_one_by_one() {
        let place = Place::new();
        let session = open(&place);
        let waiting = with_pipes(|stdio| session.exec(&sh("while [ ! -e go ]; do sleep 0.01; done; echo went"), stdio)).unwrap();
        let ended = with_pipes(|stdio| session.exec(&sh("sleep 1000").timeout(Duration::from_millis(100)), stdio)).unwrap();
        assert!(ended.finish().exit.timed_out);
        exec(&session, &sh("touch go"));
        assert_eq!(waiting.finish().text(), "went");
        for number in 0..50 {
            assert_eq!(exec(&session, &sh(&format!("echo {number}"))).text(), number.to_string());
        }
    }
}

as_everyone! {
    fn what_does_not_start_leaves_the_session_usable() {
        let place = Place::new();
        let session = open(&place);
        let missing = Command::new(["no-such-program"]).env(environment());
        let error = session.exec(&missing, Stdio::null().unwrap()).err().unwrap();
        assert!(matches!(error, JailError::ProgramNotFound { .. }), "{error:?}");
        assert_eq!(exec(&session, &sh("echo fine")).text(), "fine");
        // A command is confined as in a sandbox of its own.
        let output = exec(&session, &sh("ls /proc/self/fd; unshare -U true 2>/dev/null || echo refused; kill -9 1; echo alive"));
        assert_eq!(output.text().split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3", "refused", "alive"]);
    }
}

as_everyone! {
    fn a_session_ends_when_its_supervisors_are_killed() {
        let place = Place::new();
        let session = open(&place);
        // Everything that the command may signal, its own supervisor among it.
        let running = with_pipes(|stdio| session.exec(&sh("while [ ! -e go ]; do sleep 0.01; done; kill -9 $PPID; sleep 1000"), stdio)).unwrap();
        std::fs::write(place.workspace().join("go"), "").unwrap();
        let mut running = running.running;
        assert!(matches!(running.wait(), Err(JailError::Lost)));
        while let Ok(mut next) = session.exec(&sh("true"), Stdio::null().unwrap()) {
            drop(next.wait());
        }
    }
}
