//! Flow control: nobody sends more than the other side accepts, and streams do not block each other.

use agentiso_proto::{
    Channel, DATA_PAYLOAD, Exec, Kind, MAX_STREAMS, MAX_STREAMS_1, Request, Response, WINDOW,
};
use agentiso_vmm::link::{Guest, LinkError, ProcessEvent};

use super::{
    EXIT, Script, acquainted, acquainted_with_older, assert_alive, assert_ends_in_violation, command, running,
};

#[tokio::test]
async fn input_waits_for_credit_without_blocking_other_streams() {
    let (guest, mut script) = acquainted().await;
    let exec = Exec { stdin: true, ..command(&["cat"]) };
    let (mut process, stream) = running(&guest, &mut script, exec).await;
    let mut stdin = process.take_stdin().unwrap();
    let writing = tokio::spawn(async move {
        stdin.write(&vec![5; WINDOW as usize + 10]).await.unwrap();
        stdin.close();
    });
    let mut got = 0;
    while got < WINDOW as usize {
        let frame = script.expect(Kind::Data).await.unwrap();
        assert!(frame.payload.len() <= DATA_PAYLOAD);
        got += frame.payload.len();
    }
    assert_eq!(got, WINDOW as usize);
    // Twice, because a ping overtakes data that is already queued, but not the next ping as well.
    for _ in 0..2 {
        assert_alive(&guest, &mut script).await;
    }
    assert!(!writing.is_finished());
    script.credit(stream, 4).await.unwrap();
    assert_eq!(script.expect(Kind::Data).await.unwrap().payload.len(), 4);
    script.credit(stream, 100).await.unwrap();
    assert_eq!(script.expect(Kind::Data).await.unwrap().payload.len(), 6);
    assert_eq!(script.expect(Kind::Eof).await.unwrap().stream, stream);
    writing.await.unwrap();
}

#[tokio::test]
async fn input_for_an_exited_command_is_rejected() {
    let (guest, mut script) = acquainted().await;
    let exec = Exec { stdin: true, ..command(&["head", "-c1"]) };
    let (mut process, stream) = running(&guest, &mut script, exec).await;
    let mut stdin = process.take_stdin().unwrap();
    let writing = tokio::spawn(async move { stdin.write(&vec![0; 2 * WINDOW as usize]).await });
    for _ in 0..WINDOW as usize / DATA_PAYLOAD {
        script.expect(Kind::Data).await.unwrap();
    }
    script.finish(stream, &Response::Exited(EXIT)).await.unwrap();
    assert!(matches!(writing.await.unwrap(), Err(LinkError::InputEnded)));
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Exited(EXIT)));
}

#[tokio::test]
async fn unread_output_blocks_neither_pings_nor_other_streams_and_credit_follows_reads() {
    let (guest, mut script) = acquainted().await;
    let (mut process, stream) = running(&guest, &mut script, command(&["yes"])).await;
    for _ in 0..16 {
        script.data(stream, Channel::Stdout, &vec![1; WINDOW as usize / 16]).await.unwrap();
    }
    assert_alive(&guest, &mut script).await;
    let (synced, ()) = tokio::join!(guest.sync(), async {
        let (stream, _) = script.request().await.unwrap();
        script.finish(stream, &Response::Done).await.unwrap();
    });
    synced.unwrap();

    for _ in 0..4 {
        assert!(matches!(process.next().await.unwrap(), Some(ProcessEvent::Stdout(_))));
    }
    let grant = script.expect(Kind::Credit).await.unwrap();
    assert_eq!((grant.stream, grant.channel), (stream, Channel::Stdout));
    assert_eq!(grant.payload, (WINDOW / 4).to_le_bytes());
    // Exactly the granted amount may follow.
    script.data(stream, Channel::Stdout, &vec![1; WINDOW as usize / 4]).await.unwrap();
    assert_alive(&guest, &mut script).await;
    script.data(stream, Channel::Stdout, &[1]).await.unwrap();
    assert_ends_in_violation(&guest).await;
}

#[tokio::test]
async fn each_channel_has_its_own_window() {
    let (guest, mut script) = acquainted().await;
    let (_process, stream) = running(&guest, &mut script, command(&["yes"])).await;
    for channel in [Channel::Stdout, Channel::Stderr] {
        for _ in 0..4 {
            script.data(stream, channel, &vec![1; WINDOW as usize / 4]).await.unwrap();
        }
    }
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn requests_beyond_the_stream_limit_wait_for_a_stream_to_end() {
    waits_beyond(MAX_STREAMS, acquainted().await).await;
    waits_beyond(MAX_STREAMS_1, acquainted_with_older().await).await;
}

async fn waits_beyond(limit: usize, (guest, mut script): (Guest, Script)) {
    let mut open = Vec::new();
    for _ in 0..limit {
        open.push(running(&guest, &mut script, command(&["sleep"])).await);
    }
    let late = tokio::spawn({
        let guest = guest.clone();
        async move { guest.sync().await }
    });
    // A cancelled stream counts until the guest has ended it.
    let (process, stream) = open.swap_remove(17);
    drop(process);
    script.expect(Kind::Cancel).await.unwrap();
    assert_alive(&guest, &mut script).await;
    script.finish(stream, &Response::Exited(EXIT)).await.unwrap();
    let (stream, request) = script.request().await.unwrap();
    assert_eq!(request, Request::Sync);
    script.finish(stream, &Response::Done).await.unwrap();
    late.await.unwrap().unwrap();
}
