//! What every disk back end must do.

mod basics;
mod bytes;
mod collapsing;
mod histories;
mod lab;
mod scribe;

pub use histories::random_histories;
pub use lab::{Lab, conformance};
pub use scribe::{ImagoScribe, RawScribe, Scribe};
