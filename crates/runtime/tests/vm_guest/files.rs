//! Single files and directories.

use agentiso_proto::{DirEntry, ErrorKind, FileKind};
use agentiso_vmm::link::{Guest, WriteOptions};
use sha2::{Digest, Sha256};

use crate::machine::{TestMachine, noise, read, refused, write};

const PLAIN: WriteOptions = WriteOptions { mode: None, append: false, parents: false };

#[tokio::test]
async fn files_can_be_written_read_in_ranges_appended_to_and_listed() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let secret = WriteOptions { mode: Some(0o640), parents: true, ..PLAIN };
    assert_eq!(write(guest, "/root/a/b/file", b"0123456789", secret).await.unwrap(), 10);
    assert_eq!(
        machine.sh("cat /root/a/b/file; stat -c ' %a %U %h' /root/a/b/file; stat -c %a /root/a").await,
        "0123456789 640 root 1\n755"
    );
    for (offset, length, expected) in [
        (0, None, "0123456789"),
        (3, Some(4), "3456"),
        (8, Some(100), "89"),
        (10, None, ""),
        (1 << 40, Some(1), ""),
        (u64::MAX, None, ""),
        (4, Some(0), ""),
    ] {
        assert_eq!(read(guest, "/root/a/b/file", offset, length).await.unwrap(), expected.as_bytes());
    }

    let append = WriteOptions { append: true, ..PLAIN };
    write(guest, "/root/a/b/file", b"abc", append).await.unwrap();
    write(guest, "/root/new", b"", append).await.unwrap();
    machine.sh("chown 7:8 /root/a/b/file").await;
    write(guest, "/root/a/b/file", b"replaced", PLAIN).await.unwrap();
    let about = guest.stat(b"/root/a/b/file".as_slice(), false).await.unwrap();
    assert_eq!((about.kind, about.size, about.mode, about.uid, about.gid), (FileKind::File, 8, 0o640, 7, 8));
    assert_eq!(guest.stat(b"/root/new".as_slice(), false).await.unwrap().mode, 0o644);

    machine.sh("ln -s a/b/file /root/link; ln -s nowhere /root/dangling").await;
    write(guest, "/root/link", b"through", PLAIN).await.unwrap();
    let link = guest.stat(b"/root/link".as_slice(), false).await.unwrap();
    assert_eq!((link.kind, link.target.as_deref()), (FileKind::Symlink, Some(&b"a/b/file"[..])));
    assert_eq!(guest.stat(b"/root/link".as_slice(), true).await.unwrap().size, 7);
    assert_eq!(refused(guest.stat(b"/root/dangling".as_slice(), true).await), ErrorKind::NotFound);
    // Files in /proc have content although their size is 0.
    let version = read(guest, "/proc/version", 0, None).await.unwrap();
    assert!(version.starts_with(b"Linux version"));

    guest.chmod(b"/root/a/b/file".as_slice(), 0o4711).await.unwrap();
    guest.mkdir(b"/root/d/e/f".as_slice(), Some(0o1770), true).await.unwrap();
    guest.rename(b"/root/a/b".as_slice(), b"/root/d/e/f/b".as_slice(), false).await.unwrap();
    assert_eq!(machine.sh("stat -c %a /root/d/e/f/b/file /root/d/e/f").await, "4711\n1770");
    guest.rename(b"/root/new".as_slice(), b"/root/d/e/f/b/file".as_slice(), true).await.unwrap();
    guest.remove(b"/root/d/e/f/b/file".as_slice(), false).await.unwrap();
    guest.remove(b"/root/d".as_slice(), true).await.unwrap();
    assert_eq!(refused(guest.stat(b"/root/d".as_slice(), false).await), ErrorKind::NotFound);
}

