//! How a guest tries to reach something.

use std::net::Ipv4Addr;

use agentiso_testing::internet::table::{GATEWAY, How};
use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Icmpv4Repr, Ipv4Packet};

use crate::support::*;

/// What the guest saw.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    Reached,
    Refused,
}

/// Resolves a name. Nothing if it is refused.
pub async fn resolve(guest: &mut Guest, name: &str) -> Option<Ipv4Addr> {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::A));
    let socket = guest.udp();
    guest.send_udp(socket, GATEWAY, 53, &message.to_vec().unwrap());
    let (bytes, _) = guest.receive_udp(socket).await;
    guest.sockets.remove(socket);
    let answer = Message::from_vec(&bytes).unwrap();
    match answer.metadata.response_code {
        ResponseCode::Refused => None,
        ResponseCode::NoError => answer.answers.iter().find_map(|record| match &record.data {
            RData::A(address) => Some(address.0),
            _ => None,
        }),
        other => panic!("{name} is answered with {other}"),
    }
}

/// Tries to reach an address, until it answers or refuses.
pub async fn attempt(guest: &mut Guest, to: Ipv4Addr, how: How) -> Outcome {
    match how {
        // No kernel sends this on a card, and none believes an answer: that it is refused shows in the log.
        How::Tcp(port) if to.is_loopback() => {
            guest
                .send_frame(&frames::ip_frame(guest.mac, guest.address, to, 6, &frames::syn(4711, port)))
                .await;
            Outcome::Refused
        }
        How::Tcp(port) => match guest.connect(to, port).await {
            Connected::Refused => Outcome::Refused,
            Connected::Yes(connection) => {
                if port == 80 {
                    guest.send(connection, b"GET / HTTP/1.0\r\n\r\n").await;
                    let answer = guest.receive_all(connection).await.expect("the server ends the connection");
                    let text = String::from_utf8_lossy(&answer).into_owned();
                    assert!(text.contains(&format!("hello from {to}")), "{text}");
                }
                guest.sockets.remove(connection);
                Outcome::Reached
            }
        },
        How::Udp(port) => {
            let frame =
                frames::ip_frame(guest.mac, guest.address, to, 17, &frames::udp(4711, port, b"hello"));
            guest.send_frame(&frame).await;
            answer(guest, to).await
        }
        How::Ping => {
            guest.send_frame(&ping(guest.mac, guest.address, to)).await;
            answer(guest, to).await
        }
    }
}

/// Waits for an answer from an address, or for a message that it cannot be reached.
async fn answer(guest: &mut Guest, from: Ipv4Addr) -> Outcome {
    loop {
        let frame = guest.receive_frame().await;
        let Ok(packet) = Ipv4Packet::new_checked(&frame[14..]) else { continue };
        let is_refusal = packet.next_header() == smoltcp::wire::IpProtocol::Icmp
            && Icmpv4Packet::new_checked(packet.payload())
                .is_ok_and(|message| message.msg_type() == Icmpv4Message::DstUnreachable);
        if is_refusal {
            return Outcome::Refused;
        }
        if packet.src_addr() == from && packet.next_header() != smoltcp::wire::IpProtocol::Tcp {
            return Outcome::Reached;
        }
    }
}

/// A frame with an echo request.
pub fn ping(mac: [u8; 6], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoRequest { ident: 4242, seq_no: 9, data: b"are you there" };
    let mut body = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv4Packet::new_unchecked(&mut body), &ChecksumCapabilities::default());
    frames::ip_frame(mac, from, to, 1, &body)
}
