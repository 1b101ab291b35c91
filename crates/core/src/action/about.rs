//! What every action says about itself.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::subject::Subject;

/// Something that can be asked for.
pub trait Action: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// What comes of it.
    type Outcome: Outcome;

    /// What it says about itself.
    const ABOUT: About;

    /// Everything it refers to that may belong to somebody else.
    fn subjects(&self) -> Vec<Subject<'_>> {
        Vec::new()
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

/// Declares an action: its parameters, its outcome, and what it says about itself. Its subjects are the workspace
/// `workspace_id`, unless it says `no workspace`, and the parameters in brackets, each with the kind of
/// [`Subject`] that it refers to.
macro_rules! action {
    ($action:ident $([$($kind:ident($field:ident)),+])? -> $($rest:tt)*) => {
        action!(@ $action {
            fn subjects(&self) -> Vec<crate::action::Subject<'_>> {
                let subjects = std::iter::once(crate::action::Subject::Workspace(&self.workspace_id));
                $($(
                    let more = crate::action::subject::Reference::reference(&self.$field);
                    let subjects = subjects.chain(more.map(crate::action::Subject::$kind));
                )+)?
                subjects.collect()
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
