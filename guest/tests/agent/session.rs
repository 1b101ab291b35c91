//! How sessions start, break and start again.

use agentiso_proto::{
    Channel, Configure, Control, ErrorKind, HEADER_LEN, Hello, Inherit, Kind, MAX_PAYLOAD, RESYNC_PADDING,
    Request, Response, VERSION_MAX, VERSION_MIN, Wake, encode, to_bytes,
};
use proptest::prelude::*;

use crate::host::{Host, shell};

#[test]
fn garbage_before_the_first_hello_is_skipped() {
    let mut host = Host::start_silent();
    host.raw(b"\r\nlogin: \xa7iso\x01\x02\x03");
    assert_eq!(host.hello(Inherit::Kill).version, VERSION_MAX);
    host.ping(b"here");
}

#[test]
fn without_a_common_version_nothing_but_another_hello_is_answered() {
    let mut host = Host::start_silent();
    let (mut future, mut ancient) = (Hello::new([9; 16], Inherit::Kill), Hello::new([8; 16], Inherit::Kill));
    (future.min, future.max) = (500, 600);
    (ancient.min, ancient.max) = (0, 0);
    for hello in [future, ancient] {
        host.raw(&hello.encode());
        let welcome = host.welcome(hello.nonce);
        assert_eq!((welcome.version, welcome.min, welcome.max), (0, VERSION_MIN, VERSION_MAX));
        host.frame(Kind::Ping, Channel::Main, 0, b"unheard");
    }
    assert_eq!(host.hello(Inherit::Kill).version, VERSION_MAX);
    host.ping(b"heard");
}

#[test]
fn a_session_cut_within_a_frame_can_be_replaced_after_padding() {
    let mut host = Host::start();
    let mut frame = Vec::new();
    let request = to_bytes(&Request::Exec(shell("true"))).unwrap();
    encode(Kind::Request, Channel::Main, false, 1, &request, &mut frame);
    let mut largest = Vec::new();
    encode(Kind::Data, Channel::Main, false, 1, &vec![0x5a; MAX_PAYLOAD], &mut largest);
    let cuts =
        [1, HEADER_LEN - 1, HEADER_LEN, HEADER_LEN + 1, frame.len() - 1].map(|at| frame[..at].to_vec());
    let cuts =
        cuts.into_iter().chain([largest[..HEADER_LEN + 5].to_vec(), largest[..largest.len() - 1].to_vec()]);
    for cut in cuts {
        host.raw(&cut);
        host.raw(&vec![0; RESYNC_PADDING]);
        assert_eq!(host.hello(Inherit::Kill).version, VERSION_MAX);
        host.exec(shell("exit 3")).assert_code(3);
    }
}

#[test]
fn a_hello_between_frames_needs_no_padding_and_ends_the_old_session() {
    let mut host = Host::start();
    for _ in 0..5 {
        let stream = host.open(&Request::Exec(shell("yes")));
        host.wait_until(stream, |heard| heard.stdout.len() > 100_000);
        host.hello(Inherit::Kill);
        assert_eq!(host.status().running, 0);
    }
}

#[test]
fn nothing_of_an_old_session_leaks_into_the_new_one() {
    let mut host = Host::start();
    for _ in 0..20 {
        let streams: Vec<u32> =
            (0..4).map(|_| host.open(&Request::Exec(shell("head -c 400000 /dev/zero")))).collect();
        host.wait_until(streams[0], |heard| !heard.stdout.is_empty());
        host.hello(Inherit::Keep);
        // The test host rejects frames of streams that it did not open in this session.
        host.ping(b"between");
        host.exec(shell("true")).assert_code(0);
    }
}

