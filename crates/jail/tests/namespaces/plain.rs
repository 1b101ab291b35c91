//! A sandbox where namespaces are refused.

use std::fs;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use agentiso_jail::{Bind, Command, End, JailError, Leftovers, Measure, Overlay, State};

use crate::place::{Place, USER, exec, launcher, processes_with, repeat, run, sh, start, wait_readable};

/// Repeats a test as `inside` where nobody may make user namespaces: below one with the limit 0 for them.
fn repeat_without_user_namespaces(test: &str, inside: u32) {
    repeat(test, |command| {
        // SAFETY: the child has one thread, and only makes system calls and writes files.
        unsafe {
            command.pre_exec(move || {
                let user = rustix::process::geteuid().as_raw();
                rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWUSER)?;
                fs::write("/proc/self/setgroups", "deny")?;
                fs::write("/proc/self/gid_map", format!("{inside} {user} 1"))?;
                fs::write("/proc/self/uid_map", format!("{inside} {user} 1"))?;
                fs::write("/proc/sys/user/max_user_namespaces", "0")
            });
        }
    });
}

/// Declares a test that runs where namespaces are refused.
macro_rules! without_namespaces {
    (fn $name:ident() $body:block) => {
        mod $name {
            #[allow(unused_imports, reason = "not every test uses everything")]
            use super::*;

            #[test]
            #[ignore = "runs where namespaces are refused"]
            fn there() $body

            #[test]
            fn where_namespaces_are_refused() {
                repeat_without_user_namespaces(concat!(module_path!(), "::there"), USER);
            }
        }
    };
}

#[test]
#[ignore = "runs as root where user namespaces are refused"]
fn root_without_user_namespaces() {
    let place = Place::new();
    let enforcement = launcher().probe(&place.spec()).unwrap();
    let incomplete: Vec<_> =
        enforcement.measures().iter().filter(|one| one.state != State::Enforced).collect();
    assert_eq!(
        incomplete.iter().map(|one| one.measure).collect::<Vec<_>>(),
        [Measure::UserNamespace],
        "{incomplete:?}"
    );
    let script = "grep CapBnd /proc/self/status | cut -f2; ls -d /root 2>/dev/null; (mount -t tmpfs x /tmp) 2>/dev/null || echo refused";
    assert_eq!(run(&place.spec(), &sh(script)).text(), "0000000000000000\nrefused");
}

#[test]
fn root_makes_the_other_namespaces_without_a_user_namespace() {
    repeat_without_user_namespaces("namespaces::plain::root_without_user_namespaces", 0);
}

without_namespaces! {
    fn it_is_reported_plainly() {
        let place = Place::new();
        let enforcement = launcher().probe(&place.spec()).unwrap();
        let state = |measure| enforcement.get(measure).unwrap().state;
        for measure in [Measure::UserNamespace, Measure::PidNamespace, Measure::Proc, Measure::UtsNamespace] {
            assert_eq!(state(measure), State::Unavailable);
            assert!(enforcement.get(measure).unwrap().detail.contains("namespaces"), "{enforcement:?}");
        }
        for measure in [Measure::Filesystem, Measure::Network, Measure::TreeEnds, Measure::ProcessLimit] {
            assert_eq!(state(measure), State::Degraded, "{measure}");
        }
        for measure in [Measure::Seccomp, Measure::Landlock, Measure::NoNewPrivileges] {
            assert_eq!(state(measure), State::Enforced, "{measure}");
        }
        let error = start(&place.spec().require(Measure::PidNamespace), &sh("true")).err().unwrap();
        assert!(matches!(error, JailError::Unavailable(_)), "{error:?}");
    }
}

