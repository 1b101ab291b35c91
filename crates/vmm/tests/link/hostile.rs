//! A guest that breaks the protocol.

use agentiso_proto::{Channel, Kind, Response, WINDOW};
use agentiso_vmm::link::{LinkError, ProcessEvent};

use super::{
    EXIT, acquainted, assert_alive, assert_ends_in_violation, assert_violation, command, metadata, running,
};

#[tokio::test]
async fn more_data_than_the_window_ends_the_session() {
    let (guest, mut script) = acquainted().await;
    let (mut process, stream) = running(&guest, &mut script, command(&["yes"])).await;
    for _ in 0..4 {
        script.data(stream, Channel::Stdout, &vec![1; WINDOW as usize / 4]).await.unwrap();
    }
    script.data(stream, Channel::Stdout, &[1]).await.unwrap();
    assert_ends_in_violation(&guest).await;
    for _ in 0..4 {
        assert!(matches!(process.next().await.unwrap(), Some(ProcessEvent::Stdout(_))));
    }
    assert_violation(&process.next().await.unwrap_err());
}

#[tokio::test]
async fn invalid_frames_end_the_session() {
    let senseless: [(Kind, Channel, bool, u32, &[u8]); 13] = [
        (Kind::Data, Channel::Stdout, false, 99, b"unknown stream"),
        (Kind::Eof, Channel::Stdout, false, 99, b""),
        (Kind::Credit, Channel::Main, false, 99, &[1, 0, 0, 0]),
        (Kind::Response, Channel::Main, true, 99, &[0]),
        (Kind::Data, Channel::Main, false, 1, b"not a channel of a command's output"),
        (Kind::Response, Channel::Main, false, 1, b"\xff\xff\xff does not decode"),
        (Kind::Response, Channel::Main, true, 1, b""),
        (Kind::Credit, Channel::Main, false, 1, &[1, 0, 0, 0]),
        (Kind::Credit, Channel::Main, false, 1, &[1, 0]),
        (Kind::Pong, Channel::Main, false, 0, &[0; 8]),
        (Kind::Ping, Channel::Main, false, 0, b""),
        (Kind::Request, Channel::Main, false, 1, b""),
        (Kind::Cancel, Channel::Main, false, 1, b""),
    ];
    for (kind, channel, last, stream, payload) in senseless {
        let (guest, mut script) = acquainted().await;
        let (mut process, opened) = running(&guest, &mut script, command(&["cat"])).await;
        assert_eq!(opened, 1);
        script.send(kind, channel, last, stream, payload).await.unwrap();
        assert_ends_in_violation(&guest).await;
        assert_violation(&process.next().await.unwrap_err());
    }
}

#[tokio::test]
async fn responses_that_do_not_answer_the_request_end_the_session() {
    for (response, last) in [
        (Response::Done, true),
        (Response::Started { pid: 8 }, false),
        (Response::Exited(EXIT), false),
        (Response::Metadata(metadata(1)), false),
    ] {
        let (guest, mut script) = acquainted().await;
        let (mut process, stream) = running(&guest, &mut script, command(&["cat"])).await;
        if last {
            script.finish(stream, &response).await.unwrap();
        } else {
            script.respond(stream, &response).await.unwrap();
        }
        assert_violation(&process.next().await.unwrap_err());
        assert_ends_in_violation(&guest).await;
    }
}

#[tokio::test]
async fn bytes_that_are_not_a_frame_end_the_session() {
    let (guest, mut script) = acquainted().await;
    script.raw(&[0xee; 64]).await.unwrap();
    assert_ends_in_violation(&guest).await;
}

#[tokio::test]
async fn directory_entries_with_invalid_names_end_the_session() {
    for name in ["", ".", "..", "a/b", "../etc", "a\0b"] {
        let (guest, mut script) = acquainted().await;
        let entry = agentiso_proto::DirEntry { name: name.as_bytes().to_vec(), metadata: metadata(0) };
        let (listed, ()) = tokio::join!(guest.list("/"), async {
            let (stream, _) = script.request().await.unwrap();
            script.respond(stream, &Response::Entries(vec![entry])).await.unwrap();
        });
        assert_violation(&listed.unwrap_err());
    }
}

#[tokio::test]
async fn an_endless_listing_fails_only_that_request() {
    let (guest, mut script) = acquainted().await;
    let entry = agentiso_proto::DirEntry { name: b"n".to_vec(), metadata: metadata(0) };
    let entries = Response::Entries(vec![entry; 5000]);
    let (listed, stream) = tokio::join!(guest.list("/"), async {
        let (stream, _) = script.request().await.unwrap();
        for _ in 0..200 {
            script.respond(stream, &entries).await.unwrap();
        }
        stream
    });
    assert!(matches!(listed.unwrap_err(), LinkError::AnswerTooLarge { .. }));
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
    assert_alive(&guest, &mut script).await;
}
