//! Answers one query of one workspace.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::cache::Lookup;
use super::{Asker, names};
use agentiso_policy::egress::{Destination, Policy, Rule};

/// Names in a row that point to another name.
const MAX_ALIASES: usize = 8;
/// A datagram that every client accepts, and the largest we send.
const MIN_DATAGRAM: u16 = 512;
const MAX_DATAGRAM: u16 = 4096;
/// A connection to the resolver on which nothing is asked for this long is closed.
const STREAM_IDLE: Duration = Duration::from_secs(30);

/// Parses a query. Nothing if the bytes are not one standard query with one question.
pub fn parse_query(bytes: &[u8]) -> Option<(Message, Query)> {
    let message = Message::from_vec(bytes).ok()?;
    let is_query =
        message.metadata.message_type == MessageType::Query && message.metadata.op_code == OpCode::Query;
    match message.queries.as_slice() {
        [query] if is_query => {
            let query = query.clone();
            Some((message, query))
        }
        _ => None,
    }
}

/// Answers a query that came in a datagram. If the answer does not fit into one, the guest is told to use TCP.
pub(crate) async fn answer_datagram(asker: &impl Asker, bytes: &[u8]) -> Option<Vec<u8>> {
    let answer = answer(asker, bytes).await?;
    let offered =
        answer.edns.as_ref().map_or(MIN_DATAGRAM, Edns::max_payload).clamp(MIN_DATAGRAM, MAX_DATAGRAM);
    let limit = usize::from(offered).min(asker.mtu() - 28);
    let bytes = answer.to_vec().ok()?;
    if bytes.len() <= limit { Some(bytes) } else { answer.truncate().to_vec().ok() }
}

/// Answers the queries of a TCP connection, one after the other.
pub(crate) async fn serve_stream(asker: Arc<impl Asker>, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    while let Ok(Ok(length)) = tokio::time::timeout(STREAM_IDLE, stream.read_u16()).await {
        let mut query = vec![0; usize::from(length)];
        let read = tokio::time::timeout(STREAM_IDLE, stream.read_exact(&mut query)).await;
        if !matches!(read, Ok(Ok(_))) || !asker.take_query() {
            return;
        }
        let Some(answer) = answer(&*asker, &query).await.and_then(|answer| answer.to_vec().ok()) else {
            return;
        };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        if stream.write_all(&[&length.to_be_bytes(), &answer[..]].concat()).await.is_err() {
            return;
        }
    }
}

/// Answers a query. A message that is not a query has no answer.
async fn answer(asker: &impl Asker, bytes: &[u8]) -> Option<Message> {
    let (request, query) = parse_query(bytes)?;
    asker.count_query();
    let (code, answers) = match resolve(asker, &query).await {
        Ok(answers) => (ResponseCode::NoError, answers),
        Err(code) => (code, Vec::new()),
    };
    let mut response = Message::response(request.metadata.id, OpCode::Query);
    response.metadata.recursion_desired = request.metadata.recursion_desired;
    response.metadata.recursion_available = true;
    response.metadata.response_code = code;
    response.add_query(query);
    response.insert_answers(answers);
    if let Some(edns) = &request.edns {
        let mut own = Edns::new();
        own.set_max_payload(edns.max_payload().clamp(MIN_DATAGRAM, MAX_DATAGRAM));
        response.set_edns(own);
    }
    Some(response)
}

async fn resolve(asker: &impl Asker, query: &Query) -> Result<Vec<Record>, ResponseCode> {
    let name = names::text(query.name()).ok_or(ResponseCode::Refused)?;
    let mut policy = asker.policy().ok_or(ResponseCode::Refused)?;
    let verdict = policy.name_verdict(&name);
    if !verdict.allowed {
        let refused = refuse(asker, name.clone(), &verdict.rule);
        if !asker.wait_until_allowed(&name, &verdict.rule).await {
            return Err(refused);
        }
        policy = asker.policy().ok_or(ResponseCode::Refused)?;
    }
    match query.query_type() {
        _ if query.query_class() != DNSClass::IN => Err(ResponseCode::NotImp),
        // IPv6 is off. Service bindings carry addresses and keys that would get around the policy.
        RecordType::AAAA | RecordType::HTTPS | RecordType::SVCB => Ok(Vec::new()),
        RecordType::ANY | RecordType::AXFR | RecordType::IXFR | RecordType::ZERO => Err(ResponseCode::NotImp),
        RecordType::PTR => resolve_address(asker, &policy, name).await,
        kind => follow(asker, &policy, name, kind, query).await,
    }
}

