//! Files that QEMU shows to its guest through the device its firmware is configured by.
//!
//! They are read byte by byte through two ports. They belong to the QEMU process, so that a guest that was restored
//! finds those of its new one.

use std::{arch::asm, io, sync::Mutex};

use crate::sync::locked;

const SELECTOR: u16 = 0x510;
const DATA: u16 = 0x511;
/// What the directory of files is selected by.
const DIRECTORY: u16 = 0x19;
const MOST_FILES: u32 = 1024;
const LONGEST_FILE: u32 = 4096;

/// The selection and the place in what is selected are the device's, not the reader's.
static DEVICE: Mutex<()> = Mutex::new(());

/// Reads a file; `None` if there is none of that name.
pub(crate) fn file(name: &str) -> io::Result<Option<Vec<u8>>> {
    let _device = locked(&DEVICE);
    // SAFETY: the call only takes numbers.
    let allowed = unsafe { libc::syscall(libc::SYS_ioperm, libc::c_ulong::from(SELECTOR), 2, 1) };
    if allowed < 0 {
        return Err(io::Error::last_os_error());
    }
    select(DIRECTORY);
    let Some((selector, length)) = find(name, read) else { return Ok(None) };
    let mut bytes = vec![0; length as usize];
    select(selector);
    read(&mut bytes);
    Ok(Some(bytes))
}

/// Looks a file up in the directory; returns what it is selected by and its length.
fn find(name: &str, mut read: impl FnMut(&mut [u8])) -> Option<(u16, u32)> {
    let mut count = [0; 4];
    read(&mut count);
    for _ in 0..u32::from_be_bytes(count).min(MOST_FILES) {
        let mut entry = [0; 64];
        read(&mut entry);
        let (length, selector) = ([entry[0], entry[1], entry[2], entry[3]], [entry[4], entry[5]]);
        let called = entry[8..].split(|&byte| byte == 0).next().unwrap_or_default();
        let length = u32::from_be_bytes(length);
        if called == name.as_bytes() && length <= LONGEST_FILE {
            return Some((u16::from_be_bytes(selector), length));
        }
    }
    None
}

fn select(what: u16) {
    // SAFETY: the port is QEMU's and was allowed to this thread; writing to it touches no memory.
    unsafe { asm!("out dx, ax", in("dx") SELECTOR, in("ax") what, options(nomem, nostack, preserves_flags)) };
}

fn read(into: &mut [u8]) {
    // SAFETY: the port was allowed to this thread, and exactly the bytes of the slice are written.
    unsafe {
        asm!(
            "rep insb",
            inout("rcx") into.len() => _,
            inout("rdi") into.as_mut_ptr() => _,
            in("dx") DATA,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, u16, u32)]) -> Vec<u8> {
        let mut bytes = (files.len() as u32).to_be_bytes().to_vec();
        for (name, selector, length) in files {
            bytes.extend(length.to_be_bytes());
            bytes.extend(selector.to_be_bytes());
            bytes.extend([0; 2]);
            let mut field = [0; 56];
            field[..name.len()].copy_from_slice(name.as_bytes());
            bytes.extend(field);
        }
        bytes
    }

    fn look(name: &str, bytes: &[u8]) -> Option<(u16, u32)> {
        let mut rest = bytes;
        find(name, |into| {
            // Behind its end the device reads as zeros.
            let count = into.len().min(rest.len());
            into.fill(0);
            into[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
        })
    }

    #[test]
    fn a_file_is_found_by_its_whole_name() {
        let bytes = directory(&[("opt/a", 0x20, 5), ("opt/ab", 0x21, 32)]);
        assert_eq!(look("opt/ab", &bytes), Some((0x21, 32)));
        assert_eq!(look("opt/a", &bytes), Some((0x20, 5)));
        assert_eq!(look("opt", &bytes), None);
    }

    #[test]
    fn a_directory_that_makes_no_sense_holds_nothing() {
        assert_eq!(look("opt/a", &[0xff; 4]), None);
        assert_eq!(look("opt/a", &directory(&[("opt/a", 0x20, u32::MAX)])), None);
    }
}
