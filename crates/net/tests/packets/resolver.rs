//! The resolver on the gateway.

use std::net::Ipv4Addr;

use agentiso_core::{Ask, NetworkRules};
use agentiso_net::{Limits, LogEvent};
use agentiso_policy::egress::Policy;
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};

use crate::support::*;

fn query(name: &str, kind: RecordType) -> Vec<u8> {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message.to_vec().unwrap()
}

async fn ask(guest: &mut Guest, name: &str, kind: RecordType) -> Message {
    let socket = guest.udp();
    guest.send_udp(socket, GATEWAY, 53, &query(name, kind));
    let (bytes, from) = guest.receive_udp(socket).await;
    guest.sockets.remove(socket);
    assert_eq!(from, (GATEWAY, 53).into());
    let message = Message::from_vec(&bytes).unwrap();
    assert_eq!(message.metadata.id, 4711);
    assert_eq!(message.metadata.message_type, MessageType::Response);
    message
}

fn addresses(message: &Message) -> Vec<Ipv4Addr> {
    let address = |data: &RData| match data {
        RData::A(address) => Some(address.0),
        _ => None,
    };
    message.answers.iter().filter_map(|record| address(&record.data)).collect()
}

fn only(domains: &[&str]) -> NetworkRules {
    NetworkRules { allow_domains: Some(strings(domains)), ..online() }
}

#[tokio::test]
async fn an_allowed_name_resolves_and_its_address_opens() {
    let server = Nameserver::start(vec![("www.example.com", vec![a("www.example.com", 60, PUBLIC)])]).await;
    let net = Net::with_nameservers(vec![server.address]);
    let _listener = net.uplink.listen(PUBLIC, 443).await;
    let mut guest = net.guest(2, only(&["*.example.com"]));
    assert_eq!(guest.connect(PUBLIC, 443).await, Connected::Refused, "not resolved yet");
    let answer = ask(&mut guest, "WWW.example.com", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NoError);
    assert_eq!(addresses(&answer), [PUBLIC]);
    guest.connect(PUBLIC, 443).await.unwrap();
    let entry = net.logged(LogEvent::Opened).await;
    assert_eq!(entry.name.as_deref(), Some("www.example.com"));
    assert_eq!(entry.rule, "allow_domains: *.example.com");

    let mut other = net.guest(3, only(&["*.example.com"]));
    assert_eq!(other.connect(PUBLIC, 443).await, Connected::Refused, "pinned for the other workspace alone");
}

#[tokio::test]
async fn a_name_that_is_asked_about_waits_for_the_answer() {
    let server = Nameserver::start(vec![("www.example.com", vec![a("www.example.com", 60, PUBLIC)])]).await;
    let net = Net::with_nameservers(vec![server.address]);
    let asking = |domains: &[&str]| NetworkRules { ask: Ask::Wait, ..only(domains) };
    let mut guest = net.guest(2, asking(&[]));
    let grant = async {
        // The refusal is in the log while the query waits: a request can be raised.
        let refused = net.logged(LogEvent::Refused).await;
        assert_eq!(refused.name.as_deref(), Some("www.example.com"));
        let granted = Policy::check(&asking(&["www.example.com"])).unwrap();
        net.router.set_policies(vec![(workspace(2), granted)]).unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&mut guest, "www.example.com", RecordType::A), grant);
    assert_eq!(addresses(&answer), [PUBLIC]);

    // Without asking, the query is refused at once, and so is one whose policy stops asking.
    let mut other = net.guest(3, asking(&[]));
    let stop = async {
        while !net.router.log(0, 100).iter().any(|entry| entry.workspace == workspace(3)) {
            tokio::task::yield_now().await;
        }
        net.router.set_policies(vec![(workspace(3), Policy::check(&only(&[])).unwrap())]).unwrap();
    };
    let (answer, ()) = tokio::join!(ask(&mut other, "www.example.com", RecordType::A), stop);
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
}

#[tokio::test]
async fn a_refused_name_is_answered_at_once_and_asked_of_nobody() {
    let server = Nameserver::start(Vec::new()).await;
    let net = Net::with_nameservers(vec![server.address]);
    let mut guest = net.guest(2, only(&["a.example"]));
    let mut offline = net.guest(3, NetworkRules::default());
    for name in ["secret-data.tunnel.example", "dns.google", "b.example"] {
        let answer = ask(&mut guest, name, RecordType::TXT).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused, "{name}");
    }
    let answer = ask(&mut offline, "a.example", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
    assert!(server.asked().is_empty());
    let refused = net.logged(LogEvent::Refused).await;
    assert_eq!(refused.name.as_deref(), Some("secret-data.tunnel.example"));
    assert_eq!(refused.address, None);
}

