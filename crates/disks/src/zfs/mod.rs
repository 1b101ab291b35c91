//! Volumes of a zpool.

mod backend;
mod base;
mod listing;
mod lock;
mod making;
mod name;
mod node;
mod setup;
mod ticket;
mod tool;
mod tree;

pub use backend::Zvols;
pub use setup::{NewZpool, PreparedZpool, prepare};
