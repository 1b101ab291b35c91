//! Cgroups: limits of all processes of a sandbox together.
//!
//! The caller makes a group beside its own, the helper joins it before it makes the init, and the caller removes it when the
//! sandbox has ended. A caller that is killed leaves an empty group behind, which the next caller removes.

mod find;
mod group;

pub(crate) use group::Group;
