//! The little we need to know of ELF files: the PVH entry of a kernel, and what a module depends on.

/// `XEN_ELFNOTE_PHYS32_ENTRY`: where a hypervisor may enter the kernel directly.
const PVH_NOTE: u32 = 18;
const PT_NOTE: u32 = 4;

/// Why an ELF file could not be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// It is something else.
    #[error("it is not a 64-bit x86 ELF file")]
    NotElf,
    /// It ends before it should, or points outside itself.
    #[error("it is cut short or its tables are damaged")]
    Truncated,
}

/// The PVH entry point of a kernel; `None` if it has none.
pub fn pvh_entry(elf: &[u8]) -> Result<Option<u64>, ElfError> {
    check(elf)?;
    let table = Table { at: u64_at(elf, 32)?, entry: u16_at(elf, 54)?, count: u16_at(elf, 56)? };
    for header in table.entries(elf) {
        let header = header?;
        if u32_at(header, 0)? == PT_NOTE {
            let notes = section(elf, u64_at(header, 8)?, u64_at(header, 32)?)?;
            if let Some(entry) = pvh_note(notes)? {
                return Ok(Some(entry));
            }
        }
    }
    Ok(None)
}

/// Cuts off what only debuggers read: symbols, and the table of sections. What is loaded and entered stays.
pub fn strip(mut elf: Vec<u8>) -> Result<Vec<u8>, ElfError> {
    check(&elf)?;
    let table = Table { at: u64_at(&elf, 32)?, entry: u16_at(&elf, 54)?, count: u16_at(&elf, 56)? };
    let mut end = table.at.checked_add(u64::from(table.entry) * u64::from(table.count));
    for header in table.entries(&elf) {
        let header = header?;
        let last = u64_at(header, 8)?.checked_add(u64_at(header, 32)?);
        end = end.zip(last).map(|(end, last)| end.max(last));
    }
    let end = end.and_then(|end| usize::try_from(end).ok()).filter(|end| (64..=elf.len()).contains(end));
    elf.truncate(end.ok_or(ElfError::Truncated)?);
    // Where the sections are, how many, and which one has their names.
    elf[40..48].fill(0);
    elf[60..64].fill(0);
    Ok(elf)
}

/// The names of the modules a module depends on, as its `.modinfo` has them.
pub fn modinfo_depends(elf: &[u8]) -> Result<Vec<String>, ElfError> {
    check(elf)?;
    let table = Table { at: u64_at(elf, 40)?, entry: u16_at(elf, 58)?, count: u16_at(elf, 60)? };
    let names_header = table.entries(elf).nth(usize::from(u16_at(elf, 62)?)).ok_or(ElfError::Truncated)??;
    let names = section(elf, u64_at(names_header, 24)?, u64_at(names_header, 32)?)?;
    for header in table.entries(elf) {
        let header = header?;
        let name =
            usize::try_from(u32_at(header, 0)?).ok().and_then(|at| names.get(at..)).unwrap_or_default();
        if !name.starts_with(b".modinfo\0") {
            continue;
        }
        let info = section(elf, u64_at(header, 24)?, u64_at(header, 32)?)?;
        let depends = info.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(b"depends="));
        let depends = String::from_utf8_lossy(depends.unwrap_or_default()).into_owned();
        return Ok(depends.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect());
    }
    Ok(Vec::new())
}

fn pvh_note(mut notes: &[u8]) -> Result<Option<u64>, ElfError> {
    while notes.len() >= 12 {
        let name_size = usize::try_from(u32_at(notes, 0)?).map_err(|_| ElfError::Truncated)?;
        let value_size = usize::try_from(u32_at(notes, 4)?).map_err(|_| ElfError::Truncated)?;
        let kind = u32_at(notes, 8)?;
        let name_end = 12usize.checked_add(name_size).ok_or(ElfError::Truncated)?;
        let value_at = name_end.checked_next_multiple_of(4).ok_or(ElfError::Truncated)?;
        let value_end = value_at.checked_add(value_size).ok_or(ElfError::Truncated)?;
        let name = notes.get(12..name_end).ok_or(ElfError::Truncated)?;
        let value = notes.get(value_at..value_end).ok_or(ElfError::Truncated)?;
        if kind == PVH_NOTE && name == b"Xen\0" {
            return match value.len() {
                4 => u32_at(value, 0).map(u64::from).map(Some),
                8 => u64_at(value, 0).map(Some),
                _ => Err(ElfError::Truncated),
            };
        }
        let next = value_end.checked_next_multiple_of(4).ok_or(ElfError::Truncated)?;
        notes = notes.get(next..).unwrap_or_default();
    }
    Ok(None)
}

