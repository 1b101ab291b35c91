//! A client for QEMU's machine protocol.
//!
//! Only about a dozen commands are used, and answers are read as plain JSON: a typed model of all of QMP would break on
//! every enum value that a newer QEMU adds. Commands can be queued before QEMU has sent its greeting, so that a start
//! needs no extra round trips.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{broadcast, mpsc, oneshot};

/// The longest line QEMU may send; its schema dump, which we never ask for, would be about 200 KiB.
const MAX_LINE: u64 = 1 << 20;
/// How many events a slow listener may fall behind.
const EVENT_BACKLOG: usize = 256;

/// A connection to one QEMU's monitor.
#[derive(Clone, Debug)]
pub struct Qmp {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    waiting: Waiting,
    events: broadcast::Sender<Event>,
}

/// An event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Its name, `STOP` or `MIGRATION`.
    pub name: String,
    /// Its data.
    pub data: Value,
    /// When, by QEMU's clock.
    pub at: Duration,
}

/// Why a command failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QmpError {
    /// QEMU refused it.
    #[error("QEMU refused {command}: {message}")]
    Refused {
        /// The command.
        command: String,
        /// QEMU's message.
        message: String,
    },
    /// The connection ended.
    #[error("QEMU's monitor closed during {command}")]
    Closed {
        /// The command.
        command: String,
    },
    /// QEMU did not answer in time.
    #[error("QEMU did not answer {command} within {} s", limit.as_secs())]
    Timeout {
        /// The command.
        command: String,
        /// The time limit.
        limit: Duration,
    },
}

/// A line, and a descriptor to send with it.
type Outgoing = (Vec<u8>, Option<OwnedFd>);
type Answer = Result<Value, String>;
/// Commands that wait for an answer. Answers come in the order of the commands. `None` once closed.
type Waiting = Arc<Mutex<Option<VecDeque<oneshot::Sender<Answer>>>>>;

impl Qmp {
    /// How long a command may take once QEMU runs. Only reached on overloaded hosts: the end of QEMU is noticed at once.
    pub const LIMIT: Duration = Duration::from_secs(30);

    /// Takes over a connection and negotiates.
    pub fn new(stream: UnixStream) -> Self {
        let (reader, writer) = stream.into_split();
        let (outgoing, queue) = mpsc::unbounded_channel();
        let qmp = Self {
            outgoing,
            waiting: Arc::new(Mutex::new(Some(VecDeque::new()))),
            events: broadcast::channel(EVENT_BACKLOG).0,
        };
        tokio::spawn(write_commands(writer, queue));
        tokio::spawn(read_answers(reader, qmp.waiting.clone(), qmp.events.clone()));
        // The answer does not matter: if the negotiation fails, every later command fails with a message.
        drop(qmp.send("qmp_capabilities", json!({})));
        qmp
    }

    /// Queues a command and returns its answer when it comes.
    pub fn send(&self, command: &str, arguments: Value) -> Pending {
        self.queue(command, arguments, None)
    }

    /// Passes QEMU an open descriptor under a name that later commands can use.
    pub fn send_descriptor(&self, name: &str, descriptor: OwnedFd) -> Pending {
        self.queue("getfd", json!({ "fdname": name }), Some(descriptor))
    }

    /// Passes QEMU an open descriptor as a member of a set, which file names can refer to.
    pub fn send_to_set(&self, set: u32, descriptor: OwnedFd) -> Pending {
        self.queue("add-fd", json!({ "fdset-id": set }), Some(descriptor))
    }

    fn queue(&self, command: &str, arguments: Value, descriptor: Option<OwnedFd>) -> Pending {
        let (sender, answer) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = waiting.as_mut() {
            let mut line = json!({ "execute": command, "arguments": arguments }).to_string();
            line.push('\n');
            queue.push_back(sender);
            // If the channel is closed the connection has ended, which the dropped sender reports.
            let _ = self.outgoing.send((line.into_bytes(), descriptor));
        }
        Pending { command: command.to_owned(), answer }
    }

    /// Sends a command and waits for its answer.
    pub async fn execute(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.send(command, arguments).answer().await
    }

    /// Subscribes to events.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }
}

/// A command that was sent.
#[derive(Debug)]
pub struct Pending {
    command: String,
    answer: oneshot::Receiver<Answer>,
}

impl Pending {
    /// Waits for the answer.
    pub async fn answer(self) -> Result<Value, QmpError> {
        self.answer_within(Qmp::LIMIT).await
    }

    /// Waits for the answer of a QEMU that may still be starting.
    pub async fn answer_within(self, limit: Duration) -> Result<Value, QmpError> {
        let command = self.command;
        match tokio::time::timeout(limit, self.answer).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(message))) => Err(QmpError::Refused { command, message }),
            Ok(Err(_)) => Err(QmpError::Closed { command }),
            Err(_) => Err(QmpError::Timeout { command, limit }),
        }
    }
}