#[tokio::test]
async fn names_that_lead_to_closed_addresses_are_refused() {
    let zone = vec![
        ("rebind.example", vec![a("rebind.example", 1, Ipv4Addr::new(10, 0, 0, 1))]),
        ("local.example", vec![a("local.example", 1, Ipv4Addr::LOCALHOST)]),
        ("pool.example", vec![a("pool.example", 1, Ipv4Addr::new(10, 99, 0, 3))]),
        ("host.example", vec![a("host.example", 1, OTHER_PUBLIC)]),
        (
            "mixed.example",
            vec![a("mixed.example", 1, PUBLIC), a("mixed.example", 1, Ipv4Addr::new(192, 168, 0, 1))],
        ),
    ];
    let server = Nameserver::start(zone).await;
    let net = Net::with_nameservers(vec![server.address]);
    net.uplink.own(OTHER_PUBLIC);
    let mut guest = net.guest(2, online());
    for name in ["rebind.example", "local.example", "pool.example", "host.example"] {
        let answer = ask(&mut guest, name, RecordType::A).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused, "{name}");
        assert!(answer.answers.is_empty(), "{name}");
    }
    assert_eq!(addresses(&ask(&mut guest, "mixed.example", RecordType::A).await), [PUBLIC]);
    let mut trusting = net
        .guest(3, NetworkRules { allow_cidrs: Some(strings(&["10.0.0.0/8"])), ..only(&["rebind.example"]) });
    let answer = ask(&mut trusting, "rebind.example", RecordType::A).await;
    assert_eq!(addresses(&answer), [Ipv4Addr::new(10, 0, 0, 1)], "the range is named");
}

