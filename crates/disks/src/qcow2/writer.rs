//! Writing a qcow2 file sequentially.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::header::{Backing, Header, Refcounts};
use super::layout::{CLUSTER, COPIED, TABLE_ENTRIES, TABLE_SPAN, ZERO};
use crate::sparse;

/// Clusters per block of reference counts, which have 16 bits each.
const COUNTS_PER_BLOCK: u64 = CLUSTER / 2;

/// A file in progress, written in ascending order of the disk's clusters.
///
/// The header is written last: until then the file is not a valid disk.
pub struct Writer<'a> {
    file: &'a File,
    header: Header,
    top: Vec<u64>,
    table: Option<(u64, Vec<u64>)>,
    end: u64,
}

impl<'a> Writer<'a> {
    /// Starts a disk of `size` bytes in an empty file.
    pub fn new(file: &'a File, size: u64, backing: Option<Backing>) -> Self {
        let entries = Header::top_entries(size);
        let header = Header { size, top_offset: CLUSTER, backing };
        let end = CLUSTER + (entries * 8).next_multiple_of(CLUSTER);
        Self { file, header, top: vec![0; entries as usize], table: None, end }
    }

    /// Copies data from another file. `offset` is the offset on the disk, a multiple of the cluster size; the rest of the
    /// last cluster reads as zeros.
    pub fn copy(&mut self, offset: u64, from: &File, at: u64, length: u64) -> io::Result<()> {
        let mut done = 0;
        while done < length {
            // L2 tables lie between the data, so one copy must not exceed the range of a table.
            let count = (length - done).min(TABLE_SPAN - (offset + done) % TABLE_SPAN);
            self.turn_to(offset + done)?;
            let target = self.end;
            sparse::copy(from, at + done, self.file, target, count)?;
            self.end += count.next_multiple_of(CLUSTER);
            for cluster in 0..count.div_ceil(CLUSTER) {
                self.enter(offset + done + cluster * CLUSTER, (target + cluster * CLUSTER) | COPIED);
            }
            done += count;
        }
        Ok(())
    }

    /// Makes clusters read as zeros, whatever the backing file contains.
    pub fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        for cluster in 0..length.div_ceil(CLUSTER) {
            self.turn_to(offset + cluster * CLUSTER)?;
            self.enter(offset + cluster * CLUSTER, ZERO);
        }
        Ok(())
    }

    /// Writes the tables, the reference counts and, last, the header.
    pub fn finish(mut self) -> io::Result<()> {
        self.put_table()?;
        sparse::write_sparse(self.file, self.header.top_offset, &big_endian(&self.top))?;
        let refcounts = self.put_refcounts()?;
        self.file.set_len(self.end)?;
        self.file.write_all_at(&self.header.encode(refcounts)?, 0)
    }

    /// Switches to the L2 table for this offset.
    fn turn_to(&mut self, offset: u64) -> io::Result<()> {
        let index = offset / TABLE_SPAN;
        if self.table.as_ref().is_none_or(|(current, _)| *current != index) {
            self.put_table()?;
            self.table = Some((index, vec![0; TABLE_ENTRIES as usize]));
        }
        Ok(())
    }

    fn enter(&mut self, offset: u64, entry: u64) {
        if let Some((_, table)) = &mut self.table {
            table[(offset % TABLE_SPAN / CLUSTER) as usize] = entry;
        }
    }

    fn put_table(&mut self) -> io::Result<()> {
        if let Some((index, table)) = self.table.take() {
            sparse::write_sparse(self.file, self.end, &big_endian(&table))?;
            self.top[index as usize] = self.end | COPIED;
            self.end += CLUSTER;
        }
        Ok(())
    }

    /// Writes reference counts of one for every cluster of the file, including those of the counts themselves.
    fn put_refcounts(&mut self) -> io::Result<Refcounts> {
        let used = self.end / CLUSTER;
        let (mut blocks, mut table_clusters) = (0, 0);
        loop {
            let total: u64 = used + blocks + table_clusters;
            let needed = total.div_ceil(COUNTS_PER_BLOCK);
            let needed_table = needed.div_ceil(TABLE_ENTRIES);
            if (needed, needed_table) == (blocks, table_clusters) {
                break;
            }
            (blocks, table_clusters) = (needed, needed_table);
        }
        let total = used + blocks + table_clusters;
        let mut table = Vec::new();
        for block in 0..blocks {
            let counts = (total - block * COUNTS_PER_BLOCK).min(COUNTS_PER_BLOCK);
            self.file.write_all_at(&[0, 1].repeat(counts as usize), self.end)?;
            table.push(self.end);
            self.end += CLUSTER;
        }
        let table_offset = self.end;
        self.file.write_all_at(&big_endian(&table), table_offset)?;
        self.end += table_clusters * CLUSTER;
        Ok(Refcounts { table_offset, table_clusters: table_clusters as u32 })
    }
}

fn big_endian(entries: &[u64]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads every reference count the file's header leads to.
    fn counts(file: &File) -> Vec<u16> {
        let number = |offset: u64| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, offset).unwrap();
            u64::from_be_bytes(bytes)
        };
        let (table, clusters) = (number(48), number(56) >> 32);
        let blocks = (0..clusters * TABLE_ENTRIES).map(|index| number(table + index * 8));
        let mut counts = Vec::new();
        for block in blocks.take_while(|&block| block != 0) {
            let mut bytes = vec![0; CLUSTER as usize];
            file.read_exact_at(&mut bytes, block).unwrap();
            counts.extend(bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])));
        }
        counts
    }

    #[test]
    fn every_cluster_of_the_file_is_counted_once_and_none_beyond() {
        let hole = tempfile::tempfile().unwrap();
        // Nothing, little, exactly as much as fits one block of counts with what else is there, and one more.
        for clusters in [0, 1, 32760, 32761, 32762, 32763, 32764, 70000] {
            let file = tempfile::tempfile().unwrap();
            hole.set_len(clusters * CLUSTER).unwrap();
            let mut writer = Writer::new(&file, 10 << 30, None);
            writer.copy(0, &hole, 0, clusters * CLUSTER).unwrap();
            writer.finish().unwrap();
            let total = (file.metadata().unwrap().len() / CLUSTER) as usize;
            let counts = counts(&file);
            assert!(total > clusters as usize && counts.len() >= total, "{clusters}");
            assert!(counts[..total].iter().all(|&count| count == 1), "{clusters}");
            assert!(counts[total..].iter().all(|&count| count == 0), "{clusters}");
        }
    }
}
