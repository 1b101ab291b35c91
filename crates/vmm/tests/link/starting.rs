//! How a session starts and ends.

use std::time::Duration;

use agentiso_core::{Code, Explain};
use agentiso_proto::{
    Channel, Configure, Exec, Inherit, Kind, MAX_PAYLOAD, Request, Response, VERSION_MAX, WINDOW, Welcome,
};
use agentiso_vmm::link::{LinkError, ProcessEvent, Resync, SessionOptions};

use super::{CLEAN, EXIT, acquainted, assert_alive, assert_violation, command, metadata, running, strangers};

#[tokio::test]
async fn leftovers_of_an_earlier_session_are_not_taken_for_a_response() {
    let (guest, mut script) = strangers(CLEAN);
    let hello = script.hello().await.unwrap();
    let stale = Welcome { nonce: [9; 16], version: 1, min: 1, max: 1 };
    script.finish(1, &Response::Done).await.unwrap();
    script.raw(&stale.encode()).await.unwrap();
    script.raw(&[0xff; 5000]).await.unwrap();
    let answer = hello.answer().encode();
    script.raw(&answer[..20]).await.unwrap();
    script.raw(&answer[20..]).await.unwrap();
    assert_eq!(guest.ready().await.unwrap(), VERSION_MAX);
    let (synced, ()) = tokio::join!(guest.sync(), async {
        let (stream, _) = script.request().await.unwrap();
        script.finish(stream, &Response::Done).await.unwrap();
    });
    synced.unwrap();
}

#[tokio::test]
async fn a_guest_in_an_unknown_state_gets_padding_before_the_hello() {
    let (_guest, script) = strangers(SessionOptions { resync: Resync::Unknown, inherit: Inherit::Kill });
    let mut torn = Vec::new();
    agentiso_proto::encode(Kind::Data, Channel::Main, false, 3, &[1; 1000], &mut torn);
    let mut script = script.after(&torn[..500]);
    assert!(matches!(script.event().await.unwrap(), agentiso_proto::Event::Lost(_)));
    assert_eq!(script.hello().await.unwrap().inherit, Inherit::Kill);
}

#[tokio::test]
async fn requests_are_sent_before_the_welcome_and_in_order() {
    let (guest, mut script) = strangers(CLEAN);
    let configure = tokio::spawn({
        let guest = guest.clone();
        async move { guest.configure(Configure { hostname: Some("a".to_owned()), ..Configure::default() }).await }
    });
    let hello = script.hello().await.unwrap();
    let (first, configured) = script.request().await.unwrap();
    assert!(matches!(configured, Request::Configure(_)));
    let mut process = guest.exec(command(&["true"])).await.unwrap();
    let (second, executed) = script.request().await.unwrap();
    assert_eq!(executed, Request::Exec(command(&["true"])));

    script.raw(&hello.answer().encode()).await.unwrap();
    script.finish(first, &Response::Done).await.unwrap();
    script.respond(second, &Response::Started { pid: 1 }).await.unwrap();
    script.finish(second, &Response::Exited(EXIT)).await.unwrap();
    configure.await.unwrap().unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Started { pid: 1 }));
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Exited(EXIT)));
    assert_eq!(process.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_guest_without_a_common_version_fails_every_caller() {
    let (guest, mut script) = strangers(CLEAN);
    let waiting = tokio::spawn({
        let guest = guest.clone();
        async move { guest.sync().await }
    });
    let hello = script.hello().await.unwrap();
    script.raw(&Welcome { nonce: hello.nonce, version: 0, min: 5, max: 6 }.encode()).await.unwrap();
    for error in [guest.ready().await.unwrap_err(), waiting.await.unwrap().unwrap_err(), guest.closed().await]
    {
        assert!(matches!(error, LinkError::Version { min: 5, max: 6 }), "{error:?}");
    }
}

#[tokio::test]
async fn a_version_that_was_never_offered_is_a_violation() {
    let (guest, mut script) = strangers(CLEAN);
    let hello = script.hello().await.unwrap();
    script.raw(&Welcome { nonce: hello.nonce, version: 77, min: 1, max: 77 }.encode()).await.unwrap();
    assert_violation(&guest.ready().await.unwrap_err());
}

#[tokio::test]
async fn a_ping_reports_a_time() {
    let (guest, mut script) = acquainted().await;
    let (pinged, ponged) = tokio::join!(guest.ping(), script.pong());
    ponged.unwrap();
    assert!(pinged.unwrap() > Duration::ZERO);
}

#[tokio::test]
async fn a_closing_link_fails_every_waiting_call() {
    let (guest, mut script) = acquainted().await;
    let exec = Exec { stdin: true, ..command(&["cat"]) };
    let (mut process, stream) = running(&guest, &mut script, exec).await;
    let mut stdin = process.take_stdin().unwrap();
    let writing = tokio::spawn(async move { stdin.write(&vec![0; 2 * WINDOW as usize]).await });
    let syncing = tokio::spawn({
        let guest = guest.clone();
        async move { guest.sync().await }
    });
    let pinging = tokio::spawn({
        let guest = guest.clone();
        async move { guest.ping().await }
    });
    let mut seen = Vec::new();
    while !(seen.contains(&Kind::Ping) && seen.contains(&Kind::Request)) {
        seen.push(script.frame().await.unwrap().kind);
    }
    script.data(stream, Channel::Stdout, b"last words").await.unwrap();
    drop(script);
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Stdout("last words".into())));
    for error in [
        process.next().await.unwrap_err(),
        writing.await.unwrap().unwrap_err(),
        syncing.await.unwrap().unwrap_err(),
        pinging.await.unwrap().unwrap_err(),
        guest.closed().await,
        guest.exec(command(&["late"])).await.unwrap_err(),
    ] {
        assert!(matches!(error, LinkError::Closed(_)), "{error:?}");
        assert_eq!(error.code(), Code::VmCrashed);
    }
}

#[tokio::test]
async fn a_link_that_closes_before_the_welcome_is_not_ready() {
    let (guest, script) = strangers(CLEAN);
    drop(script);
    assert!(matches!(guest.ready().await, Err(LinkError::Closed(_))));
}

#[tokio::test]
async fn an_oversized_request_is_rejected_on_the_host() {
    let (guest, mut script) = acquainted().await;
    let error = guest.exec(command(&["echo", &"x".repeat(MAX_PAYLOAD)])).await.unwrap_err();
    assert!(matches!(error, LinkError::TooLarge { bytes } if bytes > MAX_PAYLOAD), "{error:?}");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.remedy().unwrap().contains("standard input"));
    assert_alive(&guest, &mut script).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_answered_in_reverse_get_their_own_responses() {
    let (guest, mut script) = acquainted().await;
    let calls: Vec<_> = (0..100_u64)
        .map(|number| {
            let guest = guest.clone();
            tokio::spawn(async move { (number, guest.stat(number.to_string(), true).await.unwrap().size) })
        })
        .collect();
    let mut requests = Vec::new();
    for _ in 0..100 {
        let (stream, request) = script.request().await.unwrap();
        let Request::Stat { path, .. } = request else { panic!("{request:?}") };
        requests.push((stream, String::from_utf8(path).unwrap().parse().unwrap()));
    }
    for (stream, number) in requests.into_iter().rev() {
        script.finish(stream, &Response::Metadata(metadata(number))).await.unwrap();
    }
    for call in calls {
        let (asked, answered) = call.await.unwrap();
        assert_eq!(asked, answered);
    }
}
