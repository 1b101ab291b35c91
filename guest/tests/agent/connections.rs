//! Connections to servers in the guest. Here the servers listen on the loopback interface of the test machine.

use std::{
    io::{ErrorKind as IoErrorKind, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use agentiso_proto::{Channel, ErrorKind, Inherit, Kind, Request, Response, WINDOW};
use rustix::net::{AddressFamily, SocketType};

use crate::host::{Host, shell};

/// Starts a server for one connection.
fn server<T: Send + 'static>(serve: impl FnOnce(TcpStream) -> T + Send + 'static) -> (u16, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (port, thread::spawn(move || serve(listener.accept().unwrap().0)))
}

/// Reads everything and returns how much it was.
fn count(mut connection: TcpStream) -> usize {
    let mut taken = Vec::new();
    connection.read_to_end(&mut taken).unwrap();
    write!(connection, "{} bytes", taken.len()).unwrap();
    taken.len()
}

/// An IPv4 port on which nothing listens. It stays reserved while the descriptor is held.
fn silent_port() -> (OwnedFd, u16) {
    let held = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&held, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let bound = SocketAddr::try_from(rustix::net::getsockname(&held).unwrap()).unwrap();
    (held, bound.port())
}

fn connect(host: &mut Host, port: u16) -> u32 {
    let stream = host.open(&Request::Connect { port });
    host.wait_until(stream, |heard| heard.responses == [Response::Connected]);
    stream
}

/// Asserts that a new connection works.
fn assert_reachable(host: &mut Host) {
    let (port, server) = server(count);
    let stream = connect(host, port);
    host.send(stream, b"four");
    host.send_eof(stream);
    let heard = host.finish(stream);
    heard.assert_done();
    assert_eq!((heard.main.as_slice(), server.join().unwrap()), (&b"4 bytes"[..], 4));
}

#[test]
fn a_server_of_another_machine_is_reached_at_its_address_alone() {
    let mut host = Host::start();
    // Another address of the loopback interface stands for another machine.
    let address = [127, 0, 0, 9];
    let listener = TcpListener::bind((Ipv4Addr::from(address), 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || count(listener.accept().unwrap().0));
    let stream = host.open(&Request::ConnectTo { address, port });
    host.wait_until(stream, |heard| heard.responses == [Response::Connected]);
    host.send(stream, b"four");
    host.send_eof(stream);
    let heard = host.finish(stream);
    heard.assert_done();
    assert_eq!((heard.main.as_slice(), server.join().unwrap()), (&b"4 bytes"[..], 4));

    // The listener has gone, and nothing else is tried.
    let stream = host.open(&Request::ConnectTo { address, port });
    assert_eq!(host.finish(stream).error(), ErrorKind::NotFound);
    let stream = host.open(&Request::ConnectTo { address, port: 0 });
    assert_eq!(host.finish(stream).error(), ErrorKind::Invalid);
}

#[test]
fn the_response_arrives_after_the_request_side_is_closed() {
    let mut host = Host::start();
    let (port, server) = server(count);
    let stream = connect(&mut host, port);
    host.send(stream, &vec![7; 5_000_000]);
    host.send_eof(stream);
    let heard = host.finish(stream);
    heard.assert_done();
    assert_eq!((heard.main.as_slice(), heard.eofs.as_slice()), (&b"5000000 bytes"[..], &[Channel::Main][..]));
    assert_eq!(server.join().unwrap(), 5_000_000);
}

#[test]
fn data_reaches_a_server_that_has_closed_its_sending_side() {
    let mut host = Host::start();
    let (port, server) = server(|mut connection| {
        connection.write_all(&vec![1; 3_000_000]).unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        let mut taken = Vec::new();
        connection.read_to_end(&mut taken).unwrap();
        taken
    });
    let stream = connect(&mut host, port);
    host.wait_until(stream, |heard| heard.eofs == [Channel::Main]);
    assert_eq!((host.heard(stream).main.len(), &host.heard(stream).last), (3_000_000, &None));
    host.send(stream, b"afterwards");
    host.send_eof(stream);
    host.finish(stream).assert_done();
    assert_eq!(server.join().unwrap(), b"afterwards");
}

#[test]
fn a_host_that_does_not_read_stalls_only_that_connection() {
    let mut host = Host::start();
    let (port, server) = server(|mut connection| {
        let piece = [0; 65_536];
        loop {
            if let Err(error) = connection.write_all(&piece) {
                return error.kind();
            }
        }
    });
    let stream = connect(&mut host, port);
    host.stall(stream);
    host.wait_until(stream, |heard| heard.main.len() == WINDOW as usize);
    assert_reachable(&mut host);
    host.exec(shell("true")).assert_code(0);
    assert_eq!(host.heard(stream).main.len(), WINDOW as usize);
    host.cancel(stream);
    assert_eq!(host.finish(stream).error(), ErrorKind::Cancelled);
    assert!(matches!(server.join().unwrap(), IoErrorKind::ConnectionReset | IoErrorKind::BrokenPipe));
}

#[test]
fn a_server_that_does_not_read_stalls_only_that_connection() {
    let mut host = Host::start();
    let (go, wait) = mpsc::channel::<()>();
    let (port, server) = server(move |connection| {
        wait.recv().unwrap();
        count(connection)
    });
    let stream = connect(&mut host, port);
    let piece = vec![3; WINDOW as usize / 8];
    for _ in 0..8 {
        host.frame(Kind::Data, Channel::Main, stream, &piece);
    }
    host.send_eof(stream);
    assert_reachable(&mut host);
    host.exec(shell("true")).assert_code(0);
    go.send(()).unwrap();
    let heard = host.finish(stream);
    heard.assert_done();
    assert_eq!((heard.main, server.join().unwrap()), (b"1048576 bytes".to_vec(), WINDOW as usize));
}

#[test]
fn connecting_to_a_port_without_a_listener_is_not_found() {
    let (_held, port) = silent_port();
    let mut host = Host::start();
    let heard = host.call(&Request::Connect { port });
    assert_eq!(heard.error(), ErrorKind::NotFound);
    assert!(format!("{:?}", heard.last).contains(&format!("port {port}")));
    assert_eq!(host.call(&Request::Connect { port: 0 }).error(), ErrorKind::Invalid);
}

#[test]
fn a_server_that_listens_only_on_ipv6_is_reached() {
    let (_held, port) = silent_port();
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, port)).unwrap();
    let server = thread::spawn(move || count(listener.accept().unwrap().0));
    let mut host = Host::start();
    let stream = connect(&mut host, port);
    host.send_eof(stream);
    host.finish(stream).assert_done();
    assert_eq!(server.join().unwrap(), 0);
}

