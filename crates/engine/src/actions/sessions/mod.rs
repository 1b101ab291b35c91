//! Sessions and the ownership of workspaces.

mod adopt;
mod grant;