struct Table {
    at: u64,
    entry: u16,
    count: u16,
}

impl Table {
    fn entries<'a>(&self, elf: &'a [u8]) -> impl Iterator<Item = Result<&'a [u8], ElfError>> + use<'a> {
        let (at, entry) = (self.at, u64::from(self.entry));
        (0..u64::from(self.count)).map(move |index| {
            let offset = at.checked_add(index * entry).ok_or(ElfError::Truncated)?;
            section(elf, offset, entry)
        })
    }
}

fn check(elf: &[u8]) -> Result<(), ElfError> {
    // 64 bits, little endian, x86-64.
    let is_ours = elf.starts_with(b"\x7fELF\x02\x01") && elf.get(18..20) == Some(&[62, 0]);
    if is_ours { Ok(()) } else { Err(ElfError::NotElf) }
}

fn section(elf: &[u8], offset: u64, size: u64) -> Result<&[u8], ElfError> {
    let start = usize::try_from(offset).map_err(|_| ElfError::Truncated)?;
    let size = usize::try_from(size).map_err(|_| ElfError::Truncated)?;
    let end = start.checked_add(size).ok_or(ElfError::Truncated)?;
    elf.get(start..end).ok_or(ElfError::Truncated)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, ElfError> {
    let field = bytes.get(at..at + 2).and_then(|field| field.try_into().ok());
    field.map(u16::from_le_bytes).ok_or(ElfError::Truncated)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, ElfError> {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    field.map(u32::from_le_bytes).ok_or(ElfError::Truncated)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, ElfError> {
    let field = bytes.get(at..at + 8).and_then(|field| field.try_into().ok());
    field.map(u64::from_le_bytes).ok_or(ElfError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kernel_with(notes: &[u8]) -> Vec<u8> {
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18] = 62;
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64..68].copy_from_slice(&PT_NOTE.to_le_bytes());
        elf[72..80].copy_from_slice(&120u64.to_le_bytes());
        elf[96..104].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        elf.extend_from_slice(notes);
        elf
    }

    fn note(name: &[u8], kind: u32, value: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        note.extend_from_slice(&u32::try_from(name.len()).unwrap().to_le_bytes());
        note.extend_from_slice(&u32::try_from(value.len()).unwrap().to_le_bytes());
        note.extend_from_slice(&kind.to_le_bytes());
        for part in [name, value] {
            note.extend_from_slice(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_entry_is_found_among_other_notes() {
        let notes =
            [note(b"GNU\0", PVH_NOTE, b"abcd"), note(b"Xen\0", 3, b"abc"), note(b"Xen\0", 18, &[0, 0, 0, 1])];
        assert_eq!(pvh_entry(&kernel_with(&notes.concat())), Ok(Some(0x0100_0000)));
        assert_eq!(pvh_entry(&kernel_with(&notes[..2].concat())), Ok(None));
    }

    #[test]
    fn a_stripped_kernel_is_entered_where_it_was() {
        let whole = kernel_with(&note(b"Xen\0", 18, &[0, 0, 0, 1]));
        let mut with_symbols = whole.clone();
        with_symbols[40..48].copy_from_slice(&(whole.len() as u64 + 5).to_le_bytes());
        with_symbols[60..64].copy_from_slice(&[3, 0, 2, 0]);
        with_symbols.extend_from_slice(b"symbols and sections");
        assert_eq!(strip(with_symbols), Ok(whole.clone()));
        assert_eq!(strip(whole[..whole.len() - 1].to_vec()), Err(ElfError::Truncated));
        assert_eq!(strip(b"#!/bin/sh".to_vec()), Err(ElfError::NotElf));
    }

    #[test]
    fn damaged_files_are_refused() {
        assert_eq!(pvh_entry(b"\x7fELF"), Err(ElfError::NotElf));
        let mut long_name = note(b"Xen\0", 18, &[1, 0, 0, 0]);
        long_name[0..4].fill(0xff);
        assert_eq!(pvh_entry(&kernel_with(&long_name)), Err(ElfError::Truncated));
        let whole = kernel_with(&note(b"Xen\0", 18, &[1, 0, 0, 0]));
        assert_eq!(pvh_entry(&whole[..whole.len() - 1]), Err(ElfError::Truncated));
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(junk in proptest::collection::vec(any::<u8>(), 0..64), at in 16usize..180) {
            let mut elf = kernel_with(&note(b"Xen\0", 18, &[1, 0, 0, 0]));
            elf.resize(200, 0);
            let end = (at + junk.len()).min(elf.len());
            elf[at..end].copy_from_slice(&junk[..end - at]);
            let _ = pvh_entry(&elf);
            let _ = modinfo_depends(&elf);
            let _ = strip(elf);
        }
    }
}
