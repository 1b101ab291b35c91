//! Exit codes, as shells have them.

use agentiso_core::wire::ExecExit;

/// Exit code when agentiso itself failed.
pub const FAILED: u8 = 125;
/// Exit code for a command that cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code for a command that was not found.
pub const NOT_FOUND: u8 = 127;
const TIMED_OUT: u8 = 124;
const SIGNALLED: u8 = 128;

/// The exit code of a command, as a shell has it.
pub fn exit_code(exit: &ExecExit) -> u8 {
    match (exit.code, exit.signal) {
        _ if exit.timed_out => TIMED_OUT,
        (_, Some(number)) => signal_code(number),
        (code, None) => u8::try_from(code.unwrap_or_default() & 0xff).unwrap_or(FAILED),
    }
}

/// The exit code of a command that a signal ended.
pub fn signal_code(number: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        let exit =
            |code, signal, timed_out| exit_code(&ExecExit { code, signal, timed_out, ..Default::default() });
        assert_eq!(exit(Some(0), None, false), 0);
        assert_eq!(exit(Some(42), None, false), 42);
        assert_eq!(exit(Some(256 + 7), None, false), 7);
        assert_eq!(exit(None, Some(9), false), 137);
        assert_eq!(exit(None, Some(9), true), 124);
    }
}
