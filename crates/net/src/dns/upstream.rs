//! Asks the host's resolvers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;

use super::cache::{Cache, Lookup};

const ATTEMPT: Duration = Duration::from_secs(2);
const ROUNDS: usize = 2;
/// Queries to the host's resolvers at the same time, of all workspaces together.
const CONCURRENT: usize = 256;
const MAX_SERVERS: usize = 4;

/// Which resolvers are asked.
#[derive(Clone, Debug)]
pub enum Nameservers {
    /// Those of the host, from a file in the format of `/etc/resolv.conf`. It is read for every query that is not in the
    /// cache, so a host that changes networks is followed.
    Host(PathBuf),
    /// These.
    Fixed(Vec<SocketAddr>),
}

impl Nameservers {
    /// The resolvers that would be asked now.
    pub fn list(&self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::Fixed(list) => Ok(list.clone()),
            Self::Host(path) => read_servers(path),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a small local file")]
fn read_servers(path: &Path) -> io::Result<Vec<SocketAddr>> {
    let servers = parse_servers(&std::fs::read_to_string(path)?);
    if servers.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} names no resolver", path.display())));
    }
    Ok(servers)
}

fn parse_servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let mut words = line.split_whitespace();
        let is_server = words.next() == Some("nameserver");
        let address: IpAddr = words.next().filter(|_| is_server)?.parse().ok()?;
        Some(SocketAddr::new(address, 53))
    };
    text.lines().filter_map(server).take(MAX_SERVERS).collect()
}

/// The shared part of all workspaces' resolvers.
#[derive(Debug)]
pub(crate) struct Resolver {
    servers: Nameservers,
    cache: Mutex<Cache>,
    slots: Semaphore,
}

impl Resolver {
    pub(crate) fn new(servers: Nameservers) -> Self {
        Self { servers, cache: Mutex::default(), slots: Semaphore::new(CONCURRENT) }
    }

    /// Resolves a name (in normal form) through the cache. `places` are those of the workspace that asks.
    pub(super) async fn lookup(
        &self,
        name: &str,
        kind: RecordType,
        places: &Semaphore,
    ) -> io::Result<Arc<Lookup>> {
        let cached = self.cache().get(name, kind, Instant::now());
        if let Some(lookup) = cached {
            return Ok(lookup);
        }
        let _place = places.acquire().await.map_err(io::Error::other)?;
        let _slot = self.slots.acquire().await.map_err(io::Error::other)?;
        let lookup = Arc::new(self.ask(name, kind).await?);
        self.cache().insert(name, kind, Arc::clone(&lookup), Instant::now());
        Ok(lookup)
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    async fn ask(&self, name: &str, kind: RecordType) -> io::Result<Lookup> {
        let mut name = Name::from_ascii(name).map_err(io::Error::other)?;
        name.set_fqdn(true);
        let servers = self.servers.list()?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for server in servers.iter().cycle().take(servers.len() * ROUNDS) {
            let query = Query::query(name.clone(), kind);
            match tokio::time::timeout(ATTEMPT, exchange(*server, query)).await {
                Ok(Ok(message)) if is_final(message.metadata.response_code) => {
                    return Ok(Lookup { code: message.metadata.response_code, answers: message.answers });
                }
                Ok(Ok(message)) => last = io::Error::other(message.metadata.response_code.to_string()),
                Ok(Err(error)) => last = error,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(last)
    }
}

/// Whether another server would say the same.
fn is_final(code: ResponseCode) -> bool {
    matches!(code, ResponseCode::NoError | ResponseCode::NXDomain)
}

/// Asks one server over UDP, and over TCP if the answer does not fit.
async fn exchange(server: SocketAddr, query: Query) -> io::Result<Message> {
    let mut request = Message::new(random_id()?, MessageType::Query, OpCode::Query);
    request.metadata.recursion_desired = true;
    request.add_query(query);
    let bytes = request.to_vec().map_err(io::Error::other)?;

    let local: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((local, 0)).await?;
    socket.connect(server).await?;
    socket.send(&bytes).await?;
    let mut buffer = vec![0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // Anything that is not the answer to this question is somebody's attempt to be believed.
        let Some(answer) = matching(&request, &buffer[..length]) else { continue };
        return if answer.metadata.truncation {
            exchange_tcp(server, &request, &bytes).await
        } else {
            Ok(answer)
        };
    }
}

async fn exchange_tcp(server: SocketAddr, request: &Message, bytes: &[u8]) -> io::Result<Message> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    matching(request, &answer).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn matching(request: &Message, bytes: &[u8]) -> Option<Message> {
    let answer = Message::from_vec(bytes).ok()?;
    let same_question = match (request.queries.as_slice(), answer.queries.as_slice()) {
        ([asked], [answered]) => {
            asked.query_type() == answered.query_type() && asked.name().eq_ignore_root(answered.name())
        }
        _ => false,
    };
    let is_answer = answer.metadata.message_type == MessageType::Response;
    (is_answer && same_question && answer.metadata.id == request.metadata.id).then_some(answer)
}

fn random_id() -> io::Result<u16> {
    let mut bytes = [0; 2];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u16::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_read_from_the_hosts_file() {
        let text = "# comment\nsearch example.com\nnameserver 192.0.2.1\nnameserver ::1\nnameserver bad\noptions edns0\n";
        let expected: Vec<SocketAddr> = vec!["192.0.2.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()];
        assert_eq!(parse_servers(text), expected);
    }

    #[test]
    fn a_change_of_the_hosts_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("resolv.conf");
        let servers = Nameservers::Host(path.clone());
        assert_eq!(servers.list().unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "nameserver 192.0.2.1\n").unwrap();
        assert_eq!(servers.list().unwrap()[0].to_string(), "192.0.2.1:53");
        std::fs::write(&path, "nameserver 192.0.2.2\n").unwrap();
        assert_eq!(servers.list().unwrap()[0].to_string(), "192.0.2.2:53");
        std::fs::write(&path, "search example.com\n").unwrap();
        assert!(servers.list().is_err(), "a file without resolvers is an error");
    }
}
