//! What a workspace may reach: the policy, how it is checked, and the verdict on one flow or name.
//!
//! Everything here is pure. A verdict always names the rule that decided, so that the log and a refused user can see
//! which setting to change.

mod cidr;
mod domain;
mod error;
mod model;
pub mod packet;
mod ranges;
mod resolvers;
mod verdict;
mod widening;

#[cfg(test)]
mod properties;

pub use cidr::Cidr;
pub use domain::{DomainPattern, normalise};
pub use error::{PolicyError, Reason};
pub use model::Policy;
pub use ranges::ClosedRange;
pub use verdict::{Destination, Flow, Protocol, Rule, Verdict};
pub use widening::widens;
