//! Resizes and signals that a running command has not been given yet, in their order among its input.

use std::collections::VecDeque;

use agentiso_proto::Control;

/// More are dropped.
const MAX_CONTROLS: usize = 64;

/// Controls, each with how many pieces of input came before it and still wait.
#[derive(Default)]
pub(crate) struct Controls(VecDeque<(usize, Control)>);

impl Controls {
    /// Takes in one that comes after so many pieces of input.
    pub(crate) fn push(&mut self, control: Control, pieces: usize) {
        if self.0.len() < MAX_CONTROLS {
            self.0.push_back((pieces, control));
        }
    }

    /// A piece of input was taken.
    pub(crate) fn input_taken(&mut self) {
        for (pieces, _) in &mut self.0 {
            *pieces = pieces.saturating_sub(1);
        }
    }

    /// Whether the next piece of input came after one of these.
    pub(crate) fn are_next(&self) -> bool {
        self.0.front().is_some_and(|(pieces, _)| *pieces == 0)
    }

    /// Gives out all of them: they do not wait for input that the command does not read.
    pub(crate) fn take(&mut self) -> Vec<Control> {
        self.0.drain(..).map(|(_, control)| control).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_comes_after_the_input_before_it_and_before_the_input_after_it() {
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
    fn there_is_an_end_to_what_is_kept() {
        let mut controls = Controls::default();
        for number in 0..1000 {
            controls.push(Control::Signal(number), 0);
        }
        assert_eq!(controls.take().len(), MAX_CONTROLS);
    }
}
