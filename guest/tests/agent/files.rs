//! Single files and directories.

use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use agentiso_proto::{Channel, ErrorKind, FileKind, Inherit, Metadata, Request, Response};

use crate::host::{Heard, Host};

fn raw(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn write_request(path: &Path) -> Request {
    Request::WriteFile { path: raw(path), mode: None, append: false, parents: false }
}

fn write(host: &mut Host, request: &Request, content: &[u8]) -> Heard {
    let stream = host.open(request);
    host.send(stream, content);
    host.send_eof(stream);
    host.finish(stream)
}

fn read(host: &mut Host, path: &Path, offset: u64, length: Option<u64>) -> Heard {
    host.call(&Request::ReadFile { path: raw(path), offset, length })
}

fn stat(host: &mut Host, path: &Path, follow: bool) -> Metadata {
    match host.call(&Request::Stat { path: raw(path), follow }).last {
        Some(Response::Metadata(metadata)) => metadata,
        other => panic!("not metadata: {other:?}"),
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_written_file_is_read_back_with_its_metadata_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 253) as u8).collect();
    let mut host = Host::start();
    let heard = write(&mut host, &write_request(&path), &content);
    assert_eq!(heard.last, Some(Response::Written { bytes: content.len() as u64 }));
    assert_eq!(mode(&path), 0o644);
    let heard = read(&mut host, &path, 0, None);
    heard.assert_done();
    assert!(heard.main == content);
    assert_eq!(heard.eofs, [Channel::Main]);
    let [Response::Metadata(metadata)] = heard.responses.as_slice() else { panic!("{:?}", heard.responses) };
    assert_eq!((metadata.kind, metadata.size, metadata.mode), (FileKind::File, content.len() as u64, 0o644));
}

#[test]
fn a_range_of_a_file_is_read_and_a_range_beyond_its_end_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    let mut host = Host::start();
    let mut part = |offset, length| {
        let heard = read(&mut host, &path, offset, length);
        heard.assert_done();
        heard.main
    };
    assert_eq!(part(3, Some(4)), b"3456");
    assert_eq!(part(8, Some(100)), b"89");
    assert_eq!(part(0, Some(0)), b"");
    assert_eq!(part(10, None), b"");
    assert_eq!(part(u64::MAX, None), b"");
}

#[test]
fn the_end_of_an_enormous_file_is_read_without_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sparse");
    let size = 3 * 1024 * 1024 * 1024 * 1024_u64;
    let file = fs::File::create(&path).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"end", size - 3).unwrap();
    let mut host = Host::start();
    assert_eq!(read(&mut host, &path, size - 5, None).main, b"\0\0end");
    assert_eq!(stat(&mut host, &path, true).size, size);
}

#[test]
fn a_file_without_a_size_is_read_to_the_end() {
    let heard = read(&mut Host::start(), Path::new("/proc/self/status"), 0, None);
    heard.assert_done();
    assert!(heard.main.starts_with(b"Name:"));
}

#[test]
fn a_reader_sees_the_old_or_the_new_content_and_never_a_mixture() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let contents = [vec![b'a'; 300_000], vec![b'b'; 200_000]];
    fs::write(&path, &contents[0]).unwrap();
    let mut host = Host::start();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !over.load(Ordering::Relaxed) || reads == 0 {
                let seen = fs::read(&path).unwrap();
                assert!(contents.contains(&seen), "a mixture of {} bytes", seen.len());
                reads += 1;
            }
        });
        for number in 1..60 {
            write(&mut host, &write_request(&path), &contents[number % 2]);
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    assert_eq!(names(directory.path()), ["file"]);
}

#[test]
fn a_cancelled_or_abandoned_write_leaves_only_the_old_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "old").unwrap();
    let mut host = Host::start();
    let stream = host.open(&write_request(&path));
    host.send(stream, b"half of the new");
    host.cancel(stream);
    assert_eq!(host.finish(stream).error(), ErrorKind::Cancelled);
    assert_eq!(
        (names(directory.path()), fs::read(&path).unwrap()),
        (vec!["file".to_owned()], b"old".to_vec())
    );

    let stream = host.open(&write_request(&path));
    host.send(stream, b"half of the new");
    host.hello(Inherit::Kill);
    while names(directory.path()) != ["file"] {}
    assert_eq!(fs::read(&path).unwrap(), b"old");
}

