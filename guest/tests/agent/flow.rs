//! Flow control between streams on one link.

use agentiso_proto::{Channel, ErrorKind, Exec, Kind, MAX_STREAMS, Request, Response, WINDOW, to_bytes};

use crate::host::{Host, shell};

#[test]
fn a_stalled_stream_blocks_neither_pings_nor_other_commands() {
    let mut host = Host::start();
    let stalled = host.open(&Request::Exec(shell("yes; exit 1")));
    host.stall(stalled);
    host.wait_until(stalled, |heard| heard.stdout.len() == WINDOW as usize);
    for number in 0..10_u8 {
        host.ping(&[number; 100]);
        let heard = host.exec(shell("head -c 3000000 /dev/zero"));
        heard.assert_code(0);
        assert_eq!(heard.stdout.len(), 3_000_000);
    }
    assert_eq!(
        host.heard(stalled).stdout.len(),
        WINDOW as usize,
        "the agent sent more than it had credit for"
    );
    host.cancel(stalled);
    assert!(host.finish(stalled).exit().cancelled);
}

#[test]
fn a_stalled_channel_resumes_with_credit_and_does_not_block_the_other_channel() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(shell(
        "(head -c 2000000 /dev/zero; echo >&2 written) & echo started >&2; wait",
    )));
    host.stall(stream);
    host.wait_until(stream, |heard| heard.stdout.len() == WINDOW as usize && heard.stderr == b"started\n");
    host.ping(b"still there");
    assert_eq!(host.heard(stream).stdout.len(), WINDOW as usize);
    host.grant(stream, Channel::Stdout, 2_000_000);
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert_eq!((heard.stdout.len(), heard.stderr.as_slice()), (2_000_000, &b"started\nwritten\n"[..]));
}

#[test]
fn a_stalled_file_and_a_stalled_tree_block_no_other_stream() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::File::create(&path).unwrap().set_len(8 * 1024 * 1024).unwrap();
    let path = path.as_os_str().as_encoded_bytes().to_vec();
    let mut host = Host::start();
    let file = host.open(&Request::ReadFile { path: path.clone(), offset: 0, length: None });
    host.stall(file);
    let tree = host.open(&Request::SendTree { path });
    host.stall(tree);
    for stream in [file, tree] {
        host.wait_until(stream, |heard| heard.main.len() > WINDOW as usize / 2);
    }
    host.exec(shell("true")).assert_code(0);
    host.ping(b"ping");
    for stream in [file, tree] {
        assert!(host.heard(stream).main.len() <= WINDOW as usize);
        host.cancel(stream);
        assert_eq!(host.finish(stream).error(), ErrorKind::Cancelled);
    }
}

#[test]
fn a_host_that_exceeds_its_credit_loses_only_that_stream() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(Exec { stdin: true, ..shell("sleep 1000") }));
    host.wait_until(stream, |heard| !heard.responses.is_empty());
    for _ in 0..20 {
        host.frame(Kind::Data, Channel::Main, stream, &vec![0; 100_000]);
    }
    assert!(host.finish(stream).exit().cancelled);
    let path = directory.path().join("file").as_os_str().as_encoded_bytes().to_vec();
    let stream = host.open(&Request::WriteFile { path, mode: None, append: false, parents: false });
    host.send(stream, b"within bounds");
    host.send_eof(stream);
    assert_eq!(host.finish(stream).last, Some(Response::Written { bytes: 13 }));
}

#[test]
fn the_number_of_open_streams_is_limited() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let request = |number: u32| Request::WriteFile {
        path: directory.path().join(number.to_string()).as_os_str().as_encoded_bytes().to_vec(),
        mode: None,
        append: false,
        parents: false,
    };
    let open: Vec<u32> = (0..MAX_STREAMS as u32).map(|number| host.open(&request(number))).collect();
    assert_eq!(host.call(&Request::Status).error(), ErrorKind::Invalid);
    for stream in open {
        host.send_eof(stream);
        assert_eq!(host.finish(stream).last, Some(Response::Written { bytes: 0 }));
    }
    host.exec(shell("true")).assert_code(0);
}

#[test]
fn a_stream_id_in_use_is_rejected_and_a_free_one_can_be_reused() {
    let mut host = Host::start();
    host.open_on(7, &Request::Exec(Exec { stdin: true, ..shell("cat; exit 3") }));
    host.frame(Kind::Request, Channel::Main, 7, &to_bytes(&Request::Exec(shell("exit 9"))).unwrap());
    host.send(7, b"first");
    host.send_eof(7);
    let heard = host.finish(7);
    heard.assert_code(3);
    assert_eq!(heard.stdout, b"first");
    for code in 0..20 {
        host.open_on(7, &Request::Exec(shell(&format!("exit {code}"))));
        host.finish(7).assert_code(code);
    }
}
