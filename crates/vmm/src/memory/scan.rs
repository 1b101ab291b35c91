//! Finding the private pages of a mapping with `PAGEMAP_SCAN` or `/proc/PID/pagemap`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::PAGE;

const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::Ioctl = 0xc060_6610;
/// Write-protects the found pages again, and fails if writes are not tracked.
const PROTECT: u64 = 1 | 2;
/// Regions per call.
const REGIONS: usize = 4096;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Calls `found` with the address ranges of private pages, in order.
pub(super) fn own_pages(
    pagemap: &File,
    range: Range<u64>,
    mut found: impl FnMut(u64, u64),
) -> io::Result<()> {
    let own = Question { flags: 0, mask: 0, answer: 0 };
    match scan(pagemap, range.clone(), own, |from, to, _| found(from, to)) {
        // Kernels before 6.7 do not support the request; reading page by page gives the same result, but slower.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
            read_pagemap(pagemap, range, found)
        }
        other => other,
    }
}

/// The same for private pages that were written since the last call.
pub(super) fn changed_pages(
    pagemap: &File,
    range: Range<u64>,
    mut found: impl FnMut(u64, u64),
) -> io::Result<()> {
    let changed = Question { flags: PROTECT, mask: PAGE_IS_WRITTEN, answer: 0 };
    scan(pagemap, range, changed, |from, to, _| found(from, to))
}

/// The same for all private pages, each range with whether it was written since the last [`changed_pages`].
pub(super) fn own_and_changed(
    pagemap: &File,
    range: Range<u64>,
    mut found: impl FnMut(u64, u64, bool),
) -> io::Result<()> {
    let both = Question { flags: 0, mask: 0, answer: PAGE_IS_WRITTEN };
    scan(pagemap, range, both, |from, to, categories| found(from, to, categories & PAGE_IS_WRITTEN != 0))
}

/// What to query.
#[derive(Clone, Copy)]
struct Question {
    flags: u64,
    /// Further conditions on the pages.
    mask: u64,
    /// The properties to report.
    answer: u64,
}

fn scan(
    pagemap: &File,
    range: Range<u64>,
    question: Question,
    mut found: impl FnMut(u64, u64, u64),
) -> io::Result<()> {
    let mut regions = vec![Region::default(); REGIONS];
    let Range { start: mut at, end } = range;
    while at < end {
        let mut argument = ScanArg {
            size: size_of::<ScanArg>() as u64,
            flags: question.flags,
            start: at,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_inverted: PAGE_IS_FILE | PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_FILE | PAGE_IS_PFNZERO | question.mask,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT | question.answer,
            ..ScanArg::default()
        };
        // SAFETY: the argument has the layout and size the request expects, and `vec` points to `vec_len` regions
        // that live until the call returns.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let regions = &regions[..count];
        for region in regions {
            found(region.start, region.end, region.categories);
        }
        // With more than 512 regions the kernel reports the position of its last full batch of 512 as the end of the
        // walk. Continue after the last reported region instead.
        let next = regions.last().map_or(0, |last| last.end).max(argument.walk_end);
        if next <= at {
            return Err(io::Error::other("the kernel's scan of the guest's memory made no progress"));
        }
        at = next;
    }
    Ok(())
}

fn read_pagemap(pagemap: &File, range: Range<u64>, mut found: impl FnMut(u64, u64)) -> io::Result<()> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE: u64 = 1 << 61;
    let page = PAGE as u64;
    let mut buffer = vec![0; 64 * 1024];
    let mut open: Option<u64> = None;
    let Range { start: mut at, end } = range;
    while at < end {
        let want = usize::try_from((end - at) / page * 8).unwrap_or(usize::MAX).min(buffer.len());
        pagemap.read_exact_at(&mut buffer[..want], at / page * 8)?;
        for word in buffer[..want].chunks_exact(8) {
            let word = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            let own = word & (PRESENT | SWAPPED) != 0 && word & FILE == 0;
            match (own, open) {
                (true, None) => open = Some(at),
                (false, Some(from)) => {
                    found(from, at);
                    open = None;
                }
                _ => {}
            }
            at += page;
        }
    }
    if let Some(from) = open {
        found(from, end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps a file of `pages` pages privately and returns its address.
    fn private_mapping(file: &File, pages: usize) -> *mut u8 {
        let (null, protection) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let address =
            unsafe { libc::mmap(null, pages * PAGE, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        assert_ne!(address, libc::MAP_FAILED);
        address.cast()
    }

    type Scanner = fn(&File, u64, u64, &mut dyn FnMut(u64, u64)) -> io::Result<()>;

    #[test]
    fn written_pages_are_found_and_read_ones_are_not() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 * PAGE as u64).unwrap();
        file.write_all_at(&[1; 64 * PAGE], 0).unwrap();
        let address = private_mapping(&file, 64);
        for page in [3usize, 4, 5, 40] {
            // SAFETY: within the mapping made above.
            unsafe { address.add(page * PAGE + 17).write_volatile(9) };
        }
        for page in [6usize, 41, 63] {
            // SAFETY: within the mapping made above.
            unsafe { address.add(page * PAGE).read_volatile() };
        }
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let start = address as u64;
        let scanners: [Scanner; 2] = [
            |file, start, end, found| own_pages(file, start..end, found),
            |file, start, end, found| read_pagemap(file, start..end, found),
        ];
        for scanner in scanners {
            let mut pages = Vec::new();
            scanner(&pagemap, start, start + 64 * PAGE as u64, &mut |from, to| {
                pages.extend((from..to).step_by(PAGE).map(|at| (at - start) / PAGE as u64));
            })
            .unwrap();
            assert_eq!(pages, [3, 4, 5, 40]);
        }
    }

    #[test]
    fn every_page_of_a_scattered_memory_is_told_once() {
        // The kernel collects 512 regions at a time, and a call returns at most `REGIONS`.
        for regions in [511, 512, 513, 600, 1100, REGIONS - 1, REGIONS, REGIONS + 1, REGIONS + 700] {
            let file = tempfile::tempfile().unwrap();
            let pages = 2 * regions;
            file.set_len((pages * PAGE) as u64).unwrap();
            let address = private_mapping(&file, pages);
            for page in (0..pages).step_by(2) {
                // SAFETY: within the mapping made above.
                unsafe { address.add(page * PAGE).write_volatile(9) };
            }
            let pagemap = File::open("/proc/self/pagemap").unwrap();
            let start = address as u64;
            let mut told = Vec::new();
            let found = |from, to| told.push(((from - start) / PAGE as u64, (to - from) / PAGE as u64));
            own_pages(&pagemap, start..start + (pages * PAGE) as u64, found).unwrap();
            let expected: Vec<(u64, u64)> = (0..pages as u64).step_by(2).map(|page| (page, 1)).collect();
            assert!(told == expected, "{regions} regions: {} were told", told.len());
        }
    }
}
