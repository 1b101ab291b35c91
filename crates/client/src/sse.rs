//! Server-sent events.

use agentiso_core::Failure;
use futures_util::Stream;
use hyper::Response;
use hyper::body::Incoming;
use serde_json::Value;

use crate::error::unintelligible;
use crate::http::next_piece;

/// The longest event that is read. Outcomes of actions are far shorter.
const LONGEST: usize = 64 << 20;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub name: String,
    pub data: Value,
}

/// Reads the events of a response as they arrive.
pub(crate) fn events(answer: Response<Incoming>) -> impl Stream<Item = Result<Event, Failure>> + use<> {
    async_stream::try_stream! {
        let mut body = answer.into_body();
        let mut blocks = Blocks::default();
        while let Some(piece) = next_piece(&mut body).await? {
            blocks.push(&piece)?;
            while let Some(block) = blocks.next() {
                if let Some(event) = parse(&block)? {
                    yield event;
                }
            }
        }
    }
}

/// Cuts bytes into blocks that end with an empty line.
#[derive(Default)]
struct Blocks {
    buffer: Vec<u8>,
    /// How many bytes of the buffer are known to hold no end of a block.
    searched: usize,
}

impl Blocks {
    fn push(&mut self, piece: &[u8]) -> Result<(), Failure> {
        if piece.len() > LONGEST - self.buffer.len().min(LONGEST) {
            return Err(unintelligible(format!("an event is longer than {LONGEST} bytes")));
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    fn next(&mut self) -> Option<Vec<u8>> {
        let found = self.buffer[self.searched..].windows(2).position(|pair| pair == b"\n\n");
        let Some(at) = found else {
            // The next piece may begin with the second of two line ends.
            self.searched = self.buffer.len().saturating_sub(1);
            return None;
        };
        let end = self.searched + at + 2;
        self.searched = 0;
        Some(self.buffer.drain(..end).collect())
    }
}

/// One event; `None` for a comment, which only keeps the connection open.
fn parse(block: &[u8]) -> Result<Option<Event>, Failure> {
    let block = std::str::from_utf8(block).map_err(|_| unintelligible("an event is not UTF-8"))?;
    let (mut name, mut data) = (String::new(), String::new());
    for line in block.lines() {
        if let Some(value) = line.strip_prefix("event:") {
            value.trim_start().clone_into(&mut name);
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    if data.is_empty() {
        return Ok(None);
    }
    let data = serde_json::from_str(&data).map_err(unintelligible)?;
    Ok(Some(Event { name, data }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_read_and_comments_are_not() {
        assert_eq!(parse(b": keep\n\n").unwrap(), None);
        let read = parse(b"event: result\ndata: {\"a\":1}\n\n").unwrap();
        assert_eq!(read, Some(Event { name: "result".to_owned(), data: json!({ "a": 1 }) }));
        assert!(parse(b"event: x\ndata: {\n\n").is_err());
        assert!(parse(b"event: x\ndata: \xff\n\n").is_err());
    }

    #[test]
    fn blocks_are_found_wherever_the_pieces_are_cut() {
        let sent = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\nrest";
        for size in 1..sent.len() {
            let (mut blocks, mut found) = (Blocks::default(), Vec::new());
            for piece in sent.chunks(size) {
                blocks.push(piece).unwrap();
                while let Some(block) = blocks.next() {
                    found.push(parse(&block).unwrap().unwrap().name);
                }
            }
            assert_eq!(found, ["a", "b"], "in pieces of {size}");
            assert_eq!(blocks.buffer, b"rest");
        }
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        let mut blocks = Blocks { buffer: vec![b'x'; LONGEST - 1], searched: 0 };
        blocks.push(b"x").unwrap();
        assert!(blocks.push(b"x").is_err());
    }
}
