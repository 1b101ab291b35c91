//! The metadata of actions.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::subject::Subject;

/// An operation with typed parameters and a typed outcome.
pub trait Action: Listed + DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// The result of a successful call.
    type Outcome: Outcome;

    /// Its metadata.
    const ABOUT: About;

    /// Everything it refers to that may have another owner.
    fn subjects(&self) -> Vec<Subject<'_>>;
}

/// The result of an action.
pub trait Outcome: DeserializeOwned + Serialize + JsonSchema + Send + Sync + 'static {
    /// The result as text for people and models.
    fn text(&self) -> String;
}

/// An action that is in the list of all actions. Only that list implements it, so an action that is missing there does
/// not compile.
pub trait Listed {}

/// The metadata of an action: everything an interface needs besides its types.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct About {
    /// Its name, for programs.
    pub name: &'static str,
    /// Its title, for people.
    pub title: &'static str,
    /// What it does, its side effects, limits and defaults.
    pub description: &'static str,
    /// Its routes in the REST API.
    pub routes: &'static [Route],
    /// The tool sets that list a tool of the same name. If empty, only a bundle of several actions offers it.
    pub tools: &'static [ToolSet],
    /// Its effect on existing state.
    pub effect: Effect,
    /// The rate limit that it counts against.
    pub rate: Rate,
    /// The limit on the size of its request.
    pub body: Body,
    /// Whether repeating it has no further effect.
    pub idempotent: bool,
    /// Whether it may access the network beyond the workspace.
    pub open_world: bool,
    /// Whether it may take so long that clients should be offered it as a task.
    pub long_running: bool,
}

impl About {
    /// The defaults of a declaration.
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

/// A route of the REST API.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path. Names in braces are parameters of the action.
    pub path: &'static str,
}

impl Route {
    /// The names of the path parameters.
    pub fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
    }
}

/// An HTTP method.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Method {
    /// For actions that only read.
    Get,
    /// For everything that no other method fits.
    Post,
    /// For actions that replace a value.
    Put,
    /// For actions that change some values and keep the others.
    Patch,
    /// For actions that remove something.
    Delete,
}

impl Method {
    /// The method as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the other parameters are in the body; if not, they are in the query.
    pub const fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

/// A selection of MCP tools to list. Tools that are not listed can still be called.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ToolSet {
    /// Eight tools that cover the most common work, for small models.
    Core,
    /// The tools that agents need, with related actions bundled in one tool.
    #[default]
    Standard,
    /// All tools: the bundles, and one tool for every action.
    Full,
}

/// The limit on the size of a request.
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
    /// The limit in bytes of JSON.
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::Small => 1 << 20,
            Self::Command => 24 << 20,
            // A file of 16 MiB in base64, or as text with a normal share of escaped characters.
            Self::File => 48 << 20,
        }
    }
}

/// The effect of an action on existing state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It only reads.
    Reads,
    /// It adds or changes something.
    Changes,
    /// It may remove or overwrite something for good.
    Destroys,
}

/// A rate limit, in calls per minute and session.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Rate {
    /// Actions that start machines.
    Create,
    /// Actions that run commands.
    Exec,
    /// All other actions.
    Default,
}

/// Implements [`Action`] for a struct of parameters. `subjects` are the parameters that refer to something that may have
/// another owner, each with its kind of [`Subject`](super::Subject); the workspace that the action works on comes first.
/// `flags` are the fields of [`About`] that are true.
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
