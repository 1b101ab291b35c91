//! Who may talk to an agent over vsock.
//!
//! Any user of the host can connect to any guest's vsock port, so the host proves itself with a key, sent before its
//! Hello. The agent gets the key over a virtio serial port, whose other end only the machine's owner can open. A QEMU
//! gives its guest a new one when it starts: a guest that was restored or forked has a key of its own.

/// Length of the key.
pub const LINK_KEY_LEN: usize = 32;
/// The port the key comes over.
pub const LINK_KEY_PORT: &str = "agentiso.key";
/// Where the agent listens.
pub const VSOCK_PORT: u32 = 5000;

/// Goes before the key in the port, so that what an earlier QEMU left half said is not taken for a part of it.
const MARK: [u8; 16] = *b"\xa9isoKEY\r\n\x1a\x01\xd2\x64\x8f\x17\x00";

/// What is written to the port to give a guest its key.
pub fn give_link_key(key: &[u8; LINK_KEY_LEN]) -> Vec<u8> {
    [&MARK[..], key].concat()
}

/// The key a guest was given last, in what came over the port.
#[derive(Clone, Debug, Default)]
pub struct LinkKeys {
    unread: Vec<u8>,
    last: Option<[u8; LINK_KEY_LEN]>,
}

impl LinkKeys {
    /// Takes in what came.
    pub fn take_in(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while let Some(at) = self.unread.windows(MARK.len()).position(|window| window == MARK) {
            let key = at + MARK.len();
            let Some(given) = self.unread.get(key..key + LINK_KEY_LEN) else { break };
            // One that was cut short is followed by the next before its end.
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

    /// The last key.
    pub fn last(&self) -> Option<&[u8; LINK_KEY_LEN]> {
        self.last.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_key_given_is_the_one() {
        let mut keys = LinkKeys::default();
        assert_eq!(keys.last(), None);
        keys.take_in(&[give_link_key(&[1; 32]), give_link_key(&[2; 32])].concat());
        assert_eq!(keys.last(), Some(&[2; 32]));
        // Half of one, cut by a restore, and then the next.
        keys.take_in(&give_link_key(&[3; 32])[..20]);
        keys.take_in(&give_link_key(&[4; 32])[..30]);
        assert_eq!(keys.last(), Some(&[2; 32]));
        keys.take_in(&give_link_key(&[4; 32])[30..]);
        assert_eq!(keys.last(), Some(&[4; 32]));
    }

    proptest! {
        #[test]
        fn a_key_arrives_in_whatever_pieces(
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
