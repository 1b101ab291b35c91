//! Atomic replacement of files.

use agentiso_vmm::link::WriteOptions;

use crate::machine::{TestMachine, finish, read, read_until, script, until, write};

const PLAIN: WriteOptions = WriteOptions { mode: None, append: false, parents: false };
const LEN: usize = 200_000;

#[tokio::test]
async fn a_reader_in_the_guest_never_sees_an_incomplete_file() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let content = |byte: u8| vec![byte; LEN];
    guest.mkdir(b"/root/d".as_slice(), None, false).await.unwrap();
    write(guest, "/root/d/f", &content(b'a'), PLAIN).await.unwrap();
    let look = "echo ready; while [ ! -e /root/stop ]; do tr -s ab < /root/d/f > /root/seen; stat -L -c %s /root/d/f >> /root/seen; \
                case $(cat /root/seen) in a200000|b200000) ;; *) cat /root/seen; exit 1;; esac; done; echo whole";
    let mut reader = guest.exec(script(look)).await.unwrap();
    read_until(&mut reader, b"ready\n").await;
    for round in 0..40 {
        let mut writer = guest.write_file(b"/root/d/f".as_slice(), PLAIN).await.unwrap();
        // In chunks, with other work in between, so that an incomplete file could be seen.
        for piece in content(if round % 2 == 0 { b'b' } else { b'a' }).chunks(50_000) {
            writer.write(piece).await.unwrap();
            guest.ping().await.unwrap();
        }
        writer.finish().await.unwrap();
    }
    write(guest, "/root/stop", b"", PLAIN).await.unwrap();
    let ran = finish(reader).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "whole\n");
    assert_eq!(machine.sh("ls -A /root/d").await, "f");
}

#[tokio::test]
async fn an_abandoned_upload_changes_nothing_and_leaves_nothing_behind() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    guest.mkdir(b"/root/d".as_slice(), None, false).await.unwrap();
    write(guest, "/root/d/f", b"as it was", PLAIN).await.unwrap();
    for path in ["/root/d/f", "/root/d/new"] {
        let mut writer = guest.write_file(path.as_bytes(), PLAIN).await.unwrap();
        writer.write(&vec![1; 3 << 20]).await.unwrap();
        until(guest, "ls -A /root/d | grep -q '^\\.agentiso'").await;
        drop(writer);
        until(guest, "[ \"$(ls -A /root/d)\" = f ]").await;
    }
    assert_eq!(read(guest, "/root/d/f", 0, None).await.unwrap(), b"as it was");
    assert_eq!(guest.status().await.unwrap().running, 0);
}

#[tokio::test]
async fn a_full_disk_is_reported_and_the_old_content_is_kept() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    machine
        .sh("mkdir /root/small && mount -t tmpfs -o size=1m none /root/small && echo old > /root/small/f")
        .await;
    let refused = crate::machine::refused(write(guest, "/root/small/f", &vec![7; 4 << 20], PLAIN).await);
    assert_eq!(refused, agentiso_proto::ErrorKind::NoSpace);
    assert_eq!(machine.sh("cd /root/small; cat f; ls -A").await, "old\nf");
}
