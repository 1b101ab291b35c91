//! The recorded wire format. A snapshotted guest speaks the version it booted with, for years, so if a test fails here,
//! do not change the sample: add a version.
//!
//! Each sample has distinct values in distinct fields, so that swapping two fields or variants is detected.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use agentiso_proto::{
    Card, Channel, Configure, Control, DirEntry, ErrorKind, Exec, Exit, ExitStatus, FileKind, Find,
    FoundEntry, Grep, GrepMatch, GrepSummary, GuestError, Hello, HookOutcome, HookReport, Inherit, JobInfo,
    JobRead, JobStream, JobWait, Kind, Metadata, Request, Response, RootDisk, Secret, Status, TreeEntry,
    TreeKind, TreeOptions, Usage, User, Wake, WakeEvent, Welcome, encode, encode_entry, from_bytes, to_bytes,
};
use serde::{Serialize, de::DeserializeOwned};

/// Compares a message with its bytes in both directions. Spaces in the bytes separate fields.
#[track_caller]
fn frozen<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T, bytes: &str) {
    assert_eq!(hex(&to_bytes(message).unwrap()), bytes.replace(' ', ""), "{message:?}");
    assert_eq!(from_bytes::<T>(&unhex(bytes)).unwrap(), *message);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn path(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

#[test]
fn a_hello_has_these_bytes() {
    let nonce = *b"0123456789abcdef";
    let hello = Hello { min: 0x0102, max: 0x0304, inherit: Inherit::Kill, nonce };
    let bytes = "a769736f48454c4c4f0d0a1a01f39e42 0201 0403 01 0000000000000000000000 \
                 30313233343536373839616263646566";
    assert_eq!(hex(&hello.encode()), bytes.replace(' ', ""));
    for (inherit, byte) in [(Inherit::Keep, 0), (Inherit::Kill, 1), (Inherit::Held, 2)] {
        assert_eq!(Hello { inherit, ..hello }.encode()[20], byte);
    }
}

#[test]
fn a_welcome_has_these_bytes() {
    let nonce = *b"0123456789abcdef";
    let welcome = Welcome { nonce, version: 0x0102, min: 0x0304, max: 0x0506 };
    let bytes = "a869736f57454c434f0d0a1a01c53b71 30313233343536373839616263646566 0201 0403 0605 \
                 00000000000000000000";
    assert_eq!(hex(&welcome.encode()), bytes.replace(' ', ""));
}

#[test]
fn frames_have_these_bytes() {
    for (kind, channel, last, bytes) in [
        (Kind::Request, Channel::Main, false, "01 00 00 00 44332211 03000000 616263 5a"),
        (Kind::Response, Channel::Main, true, "02 00 01 00 44332211 03000000 616263 5a"),
        (Kind::Data, Channel::Stdout, false, "03 01 00 00 44332211 03000000 616263 5a"),
        (Kind::Eof, Channel::Stderr, false, "04 02 00 00 44332211 03000000 616263 5a"),
        (Kind::Credit, Channel::Main, false, "05 00 00 00 44332211 03000000 616263 5a"),
        (Kind::Cancel, Channel::Main, false, "06 00 00 00 44332211 03000000 616263 5a"),
        (Kind::Control, Channel::Main, false, "07 00 00 00 44332211 03000000 616263 5a"),
        (Kind::Ping, Channel::Main, false, "08 00 00 00 44332211 03000000 616263 5a"),
        (Kind::Pong, Channel::Main, false, "09 00 00 00 44332211 03000000 616263 5a"),
    ] {
        let mut out = Vec::new();
        encode(kind, channel, last, 0x1122_3344, b"abc", &mut out);
        assert_eq!(hex(&out), bytes.replace(' ', ""));
    }
}

#[test]
fn limits_are_part_of_the_format() {
    assert_eq!(agentiso_proto::MAX_PAYLOAD, 262_144);
    assert_eq!((agentiso_proto::MAX_STREAMS_1, agentiso_proto::MAX_STREAMS), (256, 1024));
    assert_eq!(agentiso_proto::WINDOW, 1_048_576);
    assert_eq!(agentiso_proto::RESYNC_PADDING, 524_314);
    assert_eq!(agentiso_proto::MAX_ENTRY, 98_304);
}

#[test]
fn requests_have_these_bytes() {
    let configure = Configure {
        entropy: Some(vec![1, 2]),
        unix_nanos: Some(3),
        hostname: Some("h".to_owned()),
        machine_id: Some("m".to_owned()),
        mac: Some([1, 2, 3, 4, 5, 6]),
        root: Some(RootDisk {
            device: "d".to_owned(),
            fstype: "f".to_owned(),
            read_only: true,
            enter: false,
        }),
    };
    frozen(
        &Request::Configure(configure),
        "00 01020102 0103 010168 01016d 01010203040506 01 0164 0166 01 00",
    );
    frozen(&Request::Configure(Configure::default()), "00 00 00 00 00 00 00");
    let exec = Exec {
        argv: vec![path("a"), path("b")],
        env: vec![(path("k"), path("v"))],
        workdir: Some(path("/w")),
        user: Some(User::Name("u".to_owned())),
        stdin: true,
        tty: Some((80, 24)),
        timeout_ms: Some(9),
    };
    frozen(&Request::Exec(exec), "01 02 0161 0162 01 016b 0176 01 022f77 01 00 0175 01 01 50 18 01 09");
    let exec = Exec { user: Some(User::Id { uid: 5, gid: 6 }), ..Exec::default() };
    frozen(&Request::Exec(exec), "01 00 00 00 01 01 05 06 00 00 00");
    frozen(&Request::ReadFile { path: path("p"), offset: 300, length: Some(4) }, "02 0170 ac02 01 04");
    frozen(
        &Request::WriteFile { path: path("p"), mode: Some(0o644), append: true, parents: false },
        "03 0170 01 a403 01 00",
    );
    frozen(&Request::Stat { path: path("p"), follow: true }, "04 0170 01");
    frozen(&Request::List { path: path("p") }, "05 0170");
    frozen(&Request::Remove { path: path("p"), recursive: true }, "06 0170 01");
    frozen(&Request::Rename { from: path("f"), to: path("t"), overwrite: true }, "07 0166 0174 01");
    frozen(&Request::Mkdir { path: path("p"), mode: Some(7), parents: true }, "08 0170 01 07 01");
    frozen(&Request::Chmod { path: path("p"), mode: 7 }, "09 0170 07");
    frozen(&Request::SendTree { path: path("p") }, "0a 0170");
    frozen(&Request::ReceiveTree { path: path("p"), options: TreeOptions { owners: true } }, "0b 0170 01");
    frozen(&Request::Freeze, "0c");
    frozen(&Request::Thaw, "0d");
    frozen(&Request::Grow, "0e");
    frozen(&Request::Sync, "0f");
    frozen(&Request::Status, "10");
    frozen(&Request::PowerOff, "11");
    frozen(&Request::Hold { root: true }, "12 01");
    frozen(&Request::Release, "13");
    let wake = Wake {
        identity: Configure { unix_nanos: Some(3), ..Configure::default() },
        boot_id: Some(*b"0123456789abcdef"),
        event: WakeEvent::Fork,
        hooks_ms: Some(300),
    };
    frozen(&Request::Wake(wake), "14 00 0103 00 00 00 00 01 30313233343536373839616263646566 01 01 ac02");
    frozen(&Request::Wake(Wake::default()), "14 00 00 00 00 00 00 00 00 00");
    let wake = Wake { event: WakeEvent::Restore, ..Wake::default() };
    frozen(&Request::Wake(wake), "14 00 00 00 00 00 00 00 02 00");
}

#[test]
fn job_requests_have_these_bytes() {
    let exec = Exec { argv: vec![path("a")], timeout_ms: Some(9), ..Exec::default() };
    frozen(&Request::StartJob(exec), "15 01 0161 00 00 00 00 00 01 09");
    frozen(&Request::ListJobs, "16");
    for (wait, byte) in [(JobWait::No, "00"), (JobWait::Output, "01"), (JobWait::Exit, "02")] {
        let read = JobRead { id: 1, stdout_from: 300, stderr_from: 3, max: 4, wait, wait_ms: 5 };
        frozen(&Request::ReadJob(read), &format!("17 01 ac02 03 04 {byte} 05"));
    }
    frozen(&Request::WriteJob { id: 1, bytes: path("b"), close: true }, "18 01 0162 01");
    frozen(&Request::SignalJob { id: 1, signal: 15 }, "19 01 1e");
    frozen(&Request::ForgetJob { id: 1 }, "1a 01");
}

#[test]
fn environment_messages_have_these_bytes() {
    let secret = |text: &str| Secret::from(text.to_owned());
    let changes = vec![("A".to_owned(), Some(secret("v"))), ("B".to_owned(), None)];
    frozen(&Request::SetEnv { changes }, "1b 02 0141 01 0176 0142 00");
    frozen(&Request::GetEnv, "1c");
    frozen(&Response::EnvSet { variables: 300 }, "0c ac02");
    frozen(&Response::Env(vec![("A".to_owned(), secret("v"))]), "0d 01 0141 0176");
    assert_eq!((agentiso_proto::MAX_VARIABLES, agentiso_proto::MAX_VARIABLES_BYTES), (256, 131_072));
}

#[test]
fn connection_messages_have_these_bytes() {
    frozen(&Request::Connect { port: 8080 }, "1d 903f");
    frozen(&Request::ConnectTo { address: [10, 99, 0, 3], port: 8080 }, "23 0a630003 903f");
    frozen(&Response::Connected, "0e");
}

#[test]
fn search_messages_have_these_bytes() {
    let find = Find { root: path("r"), glob: "g".to_owned(), max: 300, hidden: true };
    frozen(&Request::Find(find), "1e 0172 0167 ac02 01");
    let grep = Grep {
        root: path("r"),
        pattern: "p".to_owned(),
        fixed: true,
        ignore_case: false,
        glob: Some("g".to_owned()),
        max_matches: 300,
        max_per_file: Some(4),
        context: 200,
        hidden: true,
    };
    frozen(&Request::Grep(grep.clone()), "1f 0172 0170 01 00 01 0167 ac02 01 04 c8 01");
    let grep = Grep { fixed: false, ignore_case: true, glob: None, max_per_file: None, ..grep };
    frozen(&Request::Grep(grep), "1f 0172 0170 00 01 00 ac02 00 c8 01");
    frozen(&Request::Clock, "20");
    frozen(&Request::SetClock { ahead: 300 }, "21 ac02");
    frozen(&Request::SetCard { card: None }, "22 00");
    let card = Card {
        mac: [2, 3, 4, 5, 6, 7],
        address: [10, 99, 0, 2],
        gateway: [10, 99, 0, 1],
        resolver: [1, 2, 3, 4],
        mtu: 1500,
    };
    frozen(&Request::SetCard { card: Some(card) }, "22 01 020304050607 0a630002 0a630001 01020304 dc0b");
    let entry = FoundEntry { path: path("p"), kind: FileKind::Symlink, size: 1, mode: 2, modified_ns: -3 };
    frozen(&Response::Found(vec![entry]), "0f 01 0170 02 01 02 05");
    frozen(&Response::FindDone { truncated: true }, "10 01");
    let found = GrepMatch {
        path: path("p"),
        line_number: 300,
        line: path("l"),
        before: vec![path("b")],
        after: vec![path("a"), path("c")],
    };
    frozen(&Response::Matches(vec![found]), "11 01 0170 ac02 016c 01 0162 02 0161 0163");
    let summary = GrepSummary { files_searched: 1, files_too_large: 2, truncated: true };
    frozen(&Response::GrepDone(summary), "12 01 02 01");
    frozen(&Response::Clock { nanos: 300 }, "13 ac02");
    frozen(&Response::Detached { id: 300 }, "14 ac02");
    frozen(&Response::InputRead { bytes: 300 }, "15 ac02");
}

#[test]
fn controls_have_these_bytes() {
    frozen(&Control::Resize { columns: 80, rows: 24 }, "00 50 18");
    frozen(&Control::Signal(15), "01 1e");
    frozen(&Control::Detach { timeout_ms: None }, "02 00");
    frozen(&Control::Detach { timeout_ms: Some(300) }, "02 01 ac02");
    frozen(&Control::ReportInput, "03");
}

fn metadata(kind: FileKind) -> Metadata {
    Metadata { kind, size: 1, mode: 2, uid: 3, gid: 4, links: 5, modified_ns: -6, target: Some(path("t")) }
}

#[test]
fn responses_have_these_bytes() {
    frozen(&Response::Done, "00");
    let error = GuestError { kind: ErrorKind::NotFound, errno: Some(2), message: "m".to_owned() };
    frozen(&Response::Error(error), "01 01 01 04 016d");
    frozen(&Response::Started { pid: 7 }, "02 07");
    let exit = Exit {
        status: ExitStatus::Code(-1),
        timed_out: true,
        cancelled: false,
        usage: Usage { wall_us: 1, user_us: 2, system_us: 3, max_rss_kib: 4 },
    };
    frozen(&Response::Exited(exit), "03 00 01 01 00 01 02 03 04");
    let exit = Exit { status: ExitStatus::Signal(9), timed_out: false, cancelled: true, ..exit };
    frozen(&Response::Exited(exit), "03 01 12 00 01 01 02 03 04");
    for (kind, byte) in [
        (FileKind::File, "00"),
        (FileKind::Directory, "01"),
        (FileKind::Symlink, "02"),
        (FileKind::Other, "03"),
    ] {
        frozen(&Response::Metadata(metadata(kind)), &format!("04 {byte} 01 02 03 04 05 0b 01 0174"));
    }
    let entry = DirEntry { name: path("n"), metadata: metadata(FileKind::File) };
    frozen(&Response::Entries(vec![entry]), "05 01 016e 00 01 02 03 04 05 0b 01 0174");
    frozen(&Response::Written { bytes: 8 }, "06 08");
    let status = Status {
        rss_kib: 1,
        open_fds: 2,
        threads: 3,
        zombies: 4,
        running: 5,
        mem_total_kib: 6,
        mem_available_kib: 7,
        root_bytes: 8,
        root_free_bytes: 9,
    };
    frozen(&Response::Status(status), "07 01 02 03 04 05 06 07 08 09");
    for (outcome, bytes) in [
        (HookOutcome::Exited(ExitStatus::Code(1)), "00 00 02"),
        (HookOutcome::TimedOut, "01"),
        (HookOutcome::Skipped("r".to_owned()), "02 0172"),
    ] {
        let report = HookReport { name: "n".to_owned(), outcome, output: vec![7, 8] };
        frozen(&Response::Woken { hooks: vec![report] }, &format!("08 01 016e {bytes} 02 07 08"));
    }
}

#[test]
fn job_responses_have_these_bytes() {
    frozen(&Response::JobStarted { id: 7 }, "09 07");
    let running = JobInfo {
        id: 1,
        argv: vec![path("a"), path("b")],
        started_unix_nanos: 300,
        running: true,
        exit: None,
        stdout: JobStream { first: 2, end: 3 },
        stderr: JobStream { first: 4, end: 5 },
        stdin_open: true,
    };
    frozen(&Response::Jobs(vec![running.clone()]), "0a 01 01 02 0161 0162 ac02 01 00 02 03 04 05 01");
    let exit = Exit {
        status: ExitStatus::Code(1),
        timed_out: true,
        cancelled: false,
        usage: Usage { wall_us: 1, user_us: 2, system_us: 3, max_rss_kib: 4 },
    };
    let info = JobInfo { argv: Vec::new(), running: false, exit: Some(exit), stdin_open: false, ..running };
    frozen(
        &Response::JobOutput { info, stdout_from: 8, stderr_from: 9 },
        "0b 01 00 ac02 00 01 00 02 01 00 01 02 03 04 02 03 04 05 00 08 09",
    );
}

#[test]
fn error_kinds_have_these_bytes() {
    for (kind, byte) in [
        (ErrorKind::Invalid, "00"),
        (ErrorKind::NotFound, "01"),
        (ErrorKind::Exists, "02"),
        (ErrorKind::Denied, "03"),
        (ErrorKind::NoSpace, "04"),
        (ErrorKind::Cancelled, "05"),
        (ErrorKind::Io, "06"),
        (ErrorKind::Unsupported, "07"),
        (ErrorKind::Busy, "08"),
    ] {
        frozen(&kind, byte);
    }
}

#[test]
fn tree_entries_have_these_bytes() {
    for (kind, bytes) in [
        (TreeKind::Directory, "00"),
        (TreeKind::File { size: 300 }, "01 ac02"),
        (TreeKind::Symlink { target: path("t") }, "02 0174"),
        (TreeKind::Hardlink { target: path("t") }, "03 0174"),
        (TreeKind::Device { block: true, major: 8, minor: 9 }, "04 01 08 09"),
        (TreeKind::Fifo, "05"),
        (TreeKind::Removed, "06"),
        (TreeKind::Emptied, "07"),
        (TreeKind::Socket, "08"),
    ] {
        let xattrs = vec![(path("k"), path("v"))];
        let entry = TreeEntry { path: path("p"), kind, mode: 1, uid: 2, gid: 3, modified_ns: -4, xattrs };
        let bytes = format!("0170 {bytes} 01 02 03 07 01 016b 0176");
        frozen(&entry, &bytes);
        let mut out = Vec::new();
        encode_entry(&entry, &mut out).unwrap();
        let length = unhex(&bytes).len();
        assert_eq!(hex(&out), format!("{length:02x}000000{}", bytes.replace(' ', "")));
    }
}

#[test]
fn trailing_bytes_are_rejected() {
    assert!(from_bytes::<Request>(&unhex("0c00")).is_err());
    assert!(from_bytes::<Request>(&unhex("ff00")).is_err());
    assert!(from_bytes::<Request>(&[]).is_err());
}
