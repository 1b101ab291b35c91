//! Connections to servers in the guest.

use agentiso_proto::{
    Channel, ErrorKind, GuestError, Kind, MAX_STREAMS, MAX_STREAMS_1, Request, Response, from_bytes,
};
use agentiso_vmm::link::{ConnectionReader, ConnectionWriter, Guest, LinkError};

use super::{
    Script, acquainted, acquainted_with_older, assert_alive, assert_ends_in_violation, assert_violation,
};

async fn connected(guest: &Guest, script: &mut Script) -> (u32, ConnectionReader, ConnectionWriter) {
    let (connection, stream) = tokio::join!(guest.connect(80), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Connect { port: 80 });
        script.respond(stream, &Response::Connected).await.unwrap();
        stream
    });
    let (reader, writer) = connection.unwrap();
    (stream, reader, writer)
}

async fn end(script: &mut Script, stream: u32) {
    script.send(Kind::Eof, Channel::Main, false, stream, &[]).await.unwrap();
}

#[tokio::test]
async fn each_direction_is_closed_independently() {
    let (guest, mut script) = acquainted().await;
    let (stream, mut reader, mut writer) = connected(&guest, &mut script).await;
    writer.write(b"request").await.unwrap();
    assert_eq!(script.expect(Kind::Data).await.unwrap().payload, b"request");
    script.data(stream, Channel::Main, b"answer").await.unwrap();
    end(&mut script, stream).await;
    assert_eq!(reader.next().await.unwrap().unwrap(), "answer");
    assert_eq!(reader.next().await.unwrap(), None);
    assert_eq!(reader.next().await.unwrap(), None);
    // Writing continues, even without the reader.
    drop(reader);
    writer.write(b"more").await.unwrap();
    assert_eq!(script.expect(Kind::Data).await.unwrap().payload, b"more");
    writer.finish();
    assert_eq!(script.expect(Kind::Eof).await.unwrap().stream, stream);
    // The agent may take its time, and is not cancelled.
    assert_alive(&guest, &mut script).await;
    script.credit(stream, 11).await.unwrap();
    script.finish(stream, &Response::Done).await.unwrap();
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn the_response_arrives_after_the_writer_is_closed() {
    let (guest, mut script) = acquainted().await;
    let (stream, mut reader, writer) = connected(&guest, &mut script).await;
    writer.finish();
    assert_eq!(script.expect(Kind::Eof).await.unwrap().stream, stream);
    script.data(stream, Channel::Main, b"answer").await.unwrap();
    end(&mut script, stream).await;
    script.finish(stream, &Response::Done).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), "answer");
    assert_eq!(reader.next().await.unwrap(), None);
}

#[tokio::test]
async fn dropping_the_reader_before_the_end_breaks_the_connection() {
    let (guest, mut script) = acquainted().await;
    let (stream, reader, mut writer) = connected(&guest, &mut script).await;
    drop(reader);
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
    let cancelled = GuestError { kind: ErrorKind::Cancelled, errno: None, message: "cancelled".to_owned() };
    script.finish(stream, &Response::Error(cancelled)).await.unwrap();
    assert_alive(&guest, &mut script).await;
    assert!(matches!(writer.write(b"late").await, Err(LinkError::Disconnected)));
}

#[tokio::test]
async fn a_broken_connection_is_an_error_after_the_received_data() {
    let (guest, mut script) = acquainted().await;
    let (stream, mut reader, mut writer) = connected(&guest, &mut script).await;
    script.data(stream, Channel::Main, b"first").await.unwrap();
    let reset = GuestError { kind: ErrorKind::Io, errno: Some(104), message: "port 80 broke".to_owned() };
    script.finish(stream, &Response::Error(reset.clone())).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), "first");
    assert!(matches!(reader.next().await, Err(LinkError::Guest(error)) if error == reset));
    assert_eq!(reader.next().await.unwrap(), None);
    assert!(matches!(writer.write(b"late").await, Err(LinkError::Disconnected)));
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn a_refused_connection_is_the_guests_error() {
    let (guest, mut script) = acquainted().await;
    let refused = GuestError { kind: ErrorKind::NotFound, errno: Some(111), message: "port 80".to_owned() };
    let (connection, ()) = tokio::join!(guest.connect(80), async {
        let (stream, _) = script.request().await.unwrap();
        script.finish(stream, &Response::Error(refused.clone())).await.unwrap();
    });
    assert!(matches!(connection, Err(LinkError::Guest(error)) if error == refused));
}

#[tokio::test]
async fn a_final_response_without_end_of_data_is_a_violation() {
    let (guest, mut script) = acquainted().await;
    let (stream, mut reader, _writer) = connected(&guest, &mut script).await;
    script.finish(stream, &Response::Done).await.unwrap();
    assert_violation(&reader.next().await.unwrap_err());
    assert_ends_in_violation(&guest).await;
}

#[tokio::test]
async fn no_connect_request_is_sent_to_an_older_agent() {
    let (guest, _script) = acquainted_with_older().await;
    assert!(matches!(guest.connect(80).await, Err(LinkError::OldAgent { .. })));
}

#[tokio::test]
async fn a_connection_to_another_machine_names_its_address() {
    let (guest, mut script) = acquainted().await;
    let address = [10, 99, 0, 3];
    let (connection, ()) = tokio::join!(guest.connect_to(address.into(), 80), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::ConnectTo { address, port: 80 });
        script.respond(stream, &Response::Connected).await.unwrap();
        script.data(stream, Channel::Main, b"answer").await.unwrap();
    });
    let (mut reader, _writer) = connection.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), "answer");

    let (guest, _script) = acquainted_with_older().await;
    let refused = guest.connect_to(address.into(), 80).await;
    assert!(matches!(refused, Err(LinkError::OldAgent { version: 1, needed: 7 })));
}

#[tokio::test]
async fn waiting_connections_do_not_block_commands() {
    let (guest, mut script) = acquainted().await;
    let mut open = Vec::new();
    for _ in 0..MAX_STREAMS - MAX_STREAMS_1 {
        open.push(connected(&guest, &mut script).await);
    }
    let late = tokio::spawn({
        let guest = guest.clone();
        async move { guest.connect(81).await.map(drop) }
    });
    let (synced, ()) = tokio::join!(guest.sync(), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Sync);
        script.finish(stream, &Response::Done).await.unwrap();
    });
    synced.unwrap();
    drop(open.pop());
    loop {
        let frame = script.frame().await.unwrap();
        if frame.kind == Kind::Request {
            assert_eq!(from_bytes(&frame.payload), Ok(Request::Connect { port: 81 }));
            break;
        }
    }
    late.abort();
}
