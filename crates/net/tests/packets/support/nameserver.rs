//! A DNS server on loopback with a few records.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use hickory_proto::op::{Message, MessageType, ResponseCode};
use hickory_proto::rr::rdata::{A, CNAME};
use hickory_proto::rr::{Name, RData, Record};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// Answers over UDP and TCP on one port. A name it does not have does not exist.
pub struct Nameserver {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

pub fn a(name: &str, ttl: u32, address: Ipv4Addr) -> Record {
    Record::from_rdata(Name::from_ascii(name).unwrap(), ttl, RData::A(A(address)))
}

pub fn cname(name: &str, target: &str) -> Record {
    Record::from_rdata(
        Name::from_ascii(name).unwrap(),
        60,
        RData::CNAME(CNAME(Name::from_ascii(target).unwrap())),
    )
}

impl Nameserver {
    /// Serves what each name is answered with.
    pub async fn start(zone: Vec<(&str, Vec<Record>)>) -> Self {
        // The port that is free for UDP may be in use for TCP.
        let (udp, tcp, address) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let address = udp.local_addr().unwrap();
            match TcpListener::bind(address).await {
                Ok(tcp) => break (udp, tcp, address),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse),
            }
        };
        let asked = Arc::new(Mutex::new(Vec::new()));
        let zone: Arc<HashMap<String, Vec<Record>>> =
            Arc::new(zone.into_iter().map(|(name, records)| (name.to_owned(), records)).collect());
        let (udp_zone, udp_asked) = (Arc::clone(&zone), Arc::clone(&asked));
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
                let answer = answer(&udp_zone, &udp_asked, &buffer[..length]);
                let mut bytes = answer.to_vec().unwrap();
                if bytes.len() > 512 {
                    bytes = answer.truncate().to_vec().unwrap();
                }
                udp.send_to(&bytes, from).await.unwrap();
            }
        });
        let tcp_asked = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
                stream.read_exact(&mut query).await.unwrap();
                let bytes = answer(&zone, &tcp_asked, &query).to_vec().unwrap();
                stream.write_u16(bytes.len() as u16).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
            }
        });
        Self { address, asked }
    }

    /// The names that were asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn answer(zone: &HashMap<String, Vec<Record>>, asked: &Mutex<Vec<String>>, query: &[u8]) -> Message {
    let mut message = Message::from_vec(query).unwrap();
    let name = message.queries[0].name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
    asked.lock().unwrap().push(name.clone());
    message.metadata.message_type = MessageType::Response;
    match zone.get(&name) {
        Some(records) => message.insert_answers(records.clone()),
        None => message.metadata.response_code = ResponseCode::NXDomain,
    }
    message
}
