//! A BPF program that the kernel runs before each system call.

use std::os::fd::{FromRawFd, OwnedFd};

use libc::sock_filter;
use rustix::io::Errno;

use crate::kernel::process::check;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_ABOVE: u16 = 0x25;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;
const THIS_ARCHITECTURE: u32 = 0xc000_003e;

const ALLOW: u32 = 0x7fff_0000;
const FAIL: u32 = 0x0005_0000;
const NOTIFY: u32 = 0x7fc0_0000;

/// What happens to one system call. Arguments are compared in their low 32 bits: the kernel looks at no more of them.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// It fails.
    Fail(Errno),
    /// The holder of the filter's listener is asked.
    Notify,
    /// It fails if an argument has one of the bits.
    FailIfAnyBit { argument: u8, bits: u32, error: Errno },
    /// It fails if an argument has one of the values.
    FailIfOneOf { argument: u8, values: &'static [u32], error: Errno },
    /// It fails unless an argument has one of the values, or the value of one pair together with the value of a second
    /// argument.
    AllowOnly { argument: u8, values: &'static [u32], pairs: &'static [(u32, u8, u32)], error: Errno },
}

/// A program in the kernel's format. Calls without a rule are allowed.
#[derive(Debug)]
pub(crate) struct Filter {
    program: Vec<sock_filter>,
}

impl Filter {
    /// Calls of another architecture, and those with a number above `newest`, fail with ENOSYS.
    pub(super) fn new(newest: u32, rules: &[(libc::c_long, Rule)]) -> Self {
        let mut program = vec![
            statement(LOAD, OFFSET_ARCHITECTURE),
            jump(JUMP_IF_EQUAL, THIS_ARCHITECTURE, 1, 0),
            fail(Errno::NOSYS),
            statement(LOAD, OFFSET_NUMBER),
            jump(JUMP_IF_ABOVE, newest, 0, 1),
            fail(Errno::NOSYS),
        ];
        for (number, rule) in rules {
            let block = rule.block();
            // Blocks are shorter than 256 instructions, and numbers of system calls are small.
            let (number, length) =
                (u32::try_from(*number).unwrap_or(u32::MAX), u8::try_from(block.len()).unwrap_or(u8::MAX));
            program.push(jump(JUMP_IF_EQUAL, number, 0, length));
            program.extend(block);
        }
        program.push(statement(RETURN, ALLOW));
        Self { program }
    }

    /// Applies the filter to this process and all it starts, irrevocably. It must have no new privileges.
    pub fn apply(&self) -> Result<(), Errno> {
        self.install(0).map(drop)
    }

    /// Applies the filter, and returns the descriptor on which the kernel asks about calls with [`Rule::Notify`].
    pub fn apply_with_listener(&self) -> Result<OwnedFd, Errno> {
        let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let fd = match self.install(listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
            // Linux before 5.19.
            Err(Errno::INVAL) => self.install(listener)?,
            installed => installed?,
        };
        let fd = i32::try_from(fd).map_err(|_| Errno::BADF)?;
        // SAFETY: the kernel has just given this descriptor to us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn install(&self, flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
        const SET_MODE_FILTER: u32 = 1;
        let program = libc::sock_fprog {
            len: u16::try_from(self.program.len()).map_err(|_| Errno::INVAL)?,
            filter: self.program.as_ptr().cast_mut(),
        };
        // SAFETY: the kernel copies the program, which lives until the call returns.
        check(unsafe { libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program) })
    }
}

impl Rule {
    /// Instructions that end with a return. The number of the call has been compared.
    fn block(&self) -> Vec<sock_filter> {
        let allow = statement(RETURN, ALLOW);
        match self {
            Self::Fail(error) => vec![fail(*error)],
            Self::Notify => vec![statement(RETURN, NOTIFY)],
            Self::FailIfAnyBit { argument, bits, error } => {
                vec![load(*argument), jump(JUMP_IF_ANY_BIT, *bits, 0, 1), fail(*error), allow]
            }
            Self::FailIfOneOf { argument, values, error } => {
                let mut block = vec![load(*argument)];
                for value in *values {
                    block.extend([jump(JUMP_IF_EQUAL, *value, 0, 1), fail(*error)]);
                }
                block.push(allow);
                block
            }
            Self::AllowOnly { argument, values, pairs, error } => {
                let mut block = vec![load(*argument)];
                for value in *values {
                    block.extend([jump(JUMP_IF_EQUAL, *value, 0, 1), allow]);
                }
                for (first, second, value) in *pairs {
                    block.extend([
                        jump(JUMP_IF_EQUAL, *first, 0, 4),
                        load(*second),
                        jump(JUMP_IF_EQUAL, *value, 0, 1),
                        allow,
                        fail(*error),
                    ]);
                }
                block.push(fail(*error));
                block
            }
        }
    }
}