async fn write_commands(mut writer: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some((line, descriptor)) = queue.recv().await {
        let written = match descriptor {
            None => writer.write_all(&line).await,
            Some(descriptor) => write_with_descriptor(&mut writer, &line, &descriptor).await,
        };
        if written.is_err() {
            return;
        }
    }
}

/// Sends the descriptor with the first bytes of the line.
async fn write_with_descriptor(writer: &mut OwnedWriteHalf, line: &[u8], fd: &OwnedFd) -> io::Result<()> {
    let socket: &UnixStream = writer.as_ref();
    let sent = socket.async_io(Interest::WRITABLE, || send_with_descriptor(socket, line, fd)).await?;
    writer.write_all(&line[sent..]).await
}

fn send_with_descriptor(socket: &UnixStream, line: &[u8], fd: &OwnedFd) -> io::Result<usize> {
    let fds = [fd.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    Ok(sendmsg(socket, &[IoSlice::new(line)], &mut control, SendFlags::empty())?)
}

fn time_of(stamp: &Value) -> Duration {
    let number = |name: &str| stamp[name].as_u64().unwrap_or_default();
    Duration::from_secs(number("seconds")) + Duration::from_micros(number("microseconds"))
}

async fn read_answers(reader: OwnedReadHalf, waiting: Waiting, events: broadcast::Sender<Event>) {
    let mut lines = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(length) if length > 0 && line.ends_with(b"\n") => {}
            _ => break,
        }
        let Ok(message) = serde_json::from_slice::<Value>(&line) else { break };
        if let Some(name) = message["event"].as_str() {
            // There may be no subscribers.
            let (data, at) = (message["data"].clone(), time_of(&message["timestamp"]));
            let _ = events.send(Event { name: name.to_owned(), data, at });
        } else if let Some(answer) = answer_of(&message) {
            let next =
                waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut().and_then(VecDeque::pop_front);
            if let Some(sender) = next {
                let _ = sender.send(answer);
            }
        }
    }
    // Dropping the senders notifies all waiters.
    waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
}

/// The answer in a message, or `None` for the greeting.
fn answer_of(message: &Value) -> Option<Answer> {
    if let Some(value) = message.get("return") {
        return Some(Ok(value.clone()));
    }
    let error = message.get("error")?;
    Some(Err(error["desc"].as_str().unwrap_or("no reason given").to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pair() -> (Qmp, BufReader<OwnedReadHalf>, OwnedWriteHalf) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = theirs.into_split();
        (Qmp::new(ours), BufReader::new(reader), writer)
    }

    async fn line(reader: &mut BufReader<OwnedReadHalf>) -> Value {
        let mut text = String::new();
        reader.read_line(&mut text).await.unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[tokio::test]
    async fn commands_queue_before_the_greeting_and_answers_come_in_order() {
        let (qmp, mut reader, mut writer) = pair().await;
        let (one, two) = (qmp.send("one", json!({})), qmp.send("two", json!({ "x": 1 })));
        assert_eq!(line(&mut reader).await["execute"], "qmp_capabilities");
        assert_eq!(line(&mut reader).await["execute"], "one");
        assert_eq!(line(&mut reader).await["arguments"]["x"], 1);
        let said = b"{\"QMP\":{}}\n{\"return\":{}}\n{\"event\":\"STOP\",\"data\":{}}\n{\"return\":1}\n\
            {\"error\":{\"class\":\"x\",\"desc\":\"no such thing\"}}\n";
        writer.write_all(said).await.unwrap();
        assert_eq!(one.answer().await.unwrap(), 1);
        assert_eq!(two.answer().await.unwrap_err().to_string(), "QEMU refused two: no such thing");
    }

    #[tokio::test]
    async fn everyone_who_waits_hears_of_the_end() {
        let (qmp, reader, writer) = pair().await;
        let waiting = qmp.send("never", json!({}));
        drop((reader, writer));
        assert!(matches!(waiting.answer().await, Err(QmpError::Closed { .. })));
        assert!(matches!(qmp.execute("late", json!({})).await, Err(QmpError::Closed { .. })));
    }

    #[tokio::test]
    async fn a_line_without_end_closes_the_connection() {
        let (qmp, reader, mut writer) = pair().await;
        let waiting = qmp.send("x", json!({}));
        let flood = tokio::spawn(async move {
            let block = vec![b'x'; 1 << 16];
            while writer.write_all(&block).await.is_ok() {}
        });
        assert!(matches!(waiting.answer().await, Err(QmpError::Closed { .. })));
        drop((qmp, reader));
        flood.await.unwrap();
    }
}