#[test]
fn a_replaced_file_keeps_its_mode_unless_another_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o750)).unwrap();
    let mut host = Host::start();
    write(&mut host, &write_request(&path), b"new");
    assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o750, b"new".to_vec()));
    let request = Request::WriteFile { path: raw(&path), mode: Some(0o4711), append: false, parents: false };
    write(&mut host, &request, b"newer");
    assert_eq!(mode(&path), 0o4711);
    let request =
        Request::WriteFile { path: raw(&path), mode: Some(0o10_0644), append: false, parents: false };
    assert_eq!(write(&mut host, &request, b"").error(), ErrorKind::Invalid);
}

#[test]
fn appending_adds_and_creates() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let mut host = Host::start();
    let request = Request::WriteFile { path: raw(&path), mode: Some(0o600), append: true, parents: false };
    write(&mut host, &request, b"one\n");
    let heard = write(&mut host, &request, b"two\n");
    assert_eq!(heard.last, Some(Response::Written { bytes: 4 }));
    assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"one\ntwo\n".to_vec()));
}

#[test]
fn writing_through_a_link_changes_its_target() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link, dangling) =
        (directory.path().join("real"), directory.path().join("link"), directory.path().join("dangling"));
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(&real, "old").unwrap();
    symlink("sub/../real", &link).unwrap();
    symlink(directory.path().join("born"), &dangling).unwrap();
    symlink("loop", directory.path().join("loop")).unwrap();
    let mut host = Host::start();
    write(&mut host, &write_request(&link), b"new");
    write(&mut host, &write_request(&dangling), b"made");
    assert_eq!(fs::read(&real).unwrap(), b"new");
    assert_eq!(fs::read(directory.path().join("born")).unwrap(), b"made");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        write(&mut host, &write_request(&directory.path().join("loop")), b"").error(),
        ErrorKind::Invalid
    );
}

#[test]
fn missing_parents_are_created_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b/file");
    let mut host = Host::start();
    assert_eq!(write(&mut host, &write_request(&path), b"x").error(), ErrorKind::NotFound);
    let request = Request::WriteFile { path: raw(&path), mode: None, append: false, parents: true };
    write(&mut host, &request, b"x");
    assert_eq!((fs::read(&path).unwrap(), mode(&directory.path().join("a"))), (b"x".to_vec(), 0o755));
}

#[test]
fn failed_file_operations_report_the_right_error_kind() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let mut host = Host::start();
    assert_eq!(read(&mut host, &missing, 0, None).error(), ErrorKind::NotFound);
    assert_eq!(read(&mut host, directory.path(), 0, None).error(), ErrorKind::Invalid);
    assert_eq!(read(&mut host, Path::new("/dev/null"), 0, None).error(), ErrorKind::Invalid);
    assert_eq!(read(&mut host, Path::new("relative"), 0, None).error(), ErrorKind::Invalid);
    assert_eq!(write(&mut host, &write_request(directory.path()), b"").error(), ErrorKind::Invalid);
    assert_eq!(write(&mut host, &write_request(Path::new("/dev/null")), b"").error(), ErrorKind::Invalid);
    let nul = Request::Stat { path: b"/a\0b".to_vec(), follow: true };
    assert_eq!(host.call(&nul).error(), ErrorKind::Invalid);
    let long = Request::Stat { path: vec![b'/'; 5000], follow: true };
    assert_eq!(host.call(&long).error(), ErrorKind::Invalid);
}

#[test]
fn a_fifo_without_a_writer_is_rejected_and_blocks_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    let mut host = Host::start();
    host.exec(crate::host::shell(&format!("mkfifo {}", path.display()))).assert_code(0);
    assert_eq!(read(&mut host, &path, 0, None).error(), ErrorKind::Invalid);
    assert_eq!(write(&mut host, &write_request(&path), b"").error(), ErrorKind::Invalid);
}

