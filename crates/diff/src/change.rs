//! The result types of a comparison. They are part of the host port, which returns them.

pub use agentiso_core::ports::host::{
    Aspect, Change, ChangeKind, Changes, EntryInfo, EntryKind, Time, Totals,
};