without_namespaces! {
    fn the_caller_is_asked_about_renames_all_the_same() {
        let place = Place::new();
        let mut spec = place.spec();
        spec.supervised_renames = true;
        let mut streams = start(&spec, &sh("touch a; mv a b || echo refused")).unwrap();
        let notifier = streams.running.take_rename_notifier().unwrap().unwrap();
        wait_readable(&notifier.listener);
        drop(notifier);
        assert_eq!(streams.finish().text(), "refused");
    }
}

without_namespaces! {
    fn a_command_runs_in_the_directory_itself_and_nowhere_else() {
        let place = Place::new();
        let scratch = place.subdir("scratch");
        fs::write(place.path().join("secret"), "x").unwrap();
        let mut spec = place.spec();
        spec.scratch = Some(scratch.clone());
        let script = format!(
            "pwd; echo x > made; echo x > $HOME/in-home && echo x > $TMPDIR/in-tmp && echo private
             (cat {0}/secret) 2>/dev/null || echo unreadable; (echo x > {0}/other) 2>/dev/null || echo unwritable
             (echo x > /tmp/jail-plain) 2>/dev/null || echo not-tmp
             perl -MSocket -e 'print socket(my $s, AF_INET, SOCK_STREAM, 0) ? \"network\" : \"offline\"'",
            place.path().display()
        );
        let output = run(&spec, &sh(&script));
        let workspace = place.workspace().display().to_string();
        assert_eq!(output.text(), format!("{workspace}\nprivate\nunreadable\nunwritable\nnot-tmp\noffline"));
        assert!(place.workspace().join("made").exists());
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 2);
    }
}

without_namespaces! {
    fn what_needs_a_mount_is_refused() {
        let place = Place::new();
        let overlay = Overlay {
            lowers: vec![place.subdir("a"), place.subdir("b")],
            upper: None,
            work: None,
            target: "/x".into(),
            readonly: true,
        };
        let error = start(&place.spec().mount(overlay), &sh("true")).err().unwrap();
        assert!(matches!(error, JailError::Unavailable(_)), "{error:?}");
        let shown = place.subdir("shown");
        fs::write(shown.join("file"), "x").unwrap();
        let spec = place.spec().mount(Bind::readonly(&shown, "/shown"));
        let script = format!("cd {}; cat file; (echo y > file) 2>/dev/null || echo refused", shown.display());
        assert_eq!(run(&spec, &sh(&script)).text(), "xrefused");
    }
}

without_namespaces! {
    fn its_processes_end_too() {
        let place = Place::new();
        let mark = format!("plain-{}", std::process::id());
        let script = format!(
            "perl -e 'use POSIX; exit if fork; setsid; exit if fork; $SIG{{TERM}} = \"IGNORE\"; open F, \">daemon\"; close F; sleep 1000' {mark}
             while [ ! -e daemon ]; do sleep 0.01; done; trap '' TERM; while :; do sleep 1; done"
        );
        let mut command = sh(&script).timeout(Duration::from_millis(500));
        command.grace = Duration::from_millis(100);
        let output = run(&place.spec(), &command);
        assert_eq!((output.exit.end, output.exit.timed_out), (End::Signal(9), true));
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
    }
}

without_namespaces! {
    fn a_session_ends_with_all_its_processes() {
        let place = Place::new();
        let mark = format!("plain-session-{}", std::process::id());
        let session = launcher().open(&place.spec()).unwrap();
        assert_eq!(exec(&session, &sh("echo x > kept; pwd")).text(), place.workspace().display().to_string());
        let script = format!(
            "(perl -e 'use POSIX; exit if fork; setsid; exit if fork; $SIG{{TERM}} = \"IGNORE\"; open F, \">daemon\"; sleep 1000' {mark}
             while [ ! -e daemon ]; do sleep 0.01; done) > /dev/null 2>&1"
        );
        let keep = Command { leftovers: Leftovers::Keep, ..sh(&script) };
        exec(&session, &keep);
        assert!(!processes_with(&mark).is_empty());
        session.close();
        assert_eq!(processes_with(&mark), Vec::<u32>::new());
    }
}
