//! Comparisons of real file systems, made with e2fsprogs and never mounted.

mod aspects;
mod files;
mod hostile;
mod image;
mod journal;
mod renames;
mod scale;
mod trees;
