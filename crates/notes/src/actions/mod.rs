//! What can be done with notes: one file per action, each with its request, its result and a method of [`crate::View`].

mod batch_read;
mod delete;
mod front_matter;
mod graph;
mod history;
mod links;
mod list;
mod read;
mod relink;
mod relocate;
mod replace;
mod request;
mod search;
mod stats;
mod tags;
mod write;

pub use batch_read::{BatchEntry, BatchRead, BatchResult, NoteFailure};
pub use delete::{DeleteNote, Deleted};
pub use front_matter::{EditFrontMatter, FrontMatterAction, FrontMatterResult};
pub use graph::{Graph, GraphEdge, GraphNode, ReadGraph};
pub use history::{HistoryEntry, NoteHistory, ReadHistory, ReadVersion, UndoNote, Undone};
pub use links::{LinkInfo, NoteLinks, ReadLinks};
pub use list::{ListEntry, ListNotes, Listing};
pub use read::{Note, NoteFormat, ReadNote};
pub use relocate::{MoveNote, Moved, RewrittenNote};
pub use replace::{ReplaceText, Replaced};
pub use request::{Answer, Request};
pub use search::{SearchHow, SearchNotes, SearchResult, SearchResults};
pub use stats::{ReadStats, RecentFile, Stats, UnreadableNote};
pub use tags::{EditTags, TagCount, TagsAction, TagsResult};
pub use write::{WriteMode, WriteNote, Written};