#[test]
fn a_connection_reset_by_the_server_is_an_error_after_its_data() {
    let mut host = Host::start();
    let (port, server) = server(|mut connection| {
        connection.write_all(b"first").unwrap();
        // Closing a socket with unread data resets the connection.
        connection.peek(&mut [0]).unwrap();
    });
    let stream = connect(&mut host, port);
    host.wait_until(stream, |heard| heard.main == b"first");
    host.send(stream, b"unread");
    let heard = host.finish(stream);
    assert_eq!((heard.main.as_slice(), heard.error()), (&b"first"[..], ErrorKind::Io));
    assert_eq!(heard.eofs, []);
    server.join().unwrap();
}

#[test]
fn a_lost_session_resets_its_connections() {
    let mut host = Host::start();
    let (port, server) =
        server(|mut connection| connection.read_to_end(&mut Vec::new()).map_err(|error| error.kind()));
    let stream = connect(&mut host, port);
    host.send(stream, b"half of some");
    host.hello(Inherit::Keep);
    assert_eq!(server.join().unwrap(), Err(IoErrorKind::ConnectionReset));
    assert_reachable(&mut host);
}

#[test]
fn hundreds_of_concurrent_connections_do_not_mix() {
    const MANY: usize = 400;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let mut connections: Vec<TcpStream> = (0..MANY).map(|_| listener.accept().unwrap().0).collect();
        for connection in &mut connections {
            let mut word = [0; 4];
            connection.read_exact(&mut word).unwrap();
            connection.write_all(&word).unwrap();
        }
    });
    let mut host = Host::start();
    let streams: Vec<u32> = (0..MANY).map(|_| connect(&mut host, port)).collect();
    host.exec(shell("true")).assert_code(0);
    for (number, stream) in streams.iter().enumerate() {
        host.send(*stream, &(number as u32).to_le_bytes());
        host.send_eof(*stream);
    }
    for (number, stream) in streams.into_iter().enumerate() {
        let heard = host.finish(stream);
        heard.assert_done();
        assert_eq!(heard.main, (number as u32).to_le_bytes());
    }
    server.join().unwrap();
    // Surplus workers are exiting.
    while host.status().threads > 20 {}
    assert!(host.status().open_fds < 20);
}