#[test]
fn invalid_frames_are_answered_or_skipped() {
    let mut host = Host::start();
    host.expect_stream(1);
    host.frame(Kind::Request, Channel::Main, 1, b"\xff\xff\xff");
    assert_eq!(host.finish(1).error(), ErrorKind::Invalid);
    host.expect_stream(2);
    let mut trailing = to_bytes(&Request::Status).unwrap();
    trailing.push(0);
    host.frame(Kind::Request, Channel::Main, 2, &trailing);
    assert_eq!(host.finish(2).error(), ErrorKind::Invalid);
    for kind in [Kind::Data, Kind::Eof, Kind::Credit, Kind::Cancel, Kind::Control, Kind::Response, Kind::Pong]
    {
        host.frame(kind, Channel::Stderr, 4711, b"for nobody");
    }
    host.open_on(3, &Request::Exec(shell("echo ready; sleep 1000")));
    host.wait_until(3, |heard| heard.stdout == b"ready\n");
    host.frame(Kind::Control, Channel::Main, 3, b"\xff\xff");
    host.frame(Kind::Credit, Channel::Stdout, 3, b"\x01");
    host.frame(Kind::Credit, Channel::Stdout, 3, &u32::MAX.to_le_bytes());
    host.frame(Kind::Data, Channel::Stdout, 3, b"on a channel that only the guest uses");
    host.control(3, Control::Signal(-5));
    host.control(3, Control::Signal(4096));
    host.control(3, Control::Resize { columns: 1, rows: 1 });
    host.ping(b"still there");
    assert_eq!(host.heard(3).last, None);
    host.cancel(3);
    assert!(host.finish(3).exit().cancelled);
}

#[test]
fn an_agent_that_is_not_pid_1_does_not_change_the_machine() {
    let mut host = Host::start();
    let configure = Configure { hostname: Some("renamed".into()), ..Configure::default() };
    let requests = [
        Request::Wake(Wake { identity: configure.clone(), ..Wake::default() }),
        Request::Configure(configure),
        Request::Freeze,
        Request::Thaw,
        Request::Grow,
        Request::Hold { root: false },
        Request::Release,
        Request::PowerOff,
        Request::SetClock { ahead: 1_000_000_000_000_000_000 },
    ];
    for request in requests {
        assert_eq!(host.call(&request).error(), ErrorKind::Unsupported, "{request:?}");
    }
    host.call(&Request::Sync).assert_done();
}

#[test]
fn the_monotonic_clock_advances() {
    let mut host = Host::start();
    let mut read = || match host.call(&Request::Clock).last {
        Some(Response::Clock { nanos }) => nanos,
        other => panic!("not a clock: {other:?}"),
    };
    let first = read();
    assert!(first > 0 && read() > first);
}

#[test]
fn the_agent_reports_its_status() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(shell("echo ready; sleep 1000")));
    host.wait_until(stream, |heard| heard.stdout == b"ready\n");
    let status = host.status();
    assert_eq!((status.running, status.zombies, status.root_bytes), (1, 0, 0));
    assert!(status.rss_kib > 0 && status.open_fds > 3 && status.threads >= 4);
    assert!(status.mem_available_kib > 0 && status.mem_available_kib <= status.mem_total_kib);
    host.cancel(stream);
    host.finish(stream);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_next_session_works_after_arbitrary_frames(
        noise in proptest::collection::vec(any::<u8>(), 0..2000),
        kinds in proptest::collection::vec((1_u8..10, 0_u8..3, 0_u32..4, proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
    ) {
        let mut host = Host::start();
        for (kind, channel, stream, payload) in kinds {
            // A valid request could do anything, so avoid that kind.
            let kind = if kind == 1 { 3 } else { kind };
            let mut bytes = vec![kind, channel, 0, 0];
            bytes.extend_from_slice(&stream.to_le_bytes());
            bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&payload);
            bytes.push(agentiso_proto::TRAILER);
            host.raw(&bytes);
        }
        host.raw(&[0xff]);
        host.raw(&noise);
        host.raw(&vec![0; RESYNC_PADDING]);
        prop_assert_eq!(host.hello(Inherit::Kill).version, VERSION_MAX);
        host.exec(shell("exit 5")).assert_code(5);
    }
}
