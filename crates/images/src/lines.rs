//! Reading a program's output line by line, with cancellation.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How many of the last lines are kept.
pub(crate) const KEPT_LINES: usize = 24;
const LOOK_FOR_CANCEL: Duration = Duration::from_millis(100);
/// The longest line; the rest of it is dropped.
const LONGEST: usize = 16 << 10;

/// Passes every line to `each` until the output ends, and returns the last lines. `None` if `cancel` was set; the caller
/// then has to end the program.
pub(crate) fn follow(
    output: impl Read + Send + 'static,
    cancel: &AtomicBool,
    mut each: impl FnMut(&str),
) -> Option<VecDeque<String>> {
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || split(output, |line| sender.send(line).is_ok()));
    let mut last = VecDeque::new();
    loop {
        match lines.recv_timeout(LOOK_FOR_CANCEL) {
            Ok(line) => {
                each(&line);
                last.push_back(line.trim_start().to_owned());
                if last.len() > KEPT_LINES {
                    last.pop_front();
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if cancel.load(Ordering::Relaxed) {
            return None;
        }
    }
    let _ = reader.join();
    Some(last)
}

/// Splits at line feeds and at the carriage returns of progress displays. Empty lines are left out.
fn split(mut output: impl Read, mut each: impl FnMut(String) -> bool) {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(got @ 1..) = output.read(&mut buffer) {
        for byte in &buffer[..got] {
            if !matches!(byte, b'\n' | b'\r') {
                line.push(*byte);
            } else if !hand_over(&mut line, &mut each) {
                return;
            }
        }
        line.truncate(LONGEST);
    }
    hand_over(&mut line, &mut each);
}

fn hand_over(line: &mut Vec<u8>, each: &mut impl FnMut(String) -> bool) -> bool {
    let text = String::from_utf8_lossy(line).trim_end().to_owned();
    line.clear();
    text.is_empty() || each(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_cut_and_the_next_is_whole() {
        let mut text = vec![b'x'; 1 << 20];
        text.extend(b"\n  next\n\n");
        let mut lines = Vec::new();
        let last =
            follow(std::io::Cursor::new(text), &AtomicBool::new(false), |line| lines.push(line.to_owned()));
        assert!(lines[0].len() <= LONGEST + 4096, "{}", lines[0].len());
        assert_eq!(&lines[1..], ["  next"]);
        assert_eq!(last.unwrap().back().unwrap(), "next");
    }
}