#[tokio::test]
async fn aliases_are_followed_pinned_and_checked() {
    let zone = vec![
        (
            "www.example.com",
            vec![cname("www.example.com", "cdn.example.net"), a("cdn.example.net", 60, PUBLIC)],
        ),
        ("split.example.com", vec![cname("split.example.com", "far.example.net")]),
        ("far.example.net", vec![a("far.example.net", 60, OTHER_PUBLIC)]),
        (
            "bad.example.com",
            vec![cname("bad.example.com", "x.tracker.example"), a("x.tracker.example", 60, PUBLIC)],
        ),
        ("loop.example.com", vec![cname("loop.example.com", "loop.example.com")]),
    ];
    let server = Nameserver::start(zone).await;
    let net = Net::with_nameservers(vec![server.address]);
    let _listener = net.uplink.listen(OTHER_PUBLIC, 443).await;
    let policy = NetworkRules { deny_domains: strings(&["*.tracker.example"]), ..only(&["*.example.com"]) };
    let mut guest = net.guest(2, policy);
    let answer = ask(&mut guest, "www.example.com", RecordType::A).await;
    assert_eq!((answer.answers.len(), addresses(&answer)), (2, vec![PUBLIC]));
    let answer = ask(&mut guest, "split.example.com", RecordType::A).await;
    assert_eq!(addresses(&answer), [OTHER_PUBLIC], "the resolver gave the alias alone");
    guest.connect(OTHER_PUBLIC, 443).await.unwrap();
    assert_eq!(net.logged(LogEvent::Opened).await.name.as_deref(), Some("split.example.com"));
    let answer = ask(&mut guest, "bad.example.com", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
    let answer = ask(&mut guest, "loop.example.com", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    let answer = ask(&mut guest, "cdn.example.net", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused, "an alias is not allowed itself");
}

#[tokio::test]
async fn ipv6_and_service_bindings_are_empty_and_zone_transfers_are_refused() {
    let server = Nameserver::start(Vec::new()).await;
    let net = Net::with_nameservers(vec![server.address]);
    let mut guest = net.guest(2, online());
    for kind in [RecordType::AAAA, RecordType::HTTPS, RecordType::SVCB] {
        let answer = ask(&mut guest, "www.example.com", kind).await;
        assert_eq!(
            (answer.metadata.response_code, answer.answers.len()),
            (ResponseCode::NoError, 0),
            "{kind}"
        );
    }
    for kind in [RecordType::ANY, RecordType::AXFR] {
        let answer = ask(&mut guest, "www.example.com", kind).await;
        assert_eq!(answer.metadata.response_code, ResponseCode::NotImp, "{kind}");
    }
    let answer = ask(&mut guest, "1.0.0.10.in-addr.arpa", RecordType::PTR).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused, "the name of a private address");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn answers_come_from_the_cache_and_missing_names_are_missing() {
    let server = Nameserver::start(vec![("www.example.com", vec![a("www.example.com", 60, PUBLIC)])]).await;
    let net = Net::with_nameservers(vec![server.address]);
    let mut one = net.guest(2, online());
    let mut two = net.guest(3, online());
    assert_eq!(addresses(&ask(&mut one, "www.example.com", RecordType::A).await), [PUBLIC]);
    assert_eq!(addresses(&ask(&mut two, "www.example.com", RecordType::A).await), [PUBLIC]);
    assert_eq!(server.asked(), ["www.example.com"], "asked once for both");
    let answer = ask(&mut one, "no.example.com", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::NXDomain);
}

#[tokio::test]
async fn without_a_resolver_the_answer_is_a_failure() {
    let net = Net::new();
    let mut guest = net.guest(2, online());
    let answer = ask(&mut guest, "www.example.com", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
}

#[tokio::test]
async fn a_resolver_that_is_away_is_replaced_by_the_next() {
    let away = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let server = Nameserver::start(vec![("www.example.com", vec![a("www.example.com", 60, PUBLIC)])]).await;
    let net = Net::with_nameservers(vec![away, server.address]);
    let mut guest = net.guest(2, online());
    assert_eq!(addresses(&ask(&mut guest, "www.example.com", RecordType::A).await), [PUBLIC]);
}

#[tokio::test]
async fn an_answer_that_is_too_large_for_a_datagram_is_fetched_over_tcp() {
    let many: Vec<_> = (0..100).map(|low| a("big.example", 60, Ipv4Addr::new(93, 184, 1, low))).collect();
    let server = Nameserver::start(vec![("big.example", many)]).await;
    let net = Net::with_nameservers(vec![server.address]);
    let mut guest = net.guest(2, online());
    let answer = ask(&mut guest, "big.example", RecordType::A).await;
    assert!(answer.metadata.truncation && answer.answers.is_empty());

    let connection = guest.connect(GATEWAY, 53).await.unwrap();
    let question = query("big.example", RecordType::A);
    let length = (question.len() as u16).to_be_bytes();
    // Two questions in one connection.
    guest.send(connection, &[&length, &question[..], &length, &question].concat()).await;
    for _ in 0..2 {
        let length = guest.receive(connection, 2).await;
        let bytes = guest.receive(connection, usize::from(u16::from_be_bytes([length[0], length[1]]))).await;
        assert_eq!(addresses(&Message::from_vec(&bytes).unwrap()).len(), 100);
    }
}

#[tokio::test]
async fn queries_are_limited_per_workspace() {
    let server = Nameserver::start(Vec::new()).await;
    let net = Net::with_nameservers(vec![server.address]);
    let limits = Limits { queries_per_second: 5, ..Limits::default() };
    let mut guest = net.guest_with(2, NetworkRules::default(), limits, 1500);
    let socket = guest.udp();
    for _ in 0..50 {
        guest.send_udp(socket, GATEWAY, 53, &query("www.example.com", RecordType::A));
        guest.until("the query is sent", |_| Some(())).await;
    }
    let mut other = net.guest(3, NetworkRules::default());
    let answer = ask(&mut other, "www.example.com", RecordType::A).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::Refused);
    let status = net.router.machines();
    let dropped = status[0].counters.dropped[&agentiso_net::frame::Dropped::QueryRate];
    assert!(dropped >= 40, "{dropped}");
}

#[tokio::test]
async fn what_is_not_a_query_is_ignored() {
    let net = Net::new();
    let mut guest = net.guest(2, online());
    let socket = guest.udp();
    let mut response = Message::from_vec(&query("a.example", RecordType::A)).unwrap();
    response.metadata.message_type = MessageType::Response;
    for junk in [&b"x"[..], &[0xff; 100], &response.to_vec().unwrap()] {
        guest.send_udp(socket, GATEWAY, 53, junk);
    }
    guest.send_udp(socket, GATEWAY, 53, &query("a.example", RecordType::AAAA));
    let (bytes, _) = guest.receive_udp(socket).await;
    assert_eq!(
        Message::from_vec(&bytes).unwrap().queries[0].query_type(),
        RecordType::AAAA,
        "the first answer"
    );
}

#[tokio::test]
async fn a_workspace_that_asks_for_names_nobody_answers_keeps_no_other_waiting() {
    // It takes questions and answers none but the last.
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let net = Net::with_nameservers(vec![socket.local_addr().unwrap()]);
    let (heard, mut others) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        loop {
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            let mut message = Message::from_vec(&buffer[..length]).unwrap();
            let name = message.queries[0].name().to_ascii();
            if name.starts_with("www.") {
                message.metadata.message_type = MessageType::Response;
                message.insert_answers(vec![a("www.example.com", 60, PUBLIC)]);
                socket.send_to(&message.to_vec().unwrap(), from).await.unwrap();
            }
            heard.send(name).unwrap();
        }
    });
    let limits = Limits { queries_per_second: 0, ..Limits::default() };
    let mut flooder = net.guest_with(2, online(), limits, 1500);
    let flood = flooder.udp();
    for number in 0..600 {
        flooder.send_udp(flood, GATEWAY, 53, &query(&format!("n{number}.example"), RecordType::A));
        flooder.until("the query is sent", |_| Some(())).await;
    }
    others.recv().await.unwrap();
    let mut calm = net.guest(3, online());
    assert_eq!(addresses(&ask(&mut calm, "www.example.com", RecordType::A).await), [PUBLIC]);
    let mut asked = 1;
    while let Ok(name) = others.try_recv() {
        asked += usize::from(!name.starts_with("www."));
    }
    // Each is asked for again until the answer is given up.
    assert!(asked < 200, "{asked} questions of one workspace were on their way");
}
