//! What is reported about enforcement, and what may be required.

use agentiso_core::{Code, Explain};
use agentiso_jail::{JailError, Measure, State};

use crate::place::{Place, launcher, sh, start};

const NAMESPACES: [Measure; 8] = [
    Measure::UserNamespace,
    Measure::Filesystem,
    Measure::PidNamespace,
    Measure::Proc,
    Measure::Network,
    Measure::IpcNamespace,
    Measure::UtsNamespace,
    Measure::CgroupNamespace,
];

as_everyone! {
    fn everything_that_this_kernel_has_is_in_force() {
        let place = Place::new();
        let enforcement = launcher().probe(&place.spec()).unwrap();
        let rest = [Measure::NoNewPrivileges, Measure::Capabilities, Measure::Seccomp, Measure::Landlock, Measure::TreeEnds, Measure::ProcessLimit];
        for measure in NAMESPACES.into_iter().chain(rest) {
            let one = enforcement.get(measure).unwrap();
            assert_eq!(one.state, State::Enforced, "{one:?}");
        }
        assert!(enforcement.is_complete());
        assert!(enforcement.get(Measure::MemoryLimit).is_none(), "it was not asked for");
    }
}

as_everyone! {
    fn what_is_required_and_cannot_be_enforced_is_an_error() {
        let place = Place::new();
        let mut spec = place.spec().require(Measure::Landlock).require(Measure::Filesystem);
        assert_eq!(start(&spec, &sh("true")).unwrap().finish().text(), "");
        // No host has a limit of processor time for groups of ordinary users in version 1, and no host more than 4 GHz of it.
        spec.limits.cpu_milli = Some(500);
        spec = spec.require(Measure::CpuLimit);
        let state = launcher().probe(&agentiso_jail::Spec { require: Vec::new(), ..spec.clone() }).unwrap();
        let state = state.get(Measure::CpuLimit).unwrap().state;
        match start(&spec, &sh("echo > ran")) {
            Ok(streams) => {
                assert_eq!(state, State::Enforced);
                streams.finish();
            }
            Err(error) => {
                assert_eq!(state, State::Unavailable);
                assert!(matches!(error, JailError::Unavailable(_)), "{error:?}");
                assert_eq!(error.code(), Code::IsolationUnavailable);
                assert!(error.remedy().is_some());
                assert!(!place.workspace().join("ran").exists());
            }
        }
    }
}
