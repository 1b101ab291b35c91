//! Authentication of the host over vsock.
//!
//! Any user of the host can connect to the vsock port of any guest, so the host sends a key before its Hello. The agent
//! receives the key over a virtio serial port whose other end only the machine's owner can open. Each QEMU gives its
//! guest a new key when it starts, so a restored or forked guest has a different key from its source.

/// Length of the key in bytes.
pub const LINK_KEY_LEN: usize = 32;
/// Name of the virtio serial port that carries the key.
pub const LINK_KEY_PORT: &str = "agentiso.key";
/// The vsock port on which the agent listens.
pub const VSOCK_PORT: u32 = 5000;

/// Precedes the key on the port, so that a partial key left by an earlier QEMU is not mixed with the next one.
const MARK: [u8; 16] = *b"\xa9isoKEY\r\n\x1a\x01\xd2\x64\x8f\x17\x00";

/// Encodes a key for the serial port.
pub fn give_link_key(key: &[u8; LINK_KEY_LEN]) -> Vec<u8> {
    [&MARK[..], key].concat()
}

/// Finds the newest key in the bytes received on the serial port.
#[derive(Clone, Debug, Default)]
pub struct LinkKeys {
    unread: Vec<u8>,
    last: Option<[u8; LINK_KEY_LEN]>,
}

impl LinkKeys {
    /// Adds received bytes.
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while let Some(at) = self.unread.windows(MARK.len()).position(|window| window == MARK) {
            let key = at + MARK.len();
            let Some(given) = self.unread.get(key..key + LINK_KEY_LEN) else { break };
            // A truncated key: the next mark begins before its end.
            if let Some(next) = given.windows(MARK.len()).position(|window| window == MARK) {
                self.unread.drain(..key + next);
                continue;
            }
            self.last = given.try_into().ok();
            self.unread.drain(..key + LINK_KEY_LEN);
        }
        let enough = MARK.len() + LINK_KEY_LEN;
        self.unread.drain(..self.unread.len().saturating_sub(enough));
    }

    /// The newest complete key.
    pub fn last(&self) -> Option<&[u8; LINK_KEY_LEN]> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_newest_key_counts() {
        let mut keys = LinkKeys::default();
        assert_eq!(keys.last(), None);
        keys.take_in(&[give_link_key(&[1; 32]), give_link_key(&[2; 32])].concat());
        assert_eq!(keys.last(), Some(&[2; 32]));
        // A partial key, cut by a restore, followed by the next one.
        keys.take_in(&give_link_key(&[3; 32])[..20]);
        keys.take_in(&give_link_key(&[4; 32])[..30]);
        assert_eq!(keys.last(), Some(&[2; 32]));
        keys.take_in(&give_link_key(&[4; 32])[30..]);
        assert_eq!(keys.last(), Some(&[4; 32]));
    }

    proptest! {
        #[test]
        fn a_key_may_arrive_in_chunks_of_any_size(
            before in prop::collection::vec(any::<u8>(), 0..100), key in any::<[u8; 32]>(), size in 1usize..60,
        ) {
            let mut keys = LinkKeys::default();
            for piece in [before, vec![0; 64], give_link_key(&key)].concat().chunks(size) {
                keys.take_in(piece);
            }
            prop_assert_eq!(keys.last(), Some(&key));
        }
    }
}
