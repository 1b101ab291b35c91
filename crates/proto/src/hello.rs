//! The handshake that starts a session and negotiates the version. The layout of these two messages never changes.
//!
//! ```text
//! Hello    magic [16] | min u16 | max u16 | inherit u8 | 0 [11] | nonce [16]
//! Welcome  magic [16] | nonce [16] | version u16 | min u16 | max u16 | 0 [10]
//! ```

/// Encoded length of a [`Hello`].
pub const HELLO_LEN: usize = 48;
/// Encoded length of a [`Welcome`].
pub const WELCOME_LEN: usize = 48;
/// Oldest supported protocol version.
pub const VERSION_MIN: u16 = 1;
/// Newest supported protocol version.
pub const VERSION_MAX: u16 = 7;

/// The beginning of a Hello. Its first byte is not a frame kind and occurs only once in it.
pub(crate) const HELLO_MAGIC: [u8; 16] = *b"\xa7isoHELLO\r\n\x1a\x01\xf3\x9e\x42";
const WELCOME_MAGIC: [u8; 16] = *b"\xa8isoWELCO\r\n\x1a\x01\xc5\x3b\x71";

/// What happens to running commands and jobs of an earlier session, and to its hold or freeze.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inherit {
    /// Commands keep running, but their output is discarded, except that of jobs. A hold or freeze ends.
    Keep,
    /// Commands and jobs are killed. A hold or freeze ends.
    Kill,
    /// Like [`Self::Keep`], but the machine was restored or forked, so a hold or freeze lasts until the machine is
    /// woken or released.
    Held,
}

/// The host's first message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Oldest version that the host supports.
    pub min: u16,
    /// Newest version that the host supports.
    pub max: u16,
    /// What happens to the commands of an earlier session.
    pub inherit: Inherit,
    /// Random; echoed in the Welcome.
    pub nonce: [u8; 16],
}

impl Hello {
    /// Creates a Hello that offers every supported version.
    pub fn new(nonce: [u8; 16], inherit: Inherit) -> Self {
        Self { min: VERSION_MIN, max: VERSION_MAX, inherit, nonce }
    }

    /// Encodes the message.
    pub fn encode(&self) -> [u8; HELLO_LEN] {
        let mut out = [0; HELLO_LEN];
        out[..16].copy_from_slice(&HELLO_MAGIC);
        out[16..18].copy_from_slice(&self.min.to_le_bytes());
        out[18..20].copy_from_slice(&self.max.to_le_bytes());
        out[20] = match self.inherit {
            Inherit::Keep => 0,
            Inherit::Kill => 1,
            Inherit::Held => 2,
        };
        out[32..48].copy_from_slice(&self.nonce);
        out
    }

    pub(crate) fn parse(bytes: &[u8; HELLO_LEN]) -> Option<Self> {
        if bytes[..16] != HELLO_MAGIC {
            return None;
        }
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&bytes[32..48]);
        let inherit = match bytes[20] {
            0 => Inherit::Keep,
            1 => Inherit::Kill,
            2 => Inherit::Held,
            _ => return None,
        };
        Some(Self {
            min: u16::from_le_bytes([bytes[16], bytes[17]]),
            max: u16::from_le_bytes([bytes[18], bytes[19]]),
            inherit,
            nonce,
        })
    }

    /// Creates the guest's reply: the newest version that both sides support, or 0 if there is none.
    pub fn answer(&self) -> Welcome {
        let version = self.max.min(VERSION_MAX);
        let common = version >= self.min.max(VERSION_MIN);
        Welcome {
            nonce: self.nonce,
            version: if common { version } else { 0 },
            min: VERSION_MIN,
            max: VERSION_MAX,
        }
    }
}

/// The guest's reply to a Hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Welcome {
    /// Copied from the Hello.
    pub nonce: [u8; 16],
    /// The version of this session; 0 if the two sides have no common version.
    pub version: u16,
    /// Oldest version that the guest supports.
    pub min: u16,
    /// Newest version that the guest supports.
    pub max: u16,
}

impl Welcome {
    /// Encodes the message.
    pub fn encode(&self) -> [u8; WELCOME_LEN] {
        let mut out = [0; WELCOME_LEN];
        out[..16].copy_from_slice(&WELCOME_MAGIC);
        out[16..32].copy_from_slice(&self.nonce);
        out[32..34].copy_from_slice(&self.version.to_le_bytes());
        out[34..36].copy_from_slice(&self.min.to_le_bytes());
        out[36..38].copy_from_slice(&self.max.to_le_bytes());
        out
    }
}

/// Finds the Welcome that answers a particular Hello and discards everything before it.
#[derive(Debug)]
pub struct WelcomeScanner {
    wanted: [u8; 32],
    held: Vec<u8>,
}

impl WelcomeScanner {
    /// Creates a scanner for the reply to the Hello with this nonce.
    pub fn new(nonce: [u8; 16]) -> Self {
        let mut wanted = [0; 32];
        wanted[..16].copy_from_slice(&WELCOME_MAGIC);
        wanted[16..].copy_from_slice(&nonce);
        Self { wanted, held: Vec::new() }
    }

    /// Consumes bytes from the front of `input`. Leaves the bytes after the Welcome.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Welcome> {
        let before = self.held.len();
        self.held.extend_from_slice(input);
        let mut from = 0;
        let start = loop {
            let Some(found) = find(&self.held[from..], &self.wanted) else {
                let keep = (self.held.len() - from).min(self.wanted.len() - 1);
                self.held.drain(..self.held.len() - keep);
                *input = &[];
                return None;
            };
            let start = from + found;
            if self.held.len() < start + WELCOME_LEN {
                self.held.drain(..start);
                *input = &[];
                return None;
            }
            // The last byte of a truncated Welcome may belong to the next one.
            if self.held[start + 38..start + WELCOME_LEN].iter().all(|&byte| byte == 0) {
                break start;
            }
            from = start + 1;
        };
        let end = start + WELCOME_LEN;
        let word = |at: usize| u16::from_le_bytes([self.held[start + at], self.held[start + at + 1]]);
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&self.wanted[16..]);
        let welcome = Welcome { nonce, version: word(32), min: word(34), max: word(36) };
        *input = &input[end - before..];
        self.held.clear();
        Some(welcome)
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}
