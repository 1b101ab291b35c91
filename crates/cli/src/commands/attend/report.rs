//! What `--json` prints about a command.

use agentiso_core::Capture;
use agentiso_core::wire::ExecExit;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::exit_code;

/// How a command ended and what it printed.
#[derive(Serialize)]
pub struct CommandReport {
    exit_code: u8,
    signal: Option<i32>,
    timed_out: bool,
    stdout: String,
    stdout_encoding: &'static str,
    stderr: String,
    stderr_encoding: &'static str,
    stdout_bytes: u64,
    stderr_bytes: u64,
    truncated: bool,
    wall_ms: f64,
    user_ms: f64,
    system_ms: f64,
    max_rss_kib: u64,
}

impl CommandReport {
    /// The report of a command that ended.
    pub fn new(exit: &ExecExit, captured: &[Capture; 2]) -> Self {
        let [stdout, stderr] = captured;
        let (stdout_text, stdout_encoding) = encoded(stdout);
        let (stderr_text, stderr_encoding) = encoded(stderr);
        let ms = |us: u64| us as f64 / 1e3;
        Self {
            exit_code: exit_code(exit),
            signal: exit.signal,
            timed_out: exit.timed_out,
            stdout: stdout_text,
            stdout_encoding,
            stderr: stderr_text,
            stderr_encoding,
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            truncated: stdout.omitted() + stderr.omitted() > 0,
            wall_ms: ms(exit.usage.wall_us),
            user_ms: ms(exit.usage.user_us),
            system_ms: ms(exit.usage.system_us),
            max_rss_kib: exit.usage.max_rss_kib,
        }
    }
}

/// What was printed as JSON can carry it, and how it is encoded: `text`, or `base64` for bytes that are not UTF-8.
/// Of output that was too long, the bytes are the beginning and, right behind it, the end.
fn encoded(captured: &Capture) -> (String, &'static str) {
    match captured.is_text() {
        true => (captured.text(), "text"),
        false => (STANDARD.encode(captured.bytes()), "base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_come_as_base64_and_say_so() {
        let captured = |bytes: &[u8]| {
            let mut capture = Capture::new(64);
            capture.push(bytes);
            encoded(&capture)
        };
        assert_eq!(captured("grün\n".as_bytes()), ("grün\n".to_owned(), "text"));
        assert_eq!(captured(b"\xff\x00\x01"), ("/wAB".to_owned(), "base64"));
        assert_eq!(captured(b""), (String::new(), "text"));
    }
}
