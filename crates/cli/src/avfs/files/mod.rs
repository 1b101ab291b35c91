//! Commands on the files of a vault.

mod annotations;
mod append;
mod cat;
mod cp;
mod find;
mod grep;
mod ls;
mod mkdir;
mod mv;
mod pwd;
mod rm;
mod search;
mod stat;
mod tag;
mod tree;
mod write;

pub use annotations::{Meta, MetaChanged, MetaImported, MetaShown, meta};
pub use append::{Append, append};
pub use cat::{Cat, Content, cat};
pub use cp::{Copied, Cp, cp};
pub use find::{Find, FoundFiles, find};
pub use grep::{Grep, Matches, grep};
pub use ls::{Listing, Ls, ls};
pub use mkdir::{Made, Mkdir, mkdir};
pub use mv::{Moved, Mv, mv};
pub use pwd::{Pwd, WorkingDirectory, pwd};
pub use rm::{RemovedPath, Rm, rm};
pub use search::{Hits, Search, search};
pub use stat::{Details, StatFlags, stat};
pub use tag::{AllTags, FileTags, Tag, TagChanged, TagRenamed, Untag, tag, untag};
pub use tree::{Node, Tree, tree};
pub use write::{Write, Written, write};
