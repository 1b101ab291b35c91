//! Pending resizes and signals of a running command, in order relative to its input.

use std::collections::VecDeque;

use agentiso_proto::Control;

/// Further controls are dropped.
const MAX_CONTROLS: usize = 64;

/// Controls, each with the number of input chunks that must be consumed before it.
#[derive(Default)]
pub(crate) struct Controls(VecDeque<(usize, Control)>);

impl Controls {
    /// Queues a control behind `pieces` chunks of input.
    pub(crate) fn push(&mut self, control: Control, pieces: usize) {
        if self.0.len() < MAX_CONTROLS {
            self.0.push_back((pieces, control));
        }
    }

    /// Records that one chunk of input was consumed.
    pub(crate) fn input_taken(&mut self) {
        for (pieces, _) in &mut self.0 {
            *pieces = pieces.saturating_sub(1);
        }
    }

    /// Whether a control precedes the next chunk of input.
    pub(crate) fn are_next(&self) -> bool {
        self.0.front().is_some_and(|(pieces, _)| *pieces == 0)
    }

    /// Takes all controls, even those behind unread input: a command that does not read must still receive signals.
    pub(crate) fn take(&mut self) -> Vec<Control> {
        self.0.drain(..).map(|(_, control)| control).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_keep_their_position_relative_to_the_input() {
        let mut controls = Controls::default();
        assert!(!controls.are_next());
        controls.push(Control::Signal(1), 2);
        controls.push(Control::Signal(2), 3);
        assert!(!controls.are_next());
        controls.input_taken();
        assert!(!controls.are_next());
        controls.input_taken();
        assert!(controls.are_next());
        assert_eq!(controls.take(), [Control::Signal(1), Control::Signal(2)]);
        assert!(!controls.are_next());
    }

    #[test]
    fn the_number_of_pending_controls_is_limited() {
        let mut controls = Controls::default();
        for number in 0..1000 {
            controls.push(Control::Signal(number), 0);
        }
        assert_eq!(controls.take().len(), MAX_CONTROLS);
    }
}
