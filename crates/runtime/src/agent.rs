//! The guest agent that was built into this program.

/// The agent: a static executable that is `/init` in every guest.
pub static AGENT: &[u8] = include_bytes!(env!("AGENTISO_GUEST_AGENT"));

#[cfg(test)]
mod tests {
    use super::AGENT;

    fn number(at: usize, bytes: usize) -> usize {
        AGENT[at..at + bytes].iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
    }

    #[test]
    fn the_agent_is_an_executable_that_needs_no_loader() {
        const PT_INTERP: usize = 3;
        assert_eq!(AGENT[..5], *b"\x7fELF\x02");
        let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
        assert!(count > 0 && (0..count).all(|entry| number(table + entry * size, 4) != PT_INTERP));
    }
}
