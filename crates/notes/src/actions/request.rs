//! All actions as one type.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::*;
use crate::error::NotesError;
use crate::view::View;

/// Declares the actions: name, request, result and method.
macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $action:ident = $name:literal ($request:ty) -> $result:ty, $method:ident;)+) => {
        /// An action with its parameters; in JSON, the field `action` names it.
        #[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
        #[serde(tag = "action")]
        pub enum Request {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $action($request),)+
        }

        /// The result of an action.
        #[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
        #[serde(untagged)]
        pub enum Answer {
            $($(#[doc = $doc])+ $action($result),)+
        }

        impl Request {
            /// The names of all actions.
            pub const NAMES: &[&str] = &[$($name),+];

            /// The name of the action.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$action(_) => $name,)+
                }
            }
        }

        impl View {
            /// Carries an action out.
            pub fn act(&self, request: &Request) -> Result<Answer, NotesError> {
                match request {
                    $(Request::$action(request) => self.$method(request).map(Answer::$action),)+
                }
            }
        }
    };
}

actions! {
    /// Reads a note.
    Read = "read" (ReadNote) -> Note, read;
    /// Writes a note, or adds to it.
    Write = "write" (WriteNote) -> Written, write;
    /// Searches the notes.
    Search = "search" (SearchNotes) -> SearchResults, search;
    /// Lists a folder.
    List = "list" (ListNotes) -> Listing, list;
    /// Deletes a note.
    Delete = "delete" (DeleteNote) -> Deleted, delete;
    /// Reads or edits front matter.
    FrontMatter = "frontmatter" (EditFrontMatter) -> FrontMatterResult, front_matter;
    /// Reads or edits tags.
    Tags = "tags" (EditTags) -> TagsResult, tags;
    /// Replaces text.
    Replace = "replace" (ReplaceText) -> Replaced, replace;
    /// Moves a note.
    Move = "move" (MoveNote) -> Moved, relocate;
    /// Reads several notes.
    BatchRead = "batch_read" (BatchRead) -> BatchResult, batch_read;
    /// Counts the notes.
    Stats = "stats" (ReadStats) -> Stats, stats;
    /// Lists the versions of a note.
    History = "history" (ReadHistory) -> NoteHistory, history;
    /// Reads a version of a note.
    Version = "version" (ReadVersion) -> Note, version;
    /// Restores an earlier version of a note.
    Undo = "undo" (UndoNote) -> Undone, undo;
    /// Lists the links from and to a note.
    Links = "links" (ReadLinks) -> NoteLinks, links;
    /// Reads the link graph.
    Graph = "graph" (ReadGraph) -> Graph, graph;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_is_read_from_flat_json() {
        let json =
            r#"{"action": "write", "path": "a.md", "content": "x", "mode": "append", "if_match": "absent"}"#;
        let request: Request = serde_json::from_str(json).unwrap();
        assert_eq!(request.name(), "write");
        let Request::Write(write) = &request else { panic!("{request:?}") };
        assert_eq!((write.path.as_str(), write.mode), ("a.md", WriteMode::Append));
        // The content is not in what is logged.
        assert!(!serde_json::to_string(&request).unwrap().contains("\"x\""));
    }

    #[test]
    fn wrong_parameters_are_refused() {
        for json in [
            r#"{"action": "read", "path": "../a.md"}"#,
            r#"{"action": "read", "path": "a.md", "formt": "json"}"#,
            r#"{"action": "write", "path": "a.md", "content": "x", "if_match": "*"}"#,
            r#"{"action": "none"}"#,
            r#"{"action": "delete", "path": "a.md"}"#,
        ] {
            assert!(serde_json::from_str::<Request>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn null_is_a_value_of_front_matter() {
        let json = r#"{"action": "frontmatter", "path": "a.md", "frontmatter_action": "set", "key": "k", "value": null}"#;
        let Request::FrontMatter(edit) = serde_json::from_str(json).unwrap() else { panic!() };
        assert_eq!(edit.value, Some(serde_json::Value::Null));
    }

    #[test]
    fn the_eleven_actions_of_the_tool_come_first() {
        let eleven = [
            "read",
            "write",
            "search",
            "list",
            "delete",
            "frontmatter",
            "tags",
            "replace",
            "move",
            "batch_read",
            "stats",
        ];
        assert_eq!(Request::NAMES.get(..11), Some(&eleven[..]));
    }
}