#[tokio::test]
async fn invalid_file_operations_fail_with_the_right_reason() {
    use ErrorKind::{Denied, Exists, Invalid, NotFound};
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    machine.sh("cd /root; mkdir -p dir/sub ro; echo x > file; mkfifo fifo; mount -t tmpfs none ro; echo x > ro/file; mount -o remount,ro ro").await;
    let (dir, file) = (b"/root/dir".as_slice(), b"/root/file".as_slice());

    for (path, kind) in [
        ("/root/missing", NotFound),
        ("/root/file/below", NotFound),
        ("/root/dir", Invalid),
        ("/root/fifo", Invalid),
        ("/dev/zero", Invalid),
        ("relative", Invalid),
        ("/root/\0", Invalid),
    ] {
        assert_eq!(refused(read(guest, path, 0, None).await), kind, "reading {path:?}");
    }
    for (path, kind) in [
        ("/root/missing/file", NotFound),
        ("/root/dir", Invalid),
        ("/root/fifo", Invalid),
        ("/root/ro/file", Denied),
        ("/root/ro/new", Denied),
        ("/", NotFound),
    ] {
        assert_eq!(refused(write(guest, path, b"y", PLAIN).await), kind, "writing {path:?}");
    }
    for path in ["/proc/version", "/proc/new", "/sys/kernel/new"] {
        let kind = refused(write(guest, path, b"y", PLAIN).await);
        assert!(matches!(kind, Denied | NotFound), "writing {path:?}: {kind:?}");
    }
    // More content than the link buffers: the error arrives while content is still being sent.
    let much = vec![0; 8 << 20];
    assert_eq!(refused(write(guest, "/root/ro/new", &much, PLAIN).await), Denied);

    assert_eq!(refused(guest.mkdir(dir, None, false).await), Exists);
    guest.mkdir(dir, None, true).await.unwrap();
    assert_eq!(refused(guest.mkdir(file, None, true).await), Exists);
    assert_eq!(refused(guest.mkdir(b"/root/x/y".as_slice(), None, false).await), NotFound);
    assert_eq!(refused(guest.remove(dir, false).await), Invalid);
    assert_eq!(refused(guest.remove(b"/root/missing".as_slice(), true).await), NotFound);
    assert_eq!(refused(guest.remove(b"/root/ro/file".as_slice(), false).await), Denied);
    assert_eq!(refused(guest.rename(file, dir, false).await), Exists);
    assert_eq!(refused(guest.rename(file, dir, true).await), Invalid);
    assert_eq!(refused(guest.rename(b"/root/missing".as_slice(), dir, true).await), NotFound);
    assert_eq!(refused(guest.chmod(b"/root/missing".as_slice(), 0o600).await), NotFound);
    assert_eq!(refused(guest.chmod(file, 0o10_0000).await), Invalid);
    assert_eq!(refused(guest.list(file).await), NotFound);
    assert_eq!(refused(guest.list(b"/root/missing".as_slice()).await), NotFound);
    assert_eq!(machine.sh("cd /root; cat file ro/file; find . -name '.agentiso*'").await, "x\nx");
}

#[tokio::test]
async fn sixty_four_megabytes_survive_a_round_trip() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let content = noise(64 << 20);
    assert_eq!(write(guest, "/root/large", &content, PLAIN).await.unwrap(), content.len() as u64);
    let expected: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(machine.sh("sha256sum < /root/large").await, format!("{expected}  -"));
    assert!(read(guest, "/root/large", 0, None).await.unwrap() == content);
    let part = read(guest, "/root/large", 12_345_678, Some(7_654_321)).await.unwrap();
    assert!(part == content[12_345_678..][..7_654_321]);
}

#[tokio::test]
async fn names_of_any_bytes_long_listings_and_holes_are_handled() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let names: [&[u8]; 7] = [b"two\nlines", b" spaces ", b"-rf", b"\xff\xfe", b"*", b"...", &[b'n'; 255]];
    guest.mkdir(b"/root/names".as_slice(), None, false).await.unwrap();
    for name in names {
        let path = [b"/root/names/", name].concat();
        write(guest, &path, name, PLAIN).await.unwrap();
        assert_eq!(read(guest, &path, 0, None).await.unwrap(), name);
    }
    let mut expected: Vec<Vec<u8>> = names.iter().map(|name| name.to_vec()).collect();
    expected.sort();
    assert_eq!(listed(guest, "/root/names").await, expected);
    assert_eq!(machine.sh("cd /root/names && find . -type f -print0 | tr -cd '\\0' | wc -c").await, "7");
    let too_long = [b"/root/names/", [b'n'; 256].as_slice()].concat();
    assert_eq!(refused(write(guest, &too_long, b"", PLAIN).await), ErrorKind::Invalid);
    guest.rename(b"/root/names/\xff\xfe".as_slice(), b"/root/names/\xfd\n".as_slice(), false).await.unwrap();
    guest.remove(b"/root/names".as_slice(), true).await.unwrap();

    machine.sh("mkdir /dev/shm/many && cd /dev/shm/many && seq -f 'entry-%.0f' 20000 | xargs touch").await;
    let found = listed(guest, "/dev/shm/many").await;
    let mut expected: Vec<Vec<u8>> =
        (1..=20_000).map(|number| format!("entry-{number}").into_bytes()).collect();
    expected.sort();
    assert!(found == expected, "{} entries", found.len());
    machine.sh("truncate -s 5G /root/holes && printf end >> /root/holes").await;
    let about = guest.stat(b"/root/holes".as_slice(), false).await.unwrap();
    assert_eq!(about.size, (5 << 30) + 3);
    assert_eq!(read(guest, "/root/holes", (5 << 30) - 2, None).await.unwrap(), b"\0\0end");
}

async fn listed(guest: &Guest, path: &str) -> Vec<Vec<u8>> {
    let entries: Vec<DirEntry> = guest.list(path.as_bytes()).await.unwrap();
    assert!(entries.iter().all(|entry| entry.metadata.kind == FileKind::File));
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}
