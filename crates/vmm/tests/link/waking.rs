//! Holding a guest and waking it.

use agentiso_core::{Code, Explain};
use agentiso_proto::{
    Configure, ErrorKind, ExitStatus, GuestError, HookOutcome, HookReport, Inherit, Request, Response, Wake,
    WakeEvent,
};
use agentiso_vmm::link::{LinkError, Resync, SessionOptions};

use super::{
    acquainted, acquainted_with_older, assert_alive, assert_ends_in_violation, assert_violation, strangers,
};

fn hook(name: &str) -> HookReport {
    let outcome = HookOutcome::Exited(ExitStatus::Code(3));
    HookReport { name: name.to_owned(), outcome, output: b"no luck\n".to_vec() }
}

#[tokio::test]
async fn a_guest_is_held_released_and_woken_with_one_request_each() {
    let (guest, mut script) = acquainted().await;
    for root in [false, true] {
        let (held, ()) = tokio::join!(guest.hold(root), async {
            let (stream, request) = script.request().await.unwrap();
            assert_eq!(request, Request::Hold { root });
            script.finish(stream, &Response::Done).await.unwrap();
        });
        held.unwrap();
    }
    let (released, ()) = tokio::join!(guest.release(), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Release);
        script.finish(stream, &Response::Done).await.unwrap();
    });
    released.unwrap();

    let identity = Configure { hostname: Some("fork".to_owned()), ..Configure::default() };
    let wake = Wake { identity, boot_id: Some([7; 16]), event: WakeEvent::Fork, hooks_ms: Some(9) };
    let hooks = vec![hook("10-a.sh"), hook("20_B")];
    let (woken, ()) = tokio::join!(guest.wake(wake.clone()), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Wake(wake.clone()));
        script.finish(stream, &Response::Woken { hooks: hooks.clone() }).await.unwrap();
    });
    assert_eq!(woken.unwrap(), hooks);
}

#[tokio::test]
async fn a_guest_that_cannot_be_held_reports_it_and_keeps_working() {
    let (guest, mut script) = acquainted().await;
    let error = GuestError { kind: ErrorKind::Busy, errno: None, message: "restless".to_owned() };
    let (held, ()) = tokio::join!(guest.hold(true), async {
        let (stream, _) = script.request().await.unwrap();
        script.finish(stream, &Response::Error(error.clone())).await.unwrap();
    });
    let held = held.unwrap_err();
    assert!(matches!(&held, LinkError::Guest(said) if *said == error), "{held:?}");
    assert_eq!(held.code(), Code::WorkspaceBusy);
    assert!(held.remedy().unwrap().contains("try again"));
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn hooks_with_invalid_names_are_a_violation() {
    for name in ["", "a b", "../x", "\x1b[2J", &"x".repeat(256)] {
        let (guest, mut script) = acquainted().await;
        let (woken, ()) = tokio::join!(guest.wake(Wake::default()), async {
            let (stream, _) = script.request().await.unwrap();
            script.finish(stream, &Response::Woken { hooks: vec![hook("fine"), hook(name)] }).await.unwrap();
        });
        assert_violation(&woken.unwrap_err());
        assert_ends_in_violation(&guest).await;
    }
}

#[tokio::test]
async fn a_wrong_response_to_wake_is_a_violation() {
    let (guest, mut script) = acquainted().await;
    let (woken, ()) = tokio::join!(guest.wake(Wake::default()), async {
        let (stream, _) = script.request().await.unwrap();
        script.finish(stream, &Response::Done).await.unwrap();
    });
    assert_violation(&woken.unwrap_err());
}

#[tokio::test]
async fn a_session_with_a_restored_guest_keeps_it_held() {
    let (_guest, mut script) = strangers(SessionOptions { resync: Resync::Clean, inherit: Inherit::Held });
    assert_eq!(script.hello().await.unwrap().inherit, Inherit::Held);
}

#[tokio::test]
async fn the_guests_clock_is_set_relative_to_its_monotonic_clock() {
    let (guest, mut script) = acquainted().await;
    let (steady, ()) = tokio::join!(guest.steady_clock(), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Clock);
        script.finish(stream, &Response::Clock { nanos: 7 }).await.unwrap();
    });
    assert_eq!(steady.unwrap(), 7);
    let (set, ()) = tokio::join!(guest.set_clock(9), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::SetClock { ahead: 9 });
        script.finish(stream, &Response::Done).await.unwrap();
    });
    set.unwrap();
    let (steady, ()) = tokio::join!(guest.steady_clock(), async {
        let (stream, _) = script.request().await.unwrap();
        script.finish(stream, &Response::Done).await.unwrap();
    });
    assert_violation(&steady.unwrap_err());
}

#[tokio::test]
async fn no_clock_request_is_sent_to_an_older_agent() {
    let (guest, _script) = acquainted_with_older().await;
    assert!(matches!(guest.steady_clock().await, Err(LinkError::OldAgent { version: 1, needed: 3 })));
    assert!(matches!(guest.set_clock(9).await, Err(LinkError::OldAgent { version: 1, needed: 3 })));
}
