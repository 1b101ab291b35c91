//! Successive sessions on the same port, whatever state the last one left.

use agentiso_proto::{
    Channel, Hello, Inherit, Kind, MAX_PAYLOAD, RESYNC_PADDING, Request, encode, encode_header, to_bytes,
};
use agentiso_vmm::link::{FileReader, LinkError, WriteOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bare::{BareMachine, Session};
use crate::machine::{noise, read, read_until, script, script_with_input, sh, started, until, write};

const PLAIN: WriteOptions = WriteOptions { mode: None, append: false, parents: false };

#[tokio::test]
async fn a_new_session_starts_whatever_the_old_one_left() {
    let machine = BareMachine::start().await;
    let session = machine.settle_in().await;
    let content = noise(4 << 20);
    write(&session, "/root/large", &content, PLAIN).await.unwrap();
    sh(&session, "true").await;
    let before = session.status().await.unwrap();
    session.cut().await;

    for garbage in garbage() {
        // On a separate connection, which ends in the middle.
        let mut raw = machine.connect().await;
        raw.write_all(&garbage).await.unwrap();
        drop(raw);
        let session = machine.session(Inherit::Keep).await;
        assert_eq!(sh(&session, "echo alive").await, "alive");
        session.cut().await;

        // On the same connection: the agent cannot tell that another host is sending.
        let mut raw = machine.connect().await;
        raw.write_all(&garbage).await.unwrap();
        let session = Session::open(raw, Inherit::Keep).await;
        assert_eq!(sh(&session, "echo alive").await, "alive");
        session.cut().await;
    }

    // Large responses are in flight when the connection is cut.
    for _ in 0..3 {
        let session = machine.session(Inherit::Keep).await;
        let mut reader = session.read_file(b"/root/large".as_slice(), 0, None).await.unwrap();
        reader.metadata().await.unwrap();
        let mut flood = session.exec(script("cat /root/large /root/large")).await.unwrap();
        started(&mut flood).await;
        session.cut().await;
        assert!(matches!(last_word(&mut reader).await, LinkError::Closed(_)));
        answer_that_nobody_reads(&machine).await;
    }
    let session = machine.session(Inherit::Kill).await;
    assert!(read(&session, "/root/large", 0, None).await.unwrap() == content);
    until(&session, "! grep -qs '^State:.Z' /proc/[0-9]*/status").await;
    let after = session.status().await.unwrap();
    assert_eq!((after.open_fds, after.running, after.zombies), (before.open_fds, 0, 0));
}

/// Fragments of earlier sessions, and worse.
fn garbage() -> Vec<Vec<u8>> {
    let status = to_bytes(&Request::Status).unwrap();
    let mut whole = Vec::new();
    encode(Kind::Request, Channel::Main, false, 1, &status, &mut whole);
    let mut half_payload = encode_header(Kind::Data, Channel::Main, false, 7, MAX_PAYLOAD).to_vec();
    half_payload.extend_from_slice(&[1; 1000]);
    let hello = Hello::new([3; 16], Inherit::Kill).encode();
    vec![
        whole[..5].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        half_payload,
        encode_header(Kind::Data, Channel::Main, false, 7, 0).to_vec(),
        hello[..20].to_vec(),
        [hello.as_slice(), &whole, &whole[..7]].concat(),
        vec![0xa7; 100],
        noise(1 << 20),
    ]
}

/// Requests more than the port buffers and disconnects without reading it.
async fn answer_that_nobody_reads(machine: &BareMachine) {
    let mut raw = machine.connect().await;
    let mut words = vec![0; RESYNC_PADDING];
    words.extend_from_slice(&Hello::new([9; 16], Inherit::Keep).encode());
    let request = Request::ReadFile { path: b"/root/large".to_vec(), offset: 0, length: None };
    encode(Kind::Request, Channel::Main, false, 1, &to_bytes(&request).unwrap(), &mut words);
    raw.write_all(&words).await.unwrap();
    // The response has begun, and its window exceeds all buffers in between.
    raw.read_exact(&mut [0; 100_000]).await.unwrap();
}

/// The error that ends a file.
async fn last_word(reader: &mut FileReader) -> LinkError {
    loop {
        match reader.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the file arrived completely"),
            Err(error) => return error,
        }
    }
}

