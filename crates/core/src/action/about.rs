//! What every action says about itself.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::subject::Subject;

/// Something that can be asked for.
pub trait Action: Listed + DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// What comes of it.
    type Outcome: Outcome;

    /// What it says about itself.
    const ABOUT: About;

    /// Everything it refers to that may belong to somebody else.
    fn subjects(&self) -> Vec<Subject<'_>>;
}

/// What comes of an action.
pub trait Outcome: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// In words, for a reader.
    fn text(&self) -> String;
}

/// An action that is in the list of all actions. Only that list implements it, so an action that is missing there does
/// not compile.
pub trait Listed {}

/// What an action says about itself: everything about it that an interface needs to know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct About {
    /// What it is called, by programs.
    pub name: &'static str,
    /// What it is called, by people.
    pub title: &'static str,
    /// What it does, its side effects, limits and defaults.
    pub description: &'static str,
    /// Where the REST interface has it.
    pub routes: &'static [Route],
    /// The tool sets that list a tool of its name. If there is none, only a tool of several actions offers it.
    pub tools: &'static [ToolSet],
    /// What it does to a workspace.
    pub effect: Effect,
    /// Which limit of calls per minute it counts against.
    pub rate: Rate,
    /// How large a request for it may be.
    pub body: Body,
    /// Whether doing it twice is like doing it once.
    pub idempotent: bool,
    /// Whether it may reach beyond the machine.
    pub open_world: bool,
    /// Whether it may take so long that a client should be able to ask for its result later.
    pub long_running: bool,
}

impl About {
    /// What holds unless a declaration says otherwise.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        title: "",
        description: "",
        routes: &[],
        tools: &[],
        effect: Effect::Reads,
        rate: Rate::Default,
        body: Body::Small,
        idempotent: false,
        open_world: false,
        long_running: false,
    };
}

/// Where the REST interface has an action.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path. Names in braces are parameters of the action.
    pub path: &'static str,
}

impl Route {
    /// The parameters of the action that are part of the path.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// Reads.
    Get,
    /// Does something.
    Post,
    /// Sets something.
    Put,
    /// Changes a part.
    Patch,
    /// Removes.
    Delete,
}

impl Method {
    /// As it is written in a request.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether parameters that are not in the path are in the body. Otherwise they are in the query.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// Which tools are listed. Every tool can be called, listed or not.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ToolSet {
    /// The eight that cover most of what there is to do, for small models.
    Core,
    /// What agents need, with what belongs together in one tool.
    #[default]
    Standard,
    /// Everything, and a tool for every action as well.
    Full,
}

/// How large the request for an action may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body {
    /// Parameters only.
    Small,
    /// A command with its input.
    Command,
    /// The content of a file.
    File,
}

impl Body {
    /// The most bytes of JSON.
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::Small => 1 << 20,
            Self::Command => 24 << 20,
            // A file of 16 MiB, in base64 or with a usual share of escaped characters.
            Self::File => 48 << 20,
        }
    }
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

/// Declares an action: its parameters, its outcome, and everything that an interface must know about it. `subjects` are
/// the parameters that refer to something that may belong to somebody else, each with its kind of
/// [`Subject`](super::Subject); a workspace that the action works on comes first. `flags` are fields of [`About`] that
/// are true.
macro_rules! action {
    ($action:ident -> $outcome:ident {
        name: $name:literal,
        title: $title:literal,
        subjects: [$($kind:ident($field:ident)),*],
        routes: [$($method:ident $path:literal),+ $(,)?],
        tools: [$($set:ident),*],
        effect: $effect:ident,
        $(rate: $rate:ident,)?
        $(body: $body:ident,)?
        $(flags: [$($flag:ident),+],)?
        description: $description:literal,
    }) => {
        impl crate::action::Action for $action {
            type Outcome = $outcome;
            const ABOUT: crate::action::About = crate::action::About {
                name: $name,
                title: $title,
                description: $description,
                routes: &[$(crate::action::Route { method: crate::action::Method::$method, path: $path }),+],
                tools: &[$(crate::action::ToolSet::$set),*],
                effect: crate::action::Effect::$effect,
                $(rate: crate::action::Rate::$rate,)?
                $(body: crate::action::Body::$body,)?
                $($($flag: true,)+)?
                ..crate::action::About::DEFAULT
            };

            fn subjects(&self) -> Vec<crate::action::Subject<'_>> {
                let subjects = std::iter::empty();
                $(
                    let more = crate::action::subject::Reference::reference(&self.$field);
                    let subjects = subjects.chain(more.map(crate::action::Subject::$kind));
                )*
                subjects.collect()
            }
        }
    };
}
pub(crate) use action;
