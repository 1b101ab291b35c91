//! The protocol between the host and the guest agent.
//!
//! One byte stream in each direction (virtio-serial or vsock) carries a *session*. The host opens it:
//!
//! ```text
//! host  ── Hello (48 bytes: magic, versions, nonce) ──────────────►  guest
//! host  ◄─ Welcome (48 bytes: magic, nonce echoed, version) ──────   guest
//! host  ◄══ frames, many streams interleaved ═════════════════════►  guest
//! ```
//!
//! Over vsock the host sends a key first (see [`LINK_KEY_LEN`]).
//!
//! Guests are paused and restored with bytes in flight, so both sides must be able to resynchronise:
//!
//! * The guest accepts a Hello at any frame boundary; it ends the old session and starts a new one.
//! * A host that does not know the guest's state sends [`RESYNC_PADDING`] zero bytes first. Zeros are padding between
//!   frames, and a truncated frame that is completed with zeros fails its trailer check. So the guest is at a frame
//!   boundary, or searching for a Hello, when the Hello arrives.
//! * The host discards everything until it sees the Welcome with its own random nonce, so it never takes stale output
//!   of an earlier session for a response.
//!
//! Everything here is pure: bytes in, values out.

mod frame;
mod hello;
mod job;
mod link_key;
mod message;
mod search;
mod tree;
mod variables;
mod wake;

pub use frame::{
    Channel, DATA_PAYLOAD, Decoder, Event, Frame, FrameError, HEADER_LEN, Kind, MAX_PAYLOAD, MAX_STREAMS,
    MAX_STREAMS_1, OVERHEAD, RESYNC_PADDING, TRAILER, WINDOW, encode, encode_header,
};
pub use hello::{HELLO_LEN, Hello, Inherit, VERSION_MAX, VERSION_MIN, WELCOME_LEN, Welcome, WelcomeScanner};
pub use job::{JOB_INPUT, JOB_OUTPUT, JobInfo, JobRead, JobStream, JobWait};
pub use link_key::{LINK_KEY_LEN, LINK_KEY_PORT, LinkKeys, VSOCK_PORT, give_link_key};
pub use message::{
    Card, Configure, Control, DirEntry, ErrorKind, Exec, Exit, ExitStatus, FileKind, GuestError, Metadata,
    RawPath, Request, Response, RootDisk, Status, TreeOptions, Usage, User, from_bytes, to_bytes,
};
pub use search::{
    Find, FoundEntry, Grep, GrepMatch, GrepSummary, MAX_CONTEXT, MAX_FOUND, MAX_LINE, MAX_PATTERN,
};
pub use tree::{MAX_ENTRY, TreeDecoder, TreeEntry, TreeError, TreeItem, TreeKind, encode_entry};
pub use variables::{MAX_VARIABLES, MAX_VARIABLES_BYTES, NameError, Secret, check_name};
pub use wake::{HookOutcome, HookReport, Wake, WakeEvent};
