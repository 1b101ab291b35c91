//! Port forwards.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use serde_json::json;

use crate::echo::{PORT, connect, echo, forward, port_of, serve};
use crate::place::Place;

/// Sends `hello` and nothing else, but reads everything that follows.
const LISTENER: &str = r#"exec perl -MIO::Socket::INET -e '
$| = 1;
$l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 7001, Listen => 9, ReuseAddr => 1) or die;
print "ready\n";
$c = $l->accept; syswrite $c, "hello"; shutdown $c, 1;
while (sysread $c, $b, 65536) { $heard .= $b }
print "heard $heard\n";'"#;

#[test]
fn many_half_closed_and_slow_connections_work_concurrently() {
    let place = Place::new();
    let user = place.http();
    user.act("workspace_create", json!({"name": "web"}));
    serve(&user, "web");
    let port = forward(&user, "web");

    // All are open before the first response.
    let mut streams: Vec<_> = (0..50).map(|_| connect(port)).collect();
    for (index, stream) in streams.iter_mut().enumerate() {
        stream.write_all(format!("{index:04}").as_bytes()).unwrap();
    }
    for (index, stream) in streams.iter_mut().enumerate() {
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        assert_eq!(word, format!("{index:04}").as_bytes());
    }
    for mut stream in streams {
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "bye\n");
    }

    // A connection that does not read its data stalls only itself.
    let sent: Vec<u8> = (0..8u32 << 20).map(|index| index.to_le_bytes()[1]).collect();
    let mut slow = connect(port);
    let (mut writer, words) = (slow.try_clone().unwrap(), sent.clone());
    let writing = std::thread::spawn(move || {
        writer.write_all(&words).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    for index in 0..5 {
        assert_eq!(echo(port, &format!("quick {index}")), format!("quick {index}"));
    }
    assert_eq!(user.sh("web", "echo commands too"), "commands too");
    let mut received = Vec::new();
    slow.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert!(received.strip_suffix(b"bye\n") == Some(&sent), "{} bytes came back", received.len());

    // The guest may have closed its sending side and still read.
    let job = user.act("exec_start", json!({"workspace_id": "web", "command": LISTENER}));
    let poll = |offset: u64| {
        let wait = json!({"workspace_id": "web", "job_id": job["job_id"], "wait": "output", "stdout_offset": offset});
        user.act("exec_poll", wait)["stdout"].clone()
    };
    assert_eq!(poll(0), "ready\n");
    let listener = port_of(&user.act("port_forward_add", json!({"workspace_id": "web", "guest_port": 7001})));
    let mut stream = connect(listener);
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello");
    stream.write_all(b"much later").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(poll(6), "heard much later\n");

    // Without a listener a connection is closed, and removing a forward closes its open connections.
    let nobody = port_of(&user.act("port_forward_add", json!({"workspace_id": "web", "guest_port": 7999})));
    assert_eq!(connect(nobody).read(&mut [0; 1]).unwrap_or(0), 0);
    let mut open = connect(port);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0; 1]).unwrap();
    user.act("port_forward_remove", json!({"workspace_id": "web", "guest_port": PORT}));
    assert_eq!(open.read(&mut [0; 1]).unwrap_or(0), 0);
    drop(TcpListener::bind(("127.0.0.1", port)).unwrap());
    user.act("workspace_destroy", json!({"workspace_id": "web"}));
    drop(TcpListener::bind(("127.0.0.1", listener)).unwrap());
}

