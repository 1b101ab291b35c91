//! The guest agent that was built into this program.

/// The agent: a static executable that is `/init` in every guest.
pub static AGENT: &[u8] = include_bytes!(env!("AGENTISO_GUEST_AGENT"));

#[cfg(test)]
mod tests {
    #[test]
    fn the_agent_is_a_static_x86_64_executable() {
        assert_eq!(super::AGENT[..5], *b"\x7fELF\x02");
        let interpreter = b"ld-linux";
        assert!(!super::AGENT.windows(interpreter.len()).any(|window| window == interpreter));
    }
}