#[tokio::test]
async fn a_command_outlives_its_session_only_if_the_next_session_keeps_it() {
    let machine = BareMachine::start().await;
    let session = machine.settle_in().await;
    let mut process = session
        .exec(script("echo $$; while :; do echo tick >> /root/ticks; sleep 0.05; done"))
        .await
        .unwrap();
    let pid = String::from_utf8(read_until(&mut process, b"\n").await).unwrap();
    let alive = format!("grep -qs '^State:.[^ZX]' /proc/{}/status", pid.trim());
    session.cut().await;

    let session = machine.session(Inherit::Keep).await;
    sh(&session, &alive).await;
    assert_eq!(session.status().await.unwrap().running, 1);
    let ticks = sh(&session, "wc -l < /root/ticks").await;
    until(&session, &format!("[ $(wc -l < /root/ticks) -gt {ticks} ]")).await;
    session.cut().await;

    let session = machine.session(Inherit::Kill).await;
    sh(&session, &format!("! {alive}")).await;
    assert_eq!(session.status().await.unwrap().running, 0);

    // The input ends with the session, so that the command does not wait for the rest.
    let text = "cat > /root/got; echo over >> /root/got; exec sleep 1000";
    let mut process = session.exec(script_with_input(text)).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    stdin.write(b"half").await.unwrap();
    until(&session, "grep -qs half /root/got").await;
    session.cut().await;
    let session = machine.session(Inherit::Keep).await;
    until(&session, "grep -qs over /root/got").await;
    assert_eq!(read(&session, "/root/got", 0, None).await.unwrap(), b"halfover\n");
}

#[tokio::test]
async fn a_command_with_unread_output_continues_without_its_session() {
    let machine = BareMachine::start().await;
    let session = machine.settle_in().await;
    let mut process =
        session.exec(script("head -c 8000000 /dev/zero; echo over > /root/over")).await.unwrap();
    started(&mut process).await;
    // Its window and its pipe are full: it waits for a host that reads.
    until(&session, "grep -qs pipe_write /proc/[0-9]*/wchan").await;
    session.cut().await;
    let session = machine.session(Inherit::Keep).await;
    until(&session, "[ -e /root/over ]").await;
    until(&session, "! grep -qs '^Name:.head' /proc/[0-9]*/status").await;
    assert_eq!(session.status().await.unwrap().running, 0);
}

#[tokio::test]
async fn neither_a_freeze_nor_an_incomplete_file_outlives_its_session() {
    let machine = BareMachine::start().await;
    let session = machine.settle_in().await;
    let text = "echo $$; read -r line; echo x > /root/held; echo done >> /root/held";
    let mut process = session.exec(script_with_input(text)).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    let pid = String::from_utf8(read_until(&mut process, b"\n").await).unwrap();
    session.freeze().await.unwrap();
    stdin.write(b"\n").await.unwrap();
    until(&session, &format!("grep -q '^State:.D' /proc/{}/status", pid.trim())).await;
    session.cut().await;
    let session = machine.session(Inherit::Keep).await;
    assert_eq!(sh(&session, "echo thawed > /root/now; cat /root/now").await, "thawed");
    until(&session, "grep -qs done /root/held").await;

    write(&session, "/root/kept", b"kept", PLAIN).await.unwrap();
    let mut writer = session.write_file(b"/root/kept".as_slice(), PLAIN).await.unwrap();
    writer.write(b"lost").await.unwrap();
    until(&session, "ls -A /root | grep -q '^\\.agentiso'").await;
    session.cut().await;
    let session = machine.session(Inherit::Keep).await;
    until(&session, "! ls -A /root | grep -q '^\\.agentiso'").await;
    assert_eq!(read(&session, "/root/kept", 0, None).await.unwrap(), b"kept");
}
