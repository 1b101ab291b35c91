//! Sizes and bits of the format.

/// How many bits an offset within a cluster has.
pub const CLUSTER_BITS: u32 = 16;
/// Bytes of a cluster, the unit of allocation.
pub const CLUSTER: u64 = 1 << CLUSTER_BITS;
/// Entries of a second-level table, which fills a cluster.
pub const TABLE_ENTRIES: u64 = CLUSTER / 8;
/// Bytes of the disk one second-level table maps.
pub const TABLE_SPAN: u64 = TABLE_ENTRIES * CLUSTER;
/// In an entry of either table: where in the file the cluster is.
pub const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
/// In an entry of either table: the cluster has one user, so it may be written in place.
pub const COPIED: u64 = 1 << 63;
/// In an entry of a second-level table: compressed.
pub const COMPRESSED: u64 = 1 << 62;
/// In an entry of a second-level table: reads as zeros, whatever the offset.
pub const ZERO: u64 = 1;
