//! The name server: over UDP and TCP on port 53 of every address that has one.

use std::net::{Ipv4Addr, SocketAddr};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::spawn_local;

use super::arrivals::{Arrivals, Request};
use super::places::{Answer, NAMES};

/// Serves the names on one address.
pub(super) async fn serve(address: Ipv4Addr, arrivals: &Arrivals) {
    let to = SocketAddr::from((address, 53));
    let udp = UdpSocket::bind(to).await.expect("a port of the namespace");
    let tcp = TcpListener::bind(to).await.expect("a port of the namespace");
    let seen = arrivals.clone();
    spawn_local(async move {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
            if let Some(answer) = answer(&buffer[..length], to, from, &seen) {
                let _ = udp.send_to(&answer, from).await;
            }
        }
    });
    let seen = arrivals.clone();
    spawn_local(async move {
        while let Ok((stream, from)) = tcp.accept().await {
            let seen = seen.clone();
            spawn_local(async move {
                let _ = converse(stream, to, from, &seen).await;
            });
        }
    });
}

async fn converse(
    mut stream: TcpStream,
    to: SocketAddr,
    from: SocketAddr,
    arrivals: &Arrivals,
) -> std::io::Result<()> {
    loop {
        let mut query = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut query).await?;
        let Some(answer) = answer(&query, to, from, arrivals) else { return Ok(()) };
        stream.write_u16(answer.len() as u16).await?;
        stream.write_all(&answer).await?;
    }
}

fn answer(query: &[u8], to: SocketAddr, from: SocketAddr, arrivals: &Arrivals) -> Option<Vec<u8>> {
    let mut message = Message::from_vec(query).ok()?;
    let question = message.queries.first()?.clone();
    let name = question.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
    arrivals.request(Request {
        to,
        from,
        tls_name: None,
        protocol: "DNS".to_owned(),
        host: name.clone(),
        path: question.query_type().to_string(),
        authorization: None,
    });
    message.metadata.message_type = MessageType::Response;
    message.edns = None;
    let records = records(&name);
    let wanted = |record: &Record| {
        record.record_type() == question.query_type() || record.record_type() == RecordType::CNAME
    };
    if records.is_empty() {
        message.metadata.response_code = ResponseCode::NXDomain;
    }
    message.insert_answers(records.into_iter().filter(wanted).collect());
    message.to_vec().ok()
}

/// The records of a name and of the names it points to.
fn records(name: &str) -> Vec<Record> {
    let mut found = Vec::new();
    let mut current = name.to_owned();
    for _ in 0..4 {
        let covers = |pattern: &str| match pattern.strip_prefix('*') {
            Some(suffix) => current.ends_with(suffix),
            None => current == pattern,
        };
        let Some((_, lifetime, answer)) = NAMES.iter().find(|(pattern, ..)| covers(pattern)) else { break };
        let owner = Name::from_ascii(format!("{current}.")).expect("a name of the list");
        match answer {
            Answer::Addresses(addresses) => {
                let record =
                    |address: &Ipv4Addr| Record::from_rdata(owner.clone(), *lifetime, RData::A(A(*address)));
                found.extend(addresses.iter().map(record));
                break;
            }
            Answer::Alias(target) => {
                let next = Name::from_ascii(format!("{target}.")).expect("a name of the list");
                found.push(Record::from_rdata(owner, *lifetime, RData::CNAME(CNAME(next))));
                current = (*target).to_owned();
            }
        }
    }
    found
}
