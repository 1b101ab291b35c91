//! The mounts of this process's namespace, and processes by number and start time.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::MountError;

/// The type of what is mounted at a path, the uppermost one; nothing if nothing is.
pub(super) fn mounted_type(point: &Path) -> Result<Option<String>, MountError> {
    let path = Path::new("/proc/self/mountinfo");
    let text = fs::read(path).map_err(MountError::io("read", path))?;
    Ok(find(&text, point.as_os_str().as_bytes()))
}

fn find(table: &[u8], point: &[u8]) -> Option<String> {
    let mut found = None;
    for line in table.split(|byte| *byte == b'\n') {
        let mut words = line.split(|byte| *byte == b' ');
        if words.nth(4).is_some_and(|word| unescape(word) == point) {
            // Optional fields end with a dash.
            let kind = words.skip_while(|word| *word != b"-").nth(1);
            found = kind.map(|kind| String::from_utf8_lossy(kind).into_owned());
        }
    }
    found
}

/// The kernel writes space, tab, newline and backslash as octal numbers.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.first_chunk::<3>().filter(|_| *first == b'\\');
        let value = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                result.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                result.push(*first);
                rest = tail;
            }
        }
    }
    result
}

/// When a process was started, in ticks since the host was; nothing if it has ended.
pub(super) fn start_time(pid: u32) -> Result<Option<u64>, MountError> {
    let path = format!("/proc/{pid}/stat");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => return Ok(None),
        // It ended while it was read.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(None),
        Err(error) => return Err(MountError::io("read", &path)(error)),
    };
    // The name in parentheses may contain anything.
    let mut fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let state = fields.next();
    if matches!(state, Some("Z" | "X")) {
        return Ok(None);
    }
    match fields.nth(18).map(str::parse) {
        Some(Ok(ticks)) => Ok(Some(ticks)),
        _ => Err(MountError::damaged(&path, "it has no start time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uppermost_mount_of_a_point_with_spaces_is_found() {
        let table = b"1 2 0:1 / /a rw - ext4 /dev/x rw\n\
            3 1 0:2 / /a\\040b\\134 rw shared:1 master:2 - fuse.avfs avfs rw\n\
            4 1 0:3 / /a rw,nosuid - overlay overlay rw\n";
        assert_eq!(find(table, b"/a"), Some("overlay".to_owned()));
        assert_eq!(find(table, b"/a b\\"), Some("fuse.avfs".to_owned()));
        assert_eq!(find(table, b"/a b"), None);
    }

    #[test]
    fn a_process_that_ended_has_no_start_time() {
        assert!(start_time(std::process::id()).unwrap().is_some());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(start_time(child.id()).unwrap(), None);
    }
}
