//! Renames about which the caller is asked.

use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use agentiso_jail::{End, RenameNotifier, Spec};
use rustix::event::{PollFd, PollFlags, poll};

use crate::place::{Place, Streams, launcher, sh, start, with_pipes};

fn supervised(place: &Place) -> Spec {
    Spec { supervised_renames: true, ..place.spec() }
}

fn notifier(streams: &mut Streams) -> RenameNotifier {
    let notifier = streams.running.take_rename_notifier().unwrap().unwrap();
    assert!(streams.running.take_rename_notifier().is_none(), "it is given once");
    notifier
}

fn wait_for(fd: impl AsFd) -> PollFlags {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, None).unwrap();
    fds[0].revents()
}

as_everyone! {
    fn the_caller_is_asked_and_sees_the_end_of_the_command() {
        let place = Place::new();
        let mut streams = start(&supervised(&place), &sh("touch a; mv a b; echo $?")).unwrap();
        let RenameNotifier { listener, root } = notifier(&mut streams);
        // The command waits in its rename.
        assert!(wait_for(&listener).contains(PollFlags::IN));
        let shown = rustix::fs::statat(&root, "workspace", rustix::fs::AtFlags::empty()).unwrap();
        assert_eq!(shown.st_ino, std::fs::metadata(place.workspace()).unwrap().ino());
        assert!(place.workspace().join("a").exists());
        // Nobody answers: it is not made.
        drop(listener);
        assert_ne!(streams.finish().text(), "0");
        assert!(place.workspace().join("a").exists());
    }
}

as_everyone! {
    fn the_listener_is_hung_up_when_the_command_has_been_killed_in_a_rename() {
        let place = Place::new();
        let mut streams = start(&supervised(&place), &sh("touch a; mv a b")).unwrap();
        let RenameNotifier { listener, .. } = notifier(&mut streams);
        assert!(wait_for(&listener).contains(PollFlags::IN));
        streams.running.kill(std::time::Duration::ZERO).unwrap();
        assert!(streams.finish().exit.killed);
        assert!(wait_for(&listener).contains(PollFlags::HUP));
    }
}

as_everyone! {
    fn each_command_of_a_session_has_its_own() {
        let place = Place::new();
        let session = launcher().open(&supervised(&place)).unwrap();
        let mut waiting = with_pipes(|stdio| session.exec(&sh("touch a; mv a b"), stdio)).unwrap();
        let first = notifier(&mut waiting);
        assert!(wait_for(&first.listener).contains(PollFlags::IN));
        let mut next = with_pipes(|stdio| session.exec(&sh("true"), stdio)).unwrap();
        let second = notifier(&mut next);
        assert_eq!(next.finish().exit.end, End::Code(0));
        assert_eq!(wait_for(&second.listener), PollFlags::HUP);
        waiting.running.kill(std::time::Duration::ZERO).unwrap();
        waiting.finish();
        assert!(wait_for(&first.listener).contains(PollFlags::HUP));
    }
}

as_everyone! {
    fn nobody_is_asked_unless_the_specification_says_so() {
        let place = Place::new();
        let mut streams = start(&place.spec(), &sh("touch a; mv a b")).unwrap();
        assert!(streams.running.take_rename_notifier().is_none());
        assert_eq!(streams.finish().exit.end, End::Code(0));
        assert!(place.workspace().join("b").exists());
    }
}

as_everyone! {
    fn a_command_cannot_take_the_questions_for_itself() {
        let place = Place::new();
        // seccomp(SET_MODE_FILTER, NEW_LISTENER, a program that allows everything).
        let script = "perl -e '$p = pack(\"SCCL\", 6, 0, 0, 0x7fff0000); $f = pack(\"Sx6p\", 1, $p); \
            print syscall(317, 1, 8, $f) < 0 ? $!+0 : \"listening\"'";
        let mut streams = start(&supervised(&place), &sh(script)).unwrap();
        let _notifier = notifier(&mut streams);
        assert_eq!(streams.finish().text(), "16", "EBUSY: there is one already");
    }
}
