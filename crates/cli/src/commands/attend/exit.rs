//! Exit codes, as shells count them.

use agentiso_runtime::guest::{Exit, ExitStatus};

/// Exit code when agentiso itself failed.
pub const FAILED: u8 = 125;
/// Exit code for a command that cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit code for a command that is not there.
pub const NOT_FOUND: u8 = 127;
const TIMED_OUT: u8 = 124;
const SIGNALLED: u8 = 128;

/// The exit code of a command, as shells count it.
pub fn exit_code(exit: &Exit) -> u8 {
    match exit.status {
        _ if exit.timed_out => TIMED_OUT,
        ExitStatus::Code(code) => u8::try_from(code & 0xff).unwrap_or(FAILED),
        ExitStatus::Signal(number) => signal_code(number),
    }
}

/// The exit code of what a signal ended.
pub fn signal_code(number: i32) -> u8 {
    SIGNALLED.saturating_add(u8::try_from(number).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(status: ExitStatus, timed_out: bool) -> Exit {
        Exit { status, timed_out, cancelled: false, usage: Default::default() }
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!(exit_code(&exit(ExitStatus::Code(0), false)), 0);
        assert_eq!(exit_code(&exit(ExitStatus::Code(42), false)), 42);
        assert_eq!(exit_code(&exit(ExitStatus::Signal(9), false)), 137);
        assert_eq!(exit_code(&exit(ExitStatus::Signal(9), true)), 124);
    }
}
