//! Standard input, of which the command gets what it reads and the rest stays for others.
//!
//! In `while read line; do agentiso exec web touch "$line"; done < list` the loop and the command share one input. What
//! the command does not read must be there for the loop:
//!
//! | standard input | how it is read | at the end |
//! |---|---|---|
//! | a file | without moving its offset | the offset moves past what the command read |
//! | a pipe or a socket | its first page is only looked at, and taken when the command has read it; from then on it is read as it comes | what was looked at and read is taken |
//! | a terminal, a device | as it comes | |
//!
//! Without reports from the machine (an older agent, a terminal) all of it is read as it comes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc as blocking;

use agentiso_core::wire::INPUT_PIECE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::net::RecvFlags;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, tee};
use tokio::sync::mpsc;

/// How many pieces of input may wait for the machine.
const PIECES: usize = 4;
/// How much is looked at before the command has read anything: what the agent offers a command at first.
const PAGE: usize = 4096;

/// What a command's input is read from, and what is left of it.
pub struct Input {
    source: Source,
    /// Read without a buffer: what a buffer holds is lost for others.
    file: Arc<File>,
    /// How much the command has read.
    read: u64,
    offer: Option<Offer>,
}

/// A first piece that was sent but not taken.
struct Offer {
    /// Gives its length when it is sent.
    lengths: blocking::Receiver<u64>,
    /// Lets the reader go on once the command has read all of it.
    accepted: blocking::SyncSender<()>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// What is read is gone.
    Stream,
    File {
        start: u64,
    },
    Pipe,
    Socket,
}

impl Input {
    /// This process's standard input. Nothing is read yet.
    pub fn of_process() -> io::Result<Self> {
        // A duplicate shares its offset.
        Ok(Self::new(File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?)))
    }

    fn new(file: File) -> Self {
        Self { source: source_of(&file), file: Arc::new(file), read: 0, offer: None }
    }

    /// Whether what the command does not read can be left for others.
    pub fn can_be_left(&self) -> bool {
        self.source != Source::Stream
    }

    /// Starts reading, in pieces, on a thread of its own, because a read may last for ever. Unless the machine reports
    /// what the command reads, nothing is left for others.
    pub fn start(&mut self, reported: bool) -> mpsc::Receiver<Vec<u8>> {
        let (pieces, queue) = mpsc::channel(PIECES);
        if !reported {
            self.source = Source::Stream;
        }
        let (source, file) = (self.source, Arc::clone(&self.file));
        let (length, lengths) = blocking::sync_channel(1);
        let (accepted, acceptance) = blocking::sync_channel(1);
        if matches!(source, Source::Pipe | Source::Socket) {
            self.offer = Some(Offer { lengths, accepted });
        }
        let read = move || match source {
            Source::Stream => read_all(&file, &pieces),
            Source::File { start } => read_from(&file, start, &pieces),
            Source::Pipe | Source::Socket => offer_first(&file, source, &pieces, &length, &acceptance),
        };
        // Without the thread the queue is closed: the command reads nothing.
        let _ = std::thread::Builder::new().name("stdin".to_owned()).spawn(read);
        queue
    }

    /// The command has read so many bytes in all.
    pub fn was_read(&mut self, bytes: u64) {
        self.read = bytes;
        // Only what was sent can have been read, and its length was noted before.
        let Some((offer, length)) = self.offer.take().and_then(|offer| {
            let length = offer.lengths.try_recv().ok()?;
            Some((offer, length))
        }) else {
            return;
        };
        take(&self.file, bytes.min(length));
        if bytes >= length {
            // The reader waits for this, or has gone.
            let _ = offer.accepted.try_send(());
        }
    }

    /// Leaves standard input where the command stopped reading.
    pub fn leave(self) {
        if let Source::File { start } = self.source {
            // A file that cannot be positioned here could not be read from there either.
            let _ = (&*self.file).seek(SeekFrom::Start(start.saturating_add(self.read)));
        }
    }
}

fn source_of(mut file: &File) -> Source {
    let Ok(stat) = rustix::fs::fstat(file) else { return Source::Stream };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            file.stream_position().map_or(Source::Stream, |start| Source::File { start })
        }
        FileType::Fifo => Source::Pipe,
        FileType::Socket => Source::Socket,
        _ => Source::Stream,
    }
}

fn read_all(mut file: &File, pieces: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; INPUT_PIECE];
    while let Ok(length @ 1..) = file.read(&mut buffer) {
        if pieces.blocking_send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}

fn read_from(file: &File, start: u64, pieces: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; INPUT_PIECE];
    let mut offset = start;
    while let Ok(length @ 1..) = file.read_at(&mut buffer, offset) {
        offset += length as u64;
        if pieces.blocking_send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}

