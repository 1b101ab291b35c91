//! Dropping capabilities.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities,
};

use crate::spec::FileCapabilities;

/// The capabilities over files.
const FILES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);
/// More than any kernel has.
const END: u32 = 64;

/// Drops every capability that is not kept, for this process and for every program it executes.
pub(crate) fn drop_all(kept: FileCapabilities) -> Result<(), Errno> {
    let kept = match kept {
        FileCapabilities::None => CapabilitySet::empty(),
        FileCapabilities::All => FILES,
    };
    for number in 0..END {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if !kept.contains(one) {
            match remove_capability_from_bounding_set(one) {
                Ok(()) => {}
                // The kernel has no more.
                Err(Errno::INVAL) => break,
                // Without CAP_SETPCAP there is nothing that could be gained.
                Err(Errno::PERM) => break,
                Err(error) => return Err(error),
            }
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
    for one in kept.iter() {
        configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}
