//! How a session starts. These two messages have a fixed layout for ever: they are what negotiates the rest.
//!
//! ```text
//! Hello    magic [16] | min u16 | max u16 | inherit u8 | 0 [11] | nonce [16]
//! Welcome  magic [16] | nonce [16] | version u16 | min u16 | max u16 | 0 [10]
//! ```

/// Length of a Hello.
pub const HELLO_LEN: usize = 48;
/// Length of a Welcome.
pub const WELCOME_LEN: usize = 48;
/// Oldest protocol version this code speaks.
pub const VERSION_MIN: u16 = 1;
/// Newest protocol version this code speaks.
pub const VERSION_MAX: u16 = 5;

/// Starts a Hello. Its first byte is no frame kind and does not recur in it.
pub(crate) const HELLO_MAGIC: [u8; 16] = *b"\xa7isoHELLO\r\n\x1a\x01\xf3\x9e\x42";
const WELCOME_MAGIC: [u8; 16] = *b"\xa8isoWELCO\r\n\x1a\x01\xc5\x3b\x71";

/// What becomes of the commands an earlier session left running, jobs included, and of its hold and freeze.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inherit {
    /// They go on; their output is discarded, but for that of jobs. A hold or a freeze ends.
    Keep,
    /// They end. So does a hold or a freeze.
    Kill,
    /// As [`Self::Keep`], but the machine was restored or forked meanwhile: a hold or a freeze lasts until the
    /// machine is woken or released.
    Held,
}

/// The host's first words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Hello {
    /// Oldest version the host speaks.
    pub min: u16,
    /// Newest version the host speaks.
    pub max: u16,
    /// What becomes of the earlier session's commands.
    pub inherit: Inherit,
    /// Random; the Welcome echoes it.
    pub nonce: [u8; 16],
}

impl Hello {
    /// A Hello that offers every version this code speaks.
    pub fn new(nonce: [u8; 16], inherit: Inherit) -> Self {
        Self { min: VERSION_MIN, max: VERSION_MAX, inherit, nonce }
    }

    /// The bytes to send.
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

    /// The guest's answer: the newest version both speak, or 0 if there is none.
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

/// The guest's answer to a Hello.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Welcome {
    /// The Hello's nonce.
    pub nonce: [u8; 16],
    /// The version of this session; 0 if the two sides have none in common.
    pub version: u16,
    /// Oldest version the guest speaks.
    pub min: u16,
    /// Newest version the guest speaks.
    pub max: u16,
}

impl Welcome {
    /// The bytes to send.
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

/// Finds the Welcome that answers one particular Hello, discarding whatever comes before it.
#[derive(Debug)]
pub struct WelcomeScanner {
    wanted: [u8; 32],
    held: Vec<u8>,
}

impl WelcomeScanner {
    /// Looks for the answer to the Hello with this nonce.
    pub fn new(nonce: [u8; 16]) -> Self {
        let mut wanted = [0; 32];
        wanted[..16].copy_from_slice(&WELCOME_MAGIC);
        wanted[16..].copy_from_slice(&nonce);
        Self { wanted, held: Vec::new() }
    }

    /// Takes bytes from the front of `input`; whatever follows the Welcome is left in it.
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
            // The last byte of a torn one may have come from the next.
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