/// Sends the first piece without taking it, and reads on once the command has read it.
fn offer_first(
    file: &File,
    source: Source,
    pieces: &mpsc::Sender<Vec<u8>>,
    length: &blocking::SyncSender<u64>,
    acceptance: &blocking::Receiver<()>,
) {
    let first = match peek(file, source) {
        Ok(first) if first.is_empty() => return,
        Ok(first) => first,
        Err(_) => return read_all(file, pieces),
    };
    if length.send(first.len() as u64).is_ok()
        && pieces.blocking_send(first).is_ok()
        && acceptance.recv().is_ok()
    {
        read_all(file, pieces);
    }
}

/// Waits for input and returns the beginning of it, which stays where it is. Nothing at its end.
fn peek(file: &File, source: Source) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; PAGE];
    let length = if source == Source::Socket {
        rustix::net::recv(file, &mut buffer[..], RecvFlags::PEEK)?.0
    } else {
        let (read, write): (OwnedFd, OwnedFd) = pipe_with(PipeFlags::CLOEXEC)?;
        let length = tee(file, &write, PAGE, SpliceFlags::empty())?;
        File::from(read).read_exact(&mut buffer[..length])?;
        length
    };
    buffer.truncate(length);
    Ok(buffer)
}

/// Takes what was looked at. If another process has taken it, this does not wait for more.
fn take(mut file: &File, bytes: u64) {
    let mut left = usize::try_from(bytes).unwrap_or(PAGE).min(PAGE);
    let mut buffer = [0; PAGE];
    while left > 0 && is_ready(file) {
        match file.read(&mut buffer[..left]) {
            Ok(length @ 1..) => left -= length,
            _ => return,
        }
    }
}

fn is_ready(file: impl AsFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&now)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// What the file still has for others.
    fn rest(mut file: &File) -> String {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        file
    }

    fn pipe(text: &str) -> (File, File) {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut write = File::from(write);
        write.write_all(text.as_bytes()).unwrap();
        (File::from(read), write)
    }

    #[test]
    fn a_file_is_left_where_the_command_stopped() {
        let mut list = file("one\ntwo\nthree\n");
        list.seek(SeekFrom::Start(4)).unwrap();
        let mut input = Input::new(list.try_clone().unwrap());
        let mut pieces = input.start(true);
        assert_eq!(pieces.blocking_recv().unwrap(), b"two\nthree\n");
        assert_eq!(pieces.blocking_recv(), None);
        input.was_read(4);
        input.leave();
        assert_eq!(rest(&list), "three\n");
    }

    #[test]
    fn a_file_of_which_nothing_was_read_stays_as_it_was() {
        let list = file("one\ntwo\n");
        let mut input = Input::new(list.try_clone().unwrap());
        let mut pieces = input.start(true);
        assert!(pieces.blocking_recv().is_some());
        input.leave();
        assert_eq!(rest(&list), "one\ntwo\n");
    }

    #[test]
    fn of_a_pipe_only_what_the_command_read_is_taken() {
        for (read, left) in [(0, "one\ntwo\n"), (4, "two\n"), (8, "")] {
            let (ours, theirs) = pipe("one\ntwo\n");
            let mut input = Input::new(ours.try_clone().unwrap());
            let mut pieces = input.start(true);
            assert_eq!(pieces.blocking_recv().unwrap(), b"one\ntwo\n");
            drop(theirs);
            input.was_read(read);
            input.leave();
            // When all was read, the reader has gone on, to the end.
            if read == 8 {
                assert_eq!(pieces.blocking_recv(), None);
            }
            assert_eq!(rest(&ours), left, "{read}");
        }
    }

    #[test]
    fn a_command_that_reads_gets_all_of_a_pipe_or_socket() {
        let long = "x".repeat(10_000);
        let (ours, theirs) = pipe(&long);
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(long.as_bytes()).unwrap();
        drop((theirs, far));
        for source in [ours, File::from(OwnedFd::from(near))] {
            let mut input = Input::new(source);
            assert!(input.can_be_left());
            let mut pieces = input.start(true);
            let mut got = pieces.blocking_recv().unwrap();
            assert_eq!(got.len(), PAGE);
            input.was_read(PAGE as u64);
            while let Some(piece) = pieces.blocking_recv() {
                got.extend(piece);
            }
            assert_eq!(got, long.as_bytes());
        }
    }

    #[test]
    fn without_reports_all_is_taken_and_devices_cannot_be_left() {
        let list = file("one\n");
        let mut input = Input::new(list.try_clone().unwrap());
        let mut pieces = input.start(false);
        assert_eq!(pieces.blocking_recv().unwrap(), b"one\n");
        assert_eq!(pieces.blocking_recv(), None);
        input.leave();
        assert_eq!(rest(&list), "");
        assert!(!Input::new(File::open("/dev/null").unwrap()).can_be_left());
    }
}
