//! What every action says about itself.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Something that can be asked for.
pub trait Action: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// What comes of it.
    type Outcome: Outcome;

    /// What it says about itself.
    const ABOUT: About;

    /// The workspace it is about, as its caller calls it.
    fn workspace(&self) -> Option<&str> {
        None
    }
}

/// What comes of an action.
pub trait Outcome: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// In words, for a reader.
    fn text(&self) -> String;
}

/// What an action says about itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct About {
    /// What it is called, by programs.
    pub name: &'static str,
    /// What it is called, by people.
    pub title: &'static str,
    /// What it does, its side effects, limits and defaults.
    pub description: &'static str,
    /// What it does to a workspace.
    pub effect: Effect,
    /// Whether doing it twice is like doing it once.
    pub idempotent: bool,
    /// Whether it may reach beyond the machine.
    pub open_world: bool,
    /// Which limit of calls per minute it counts against.
    pub rate: Rate,
}

/// What an action does to what is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It only looks.
    Reads,
    /// It adds or changes.
    Changes,
    /// It may take away what cannot be brought back.
    Destroys,
}

/// Which limit of calls per minute an action counts against.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rate {
    /// What starts machines.
    Create,
    /// What runs commands.
    Exec,
    /// Everything else.
    Default,
}

/// Declares an action: its parameters, what comes of it, and what it says about itself. One that is about no workspace,
/// or decides by itself whose it may be, says `no workspace`.
macro_rules! action {
    ($action:ident -> $($rest:tt)*) => {
        action!(@ $action {
            fn workspace(&self) -> Option<&str> {
                Some(&self.workspace_id)
            }
        } $($rest)*);
    };
    (no workspace: $action:ident -> $($rest:tt)*) => { action!(@ $action {} $($rest)*); };
    (@ $action:ident { $($workspace:item)? } $outcome:ident, $name:literal, $title:literal, $effect:ident, $rate:ident
        $(, idempotent: $idempotent:literal)? $(, open_world: $open:literal)? ; $description:expr) => {
        impl crate::action::Action for $action {
            type Outcome = $outcome;
            const ABOUT: crate::action::About = crate::action::About {
                name: $name,
                title: $title,
                description: $description,
                effect: crate::action::Effect::$effect,
                idempotent: false $(|| $idempotent)?,
                open_world: false $(|| $open)?,
                rate: crate::action::Rate::$rate,
            };

            $($workspace)?
        }
    };
}
pub(crate) use action;