/// Asks the host's resolvers; a name that does not exist, and a resolver that fails, end the query.
async fn lookup(asker: &impl Asker, name: &str, kind: RecordType) -> Result<Arc<Lookup>, ResponseCode> {
    match asker.resolver().lookup(name, kind, asker.lookups()).await {
        Ok(lookup) if lookup.code == ResponseCode::NoError => Ok(lookup),
        Ok(lookup) => Err(lookup.code),
        Err(error) => {
            tracing::debug!(name, %error, "no resolver answered");
            Err(ResponseCode::ServFail)
        }
    }
}

/// Logs a refused name.
fn refuse(asker: &impl Asker, name: String, rule: &Rule) -> ResponseCode {
    asker.refuse_name(name, rule);
    ResponseCode::Refused
}

/// The name of an address: only of addresses that can be reached, because the host's resolver also knows private ones.
async fn resolve_address(
    asker: &impl Asker,
    policy: &Policy,
    name: String,
) -> Result<Vec<Record>, ResponseCode> {
    let Some(address) = names::reverse_address(&name) else {
        return Err(ResponseCode::NXDomain);
    };
    if let Some(rule) = closed(asker, policy, address) {
        return Err(refuse(asker, name, &rule));
    }
    let found = lookup(asker, &name, RecordType::PTR).await?;
    Ok(found.answers.iter().filter(|record| record.record_type() == RecordType::PTR).cloned().collect())
}

/// Resolves a name, following aliases, and pins the addresses.
async fn follow(
    asker: &impl Asker,
    policy: &Policy,
    name: String,
    kind: RecordType,
    query: &Query,
) -> Result<Vec<Record>, ResponseCode> {
    let mut found = Vec::new();
    let mut current = query.name().clone();
    let mut current_text = name.clone();
    let mut answer = lookup(asker, &name, kind).await?;
    for _ in 0..=MAX_ALIASES {
        let of_current = |record: &&Record| record.name.eq_ignore_root(&current);
        let wanted: Vec<Record> = answer
            .answers
            .iter()
            .filter(of_current)
            .filter(|record| record.record_type() == kind)
            .cloned()
            .collect();
        let alias = answer.answers.iter().filter(of_current).find_map(|record| match &record.data {
            RData::CNAME(target) if kind != RecordType::CNAME => Some((record.clone(), target.0.clone())),
            _ => None,
        });
        match alias {
            None if wanted.is_empty() && current_text != name && !answers_for(&answer.answers, &current) => {
                // The resolver gave the alias alone.
                let next = lookup(asker, &current_text, kind).await?;
                if !answers_for(&next.answers, &current) {
                    return Ok(found);
                }
                answer = next;
            }
            None => {
                found.extend(allowed(asker, policy, &name, wanted).await?);
                return Ok(found);
            }
            Some((record, target)) => {
                let text = names::text(&target).ok_or(ResponseCode::Refused)?;
                if let Rule::DenyDomain(pattern) = policy.name_verdict(&text).rule {
                    return Err(refuse(asker, name, &Rule::DenyDomain(pattern)));
                }
                found.push(record);
                (current, current_text) = (target, text);
            }
        }
    }
    Err(ResponseCode::ServFail)
}

fn answers_for(answers: &[Record], name: &hickory_proto::rr::Name) -> bool {
    answers.iter().any(|record| record.name.eq_ignore_root(name))
}

/// Drops closed addresses from an answer and pins the others. If none is left, the name is refused.
async fn allowed(
    asker: &impl Asker,
    policy: &Policy,
    name: &str,
    records: Vec<Record>,
) -> Result<Vec<Record>, ResponseCode> {
    let mut open = Vec::new();
    let mut pinned = Vec::new();
    let mut refused_by = None;
    for record in records {
        let RData::A(address) = &record.data else {
            open.push(record);
            continue;
        };
        match closed(asker, policy, address.0) {
            Some(rule) => refused_by = Some(rule),
            None => {
                pinned.push((address.0, Duration::from_secs(record.ttl.into())));
                open.push(record);
            }
        }
    }
    if !pinned.is_empty() {
        asker.pin(name, pinned).await;
    }
    match refused_by {
        Some(rule) if open.is_empty() => Err(refuse(asker, name.to_owned(), &rule)),
        _ => Ok(open),
    }
}

/// Why an address must not be in an answer.
fn closed(asker: &impl Asker, policy: &Policy, address: Ipv4Addr) -> Option<Rule> {
    let is_host = asker.is_own_address(address);
    let verdict = policy.answer_verdict(&Destination { address: address.into(), is_host, names: &[] });
    let in_pool = asker.is_in_pool(address);
    if in_pool { Some(Rule::NoSuchWorkspace) } else { (!verdict.allowed).then_some(verdict.rule) }
}
