//! Whether a change of rules lets a workspace reach more.

use agentiso_core::Egress;

use super::Policy;

/// Whether `new` may allow something that `old` does not. Entries are compared as they are written, so a change that
/// cannot be seen to be stricter counts as wider.
pub fn widens(old: &Policy, new: &Policy) -> bool {
    internet_widens(old, new) || neighbours_widen(old, new)
}

fn internet_widens(old: &Policy, new: &Policy) -> bool {
    if !new.allow_internet {
        return false;
    }
    let had_lists = old.allow_domains.is_some() || old.allow_cidrs.is_some();
    let has_lists = new.allow_domains.is_some() || new.allow_cidrs.is_some();
    !old.allow_internet
        || (had_lists && !has_lists)
        || (had_lists && adds(old.allow_domains.as_deref(), new.allow_domains.as_deref()))
        // A name can open another resolver, a range what is closed by default.
        || (!had_lists && has_names_that_may_open(new))
        || adds(old.allow_cidrs.as_deref(), new.allow_cidrs.as_deref())
        || adds(Some(&new.deny_domains), Some(&old.deny_domains))
        || adds(Some(&new.deny_cidrs), Some(&old.deny_cidrs))
        || (old.egress == Egress::Proxy && new.egress == Egress::Direct)
}

fn has_names_that_may_open(new: &Policy) -> bool {
    new.allow_domains.as_ref().is_some_and(|names| !names.is_empty())
}

fn neighbours_widen(old: &Policy, new: &Policy) -> bool {
    if !new.allow_inter_vm {
        return false;
    }
    let more_ports = match (&old.allowed_ports, &new.allowed_ports) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(old), Some(new)) => !new.is_subset(old),
    };
    !old.allow_inter_vm
        || !new.groups.is_subset(&old.groups)
        || more_ports
        || adds(Some(&new.deny_cidrs), Some(&old.deny_cidrs))
}

/// Whether a list has an entry that an older one has not.
fn adds<T: PartialEq>(old: Option<&[T]>, new: Option<&[T]>) -> bool {
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    new.iter().any(|entry| !old.contains(entry))
}
