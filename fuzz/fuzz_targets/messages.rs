//! Every decoded message survives a round trip.

#![no_main]

use std::fmt::Debug;

use agentiso_proto::{Control, Request, Response, from_bytes, to_bytes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    macro_rules! check {
        ($($message:ty),*) => { $(
            if let Ok(message) = from_bytes::<$message>(bytes) {
                same(&message, to_bytes(&message).ok().and_then(|bytes| from_bytes(&bytes).ok()));
            }
        )* };
    }
    check!(Request, Response, Control);
});

fn same<T: Debug + PartialEq>(message: &T, again: Option<T>) {
    assert_eq!(Some(message), again.as_ref());
}