fn load(argument: u8) -> sock_filter {
    statement(LOAD, OFFSET_ARGUMENTS + 8 * u32::from(argument))
}

fn fail(error: Errno) -> sock_filter {
    statement(RETURN, FAIL | error.raw_os_error().cast_unsigned())
}

fn statement(code: u16, k: u32) -> sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Stands for a question to the holder of the listener.
    pub(in super::super) const ASKED: Errno = Errno::INPROGRESS;

    /// What a filter answers: `Ok` to allow.
    pub(in super::super) fn answer(
        filter: &Filter,
        architecture: u32,
        number: u32,
        arguments: [u64; 6],
    ) -> Result<(), Errno> {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(architecture.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let (mut at, mut register) = (0, 0u32);
        loop {
            let sock_filter { code, jt, jf, k } = filter.program[at];
            at += 1;
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            match code {
                LOAD => {
                    let from = k as usize;
                    register = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
                }
                JUMP_IF_EQUAL => at += skip(register == k),
                JUMP_IF_ABOVE => at += skip(register > k),
                JUMP_IF_ANY_BIT => at += skip(register & k != 0),
                RETURN if k == ALLOW => return Ok(()),
                RETURN if k == NOTIFY => return Err(ASKED),
                RETURN => return Err(Errno::from_raw_os_error((k & 0xffff).cast_signed())),
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    const HERE: u32 = THIS_ARCHITECTURE;

    #[test]
    fn each_rule_answers_for_its_own_call_only() {
        let rules = [
            (1, Rule::Fail(Errno::PERM)),
            (2, Rule::FailIfAnyBit { argument: 0, bits: 0b110, error: Errno::ACCESS }),
            (3, Rule::FailIfOneOf { argument: 1, values: &[7, 9], error: Errno::PERM }),
            (
                4,
                Rule::AllowOnly {
                    argument: 0,
                    values: &[1, 2],
                    pairs: &[(16, 2, 0)],
                    error: Errno::AFNOSUPPORT,
                },
            ),
        ];
        let filter = Filter::new(100, &rules);
        let ask =
            |number, first, second, third| answer(&filter, HERE, number, [first, second, third, 0, 0, 0]);
        assert_eq!(ask(0, 0, 0, 0), Ok(()));
        assert_eq!(ask(1, 0, 0, 0), Err(Errno::PERM));
        assert_eq!((ask(2, 1, 0, 0), ask(2, 4, 0, 0)), (Ok(()), Err(Errno::ACCESS)));
        assert_eq!((ask(3, 7, 8, 0), ask(3, 0, 9, 0)), (Ok(()), Err(Errno::PERM)));
        // The kernel ignores the high half.
        assert_eq!(ask(3, 0, (1 << 32) | 7, 0), Err(Errno::PERM));
        assert_eq!((ask(4, 2, 0, 0), ask(4, 3, 0, 0)), (Ok(()), Err(Errno::AFNOSUPPORT)));
        assert_eq!((ask(4, 16, 0, 0), ask(4, 16, 0, 1)), (Ok(()), Err(Errno::AFNOSUPPORT)));
        assert_eq!((ask(100, 0, 0, 0), ask(101, 0, 0, 0)), (Ok(()), Err(Errno::NOSYS)));
        assert_eq!(ask(0x4000_0000, 0, 0, 0), Err(Errno::NOSYS), "the x32 ABI");
        assert_eq!(answer(&filter, 0x4000_0003, 0, [0; 6]), Err(Errno::NOSYS), "the i386 ABI");
    }
}