#[test]
fn unavailable_ports_are_rejected() {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (metrics, network, taken) = (free(), free(), free());
    let [metrics_port, network_port, taken_port] =
        [&metrics, &network, &taken].map(|one| one.local_addr().unwrap().port());
    drop((metrics, network));
    let place = Place::new();
    let token = place.path().join("token");
    let config = format!(
        "[daemon]\nmetrics_port = {metrics_port}\nlisten = \"127.0.0.1:{network_port}\"\ntoken_file = {token:?}\n"
    );
    place.configure(&config);
    let user = place.http();
    for name in ["one", "two"] {
        user.act("workspace_create", json!({"name": name}));
    }
    let asked = |port: u32| json!({"workspace_id": "one", "guest_port": 80, "host_port": port});
    for (port, why) in [
        (1, "1024"),
        (1023, "1024"),
        (metrics_port.into(), "own"),
        (network_port.into(), "own"),
        (taken_port.into(), "in use"),
    ] {
        user.refused("port_forward_add", asked(port)).is("port_unavailable", &[&port.to_string(), why]);
    }
    user.refused("port_forward_add", asked(70_000)).is("invalid_argument", &["host_port"]);
    let zero = json!({"workspace_id": "one", "guest_port": 0});
    user.refused("port_forward_add", zero).is("invalid_argument", &["guest_port"]);
    assert_eq!(user.act("port_forward_list", json!({"workspace_id": "one"}))["forwards"], json!([]));

    let made = user.act("port_forward_add", json!({"workspace_id": "one", "guest_port": 80}));
    assert_eq!(user.act("port_forward_add", json!({"workspace_id": "one", "guest_port": 80})), made);
    let other = json!({"workspace_id": "two", "guest_port": 81, "host_port": made["host_port"]});
    user.refused("port_forward_add", other).is("port_unavailable", &[]);
    // A second host port for the same guest port, and its removal.
    let second =
        json!({"workspace_id": "one", "guest_port": 80, "host_port": free().local_addr().unwrap().port()});
    assert_eq!(user.act("port_forward_add", second.clone())["host_port"], second["host_port"]);
    assert_eq!(user.act("port_forward_add", second.clone())["host_port"], second["host_port"]);
    let listed = || user.act("port_forward_list", json!({"workspace_id": "one"}))["forwards"].clone();
    assert_eq!(listed().as_array().unwrap().len(), 2);
    assert_eq!(user.act("port_forward_remove", second.clone())["removed"], true);
    assert_eq!(user.act("port_forward_remove", second)["removed"], false);
    assert_eq!(listed(), json!([{"host_port": made["host_port"], "guest_port": 80}]));
    // Concurrent identical requests get the same forward.
    let forward = json!({"workspace_id": "two", "guest_port": 90});
    let asked: Vec<_> = (0..8)
        .map(|_| {
            let (user, forward) = (user.clone(), forward.clone());
            std::thread::spawn(move || user.act("port_forward_add", forward))
        })
        .collect();
    let answers: Vec<_> = asked.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
    assert_eq!(
        user.act("port_forward_list", json!({"workspace_id": "two"}))["forwards"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn a_forward_survives_stop_suspend_and_restore() {
    let place = Place::new();
    let user = place.http();
    user.act("workspace_create", json!({"name": "web"}));
    serve(&user, "web");
    let port = forward(&user, "web");
    let snapshot = json!({"workspace_id": "web", "name": "serving", "include_memory": true});
    user.act("snapshot_create", snapshot);

    let mut open = connect(port);
    open.write_all(b"x").unwrap();
    open.read_exact(&mut [0; 1]).unwrap();
    user.act("snapshot_restore", json!({"workspace_id": "web", "snapshot_name": "serving"}));
    assert_eq!(open.read(&mut [0; 1]).unwrap_or(0), 0, "the guest end was replaced by the restore");
    assert_eq!(echo(port, "restored"), "restored");

    user.act("workspace_suspend", json!({"workspace_id": "web"}));
    assert_eq!(connect(port).read(&mut [0; 1]).unwrap_or(0), 0);
    user.act("workspace_resume", json!({"workspace_id": "web"}));
    assert_eq!(echo(port, "resumed"), "resumed");

    user.act("workspace_stop", json!({"workspace_id": "web"}));
    assert_eq!(connect(port).read(&mut [0; 1]).unwrap_or(0), 0);
    user.act("workspace_start", json!({"workspace_id": "web"}));
    serve(&user, "web");
    assert_eq!(echo(port, "started"), "started");

    user.act("workspace_fork", json!({"workspace_id": "web", "new_name": "fork"}));
    assert_eq!(user.act("port_forward_list", json!({"workspace_id": "fork"}))["forwards"], json!([]));
    let own = forward(&user, "fork");
    assert_ne!(own, port);
    assert_eq!((echo(own, "fork"), echo(port, "source")), ("fork".to_owned(), "source".to_owned()));
}
