//! Constants of the qcow2 format.

/// The number of bits of an offset within a cluster.
pub const CLUSTER_BITS: u32 = 16;
/// Bytes of a cluster, the unit of allocation.
pub const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// Entries of an L2 table, which fills a cluster.
pub const TABLE_ENTRIES: u64 = CLUSTER / 8;
/// Bytes of the disk that one L2 table maps.
pub const TABLE_SPAN: u64 = TABLE_ENTRIES * CLUSTER;
/// L1 and L2 entries: the offset of the cluster.
pub const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// L1 and L2 entries: the cluster has one reference, so it may be written in place.
pub const COPIED: u64 = 1 << 63;
/// L2 entries: compressed.
pub const COMPRESSED: u64 = 1 << 62;
/// L2 entries: reads as zeros, whatever the offset.
pub const ZERO: u64 = 1;
