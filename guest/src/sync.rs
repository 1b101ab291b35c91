//! Locks that outlive a panicking holder.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. What a panicking holder left behind is still consistent: no holder panics between related changes.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
