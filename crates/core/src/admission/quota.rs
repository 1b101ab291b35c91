//! Whether there is quota left for what an action would create.

use std::ops::Add;

use crate::Resources;

/// Amounts of what quotas limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Amounts {
    /// Workspaces.
    pub workspaces: u64,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in GiB.
    pub disk_gb: u64,
    /// Snapshots.
    pub snapshots: u64,
}

impl Amounts {
    /// Every amount without a limit.
    pub const UNLIMITED: Self =
        Self { workspaces: u64::MAX, memory_mb: u64::MAX, disk_gb: u64::MAX, snapshots: u64::MAX };

    /// What a workspace of this size counts for.
    pub fn of(resources: &Resources) -> Self {
        let Resources { memory_mb, disk_gb, .. } = *resources;
        Self { workspaces: 1, memory_mb: memory_mb.into(), disk_gb: disk_gb.into(), snapshots: 0 }
    }

    /// Disk alone.
    pub fn disk(gb: u32) -> Self {
        Self { disk_gb: gb.into(), ..Self::default() }
    }

    /// Memory alone.
    pub fn memory(mb: u32) -> Self {
        Self { memory_mb: mb.into(), ..Self::default() }
    }

    /// One snapshot.
    pub fn snapshot() -> Self {
        Self { snapshots: 1, ..Self::default() }
    }

    /// The same amounts, several times.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        let count = u64::from(count);
        Self {
            workspaces: self.workspaces.saturating_mul(count),
            memory_mb: self.memory_mb.saturating_mul(count),
            disk_gb: self.disk_gb.saturating_mul(count),
            snapshots: self.snapshots.saturating_mul(count),
        }
    }

    fn of_kind(&self, kind: QuotaKind) -> u64 {
        match kind {
            QuotaKind::Workspaces => self.workspaces,
            QuotaKind::MemoryMb => self.memory_mb,
            QuotaKind::DiskGb => self.disk_gb,
            QuotaKind::Snapshots => self.snapshots,
        }
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            workspaces: self.workspaces.saturating_add(other.workspaces),
            memory_mb: self.memory_mb.saturating_add(other.memory_mb),
            disk_gb: self.disk_gb.saturating_add(other.disk_gb),
            snapshots: self.snapshots.saturating_add(other.snapshots),
        }
    }
}

/// What a quota limits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum QuotaKind {
    /// The number of workspaces.
    Workspaces,
    /// Memory in MiB.
    MemoryMb,
    /// Disk in GiB.
    DiskGb,
    /// The number of snapshots.
    Snapshots,
}

/// A quota that is too small for a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct QuotaExceeded {
    /// What there is too little of.
    pub kind: QuotaKind,
    /// How much is used.
    pub used: u64,
    /// How much more is requested.
    pub requested: u64,
    /// How much is allowed.
    pub limit: u64,
}

/// Checks that what is used and what is requested stay within the limits together. A limit that is exceeded already
/// refuses only requests for more of the same kind.
pub fn check_quota(used: Amounts, requested: Amounts, limits: Amounts) -> Result<(), QuotaExceeded> {
    let kinds = [QuotaKind::Workspaces, QuotaKind::MemoryMb, QuotaKind::DiskGb, QuotaKind::Snapshots];
    for kind in kinds {
        let (used, requested, limit) = (used.of_kind(kind), requested.of_kind(kind), limits.of_kind(kind));
        if requested > 0 && used.saturating_add(requested) > limit {
            return Err(QuotaExceeded { kind, used, requested, limit });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amounts() -> impl Strategy<Value = Amounts> {
        (0u64..5, 0u64..5, 0u64..5, 0u64..5).prop_map(|(workspaces, memory_mb, disk_gb, snapshots)| Amounts {
            workspaces,
            memory_mb,
            disk_gb,
            snapshots,
        })
    }

    proptest! {
        #[test]
        fn what_is_admitted_is_never_more_than_the_limit_of_what_was_requested(
            used in amounts(), requested in amounts(), limits in amounts()
        ) {
            let all = [QuotaKind::Workspaces, QuotaKind::MemoryMb, QuotaKind::DiskGb, QuotaKind::Snapshots];
            let too_much = all.into_iter().find(|kind| {
                let requested = requested.of_kind(*kind);
                requested > 0 && used.of_kind(*kind) + requested > limits.of_kind(*kind)
            });
            let refused = check_quota(used, requested, limits).err().map(|exceeded| exceeded.kind);
            prop_assert_eq!(refused, too_much);
        }

        #[test]
        fn a_request_for_nothing_is_always_admitted(used in amounts(), limits in amounts()) {
            prop_assert_eq!(check_quota(used, Amounts::default(), limits), Ok(()));
        }
    }

    #[test]
    fn amounts_that_cannot_be_counted_are_refused_and_do_not_wrap() {
        let limits = Amounts { disk_gb: u64::MAX - 1, ..Amounts::UNLIMITED };
        let requested = Amounts::disk(u32::MAX).times(u32::MAX);
        let used = Amounts { disk_gb: u64::MAX - 5, ..Amounts::default() };
        assert_eq!(check_quota(used, requested, limits).unwrap_err().kind, QuotaKind::DiskGb);
    }
}
