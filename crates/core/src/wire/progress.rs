//! Progress of an action, while its client waits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::progress::Progress;

/// One progress message.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ProgressWord {
    /// A step began.
    Step {
        /// What it does.
        step: String,
        /// How much there is to do, if that is known.
        total: Option<u64>,
    },
    /// The step advanced.
    Advance {
        /// By this much.
        advance: u64,
    },
    /// The step ended.
    Done {
        /// A remark, or nothing.
        done: String,
    },
}

impl ProgressWord {
    /// Reports it to a receiver of progress.
    pub fn report(&self, progress: &dyn Progress) {
        match self {
            Self::Step { step, total } => progress.step(step, *total),
            Self::Advance { advance } => progress.advance(*advance),
            Self::Done { done } => progress.done(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_told_by_its_field() {
        for (word, text) in [
            (
                ProgressWord::Step { step: "copying".to_owned(), total: Some(7) },
                r#"{"step":"copying","total":7}"#,
            ),
            (
                ProgressWord::Step { step: "booting".to_owned(), total: None },
                r#"{"step":"booting","total":null}"#,
            ),
            (ProgressWord::Advance { advance: 3 }, r#"{"advance":3}"#),
            (ProgressWord::Done { done: String::new() }, r#"{"done":""}"#),
        ] {
            assert_eq!(serde_json::to_string(&word).unwrap(), text);
            assert_eq!(serde_json::from_str::<ProgressWord>(text).unwrap(), word);
        }
    }
}
