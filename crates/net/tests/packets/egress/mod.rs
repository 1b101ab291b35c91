//! The egress proxy, on real packets and against real servers.

mod names;
mod plain;
mod request_rules;
mod secrets;
mod setting;
mod transfers;