#[test]
fn stat_follows_a_link_only_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    fs::write(directory.path().join("file"), "12345").unwrap();
    symlink("file", &link).unwrap();
    let mut host = Host::start();
    let itself = stat(&mut host, &link, false);
    assert_eq!((itself.kind, itself.target), (FileKind::Symlink, Some(b"file".to_vec())));
    let through = stat(&mut host, &link, true);
    assert_eq!((through.kind, through.size, through.target), (FileKind::File, 5, None));
}

#[test]
fn a_large_directory_is_listed_completely_in_batches() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..5000 {
        fs::write(directory.path().join(format!("{number:0>200}")), "").unwrap();
    }
    symlink("nowhere", directory.path().join("link")).unwrap();
    let heard = Host::start().call(&Request::List { path: raw(directory.path()) });
    heard.assert_done();
    assert!(heard.responses.len() > 1);
    let mut listed = Vec::new();
    for response in heard.responses {
        let Response::Entries(entries) = response else { panic!("not entries") };
        listed.extend(entries);
    }
    assert_eq!(listed.len(), 5001);
    let link = listed.iter().find(|entry| entry.name == b"link").unwrap();
    assert_eq!(link.metadata.target, Some(b"nowhere".to_vec()));
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    listed.dedup_by(|a, b| a.name == b.name);
    assert_eq!(listed.len(), 5001);
}

#[test]
fn directories_are_created_renamed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut host = Host::start();
    let mkdir = |path: &Path, mode, parents| Request::Mkdir { path: raw(path), mode, parents };
    let remove = |path: &Path, recursive| Request::Remove { path: raw(path), recursive };
    host.call(&mkdir(&at("a"), Some(0o1777), false)).assert_done();
    assert_eq!(mode(&at("a")), 0o1777);
    assert_eq!(host.call(&mkdir(&at("a"), None, false)).error(), ErrorKind::Exists);
    host.call(&mkdir(&at("a"), None, true)).assert_done();
    assert_eq!(host.call(&mkdir(&at("x/y"), None, false)).error(), ErrorKind::NotFound);
    host.call(&mkdir(&at("x/y/z/"), Some(0o700), true)).assert_done();
    assert_eq!((mode(&at("x/y")), mode(&at("x/y/z"))), (0o755, 0o700));

    let rename =
        |from: &Path, to: &Path, overwrite| Request::Rename { from: raw(from), to: raw(to), overwrite };
    fs::write(at("one"), "1").unwrap();
    fs::write(at("two"), "2").unwrap();
    assert_eq!(host.call(&rename(&at("one"), &at("two"), false)).error(), ErrorKind::Exists);
    host.call(&rename(&at("one"), &at("two"), true)).assert_done();
    assert_eq!(fs::read(at("two")).unwrap(), b"1");
    host.call(&Request::Chmod { path: raw(&at("two")), mode: 0o640 }).assert_done();
    assert_eq!(mode(&at("two")), 0o640);

    assert_eq!(host.call(&remove(&at("x"), false)).error(), ErrorKind::Invalid);
    assert_eq!(host.call(&remove(&at("missing"), true)).error(), ErrorKind::NotFound);
    assert_eq!(host.call(&remove(Path::new("/"), true)).error(), ErrorKind::Invalid);
    host.call(&remove(&at("two"), false)).assert_done();
    host.call(&remove(&at("a"), false)).assert_done();
    host.call(&remove(&at("x"), true)).assert_done();
    assert_eq!(names(directory.path()), Vec::<String>::new());
}

#[test]
fn a_tree_deeper_than_any_path_is_removed_and_links_are_not_followed() {
    let directory = tempfile::tempdir().unwrap();
    let top = directory.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(directory.path().join("outside"), "stays").unwrap();
    let mut host = Host::start();
    let script = format!(
        "cd {} && for i in $(seq 300); do ln -s {} link; echo x > file; mkdir a-directory-deep-down; cd -P a-directory-deep-down || exit 1; done",
        top.display(),
        directory.path().display()
    );
    host.exec(crate::host::shell(&script)).assert_code(0);
    host.call(&Request::Remove { path: raw(&top), recursive: true }).assert_done();
    assert_eq!(names(directory.path()), ["outside"]);
}
