//! Indexes what is not indexed yet.

use std::collections::HashSet;

use agentiso_store::{Content, File, Node, Objects, Store, StoreError, TreeId, directory, read_content};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::VfsError;

/// Larger files are not indexed.
pub(super) const MAX_TEXT: usize = 4 << 20;
/// Files whose texts are in memory at a time, and their size.
const BATCH: usize = 256;
const BATCH_BYTES: u64 = 32 << 20;

/// A content as the index names it; nothing if it has no text.
pub(super) fn key(content: Content) -> Option<Vec<u8>> {
    let (tag, id) = match content {
        Content::Empty => return None,
        Content::Blob(id) => (1, id),
        Content::Chunked(id) => (2, id),
    };
    Some([&[tag], id.as_bytes().as_slice()].concat())
}

/// The text of a file; nothing if it is binary, too large or damaged.
pub(super) fn text_of(objects: &dyn Objects, file: &File) -> Result<Option<String>, VfsError> {
    if file.size > MAX_TEXT as u64 {
        return Ok(None);
    }
    let bytes = match read_content(objects, file.content, file.size, MAX_TEXT) {
        Ok(bytes) => bytes,
        Err(error) if error.is_damage() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(String::from_utf8(bytes).ok().filter(|text| !text.contains('\0')))
}

/// Makes sure that every file of a tree is indexed.
pub(super) fn fill(index: &Connection, store: &Store, tree: TreeId) -> Result<(), VfsError> {
    let (directories, files) = missing(index, store, tree)?;
    let mut batch = Vec::new();
    let mut bytes = 0;
    for (key, file) in files {
        bytes += file.size;
        batch.push((key, file));
        if batch.len() >= BATCH || bytes >= BATCH_BYTES {
            add(index, store, &batch)?;
            batch.clear();
            bytes = 0;
        }
    }
    add(index, store, &batch)?;
    // Last: a directory is remembered only when everything in it is indexed.
    let transaction = Transaction::new_unchecked(index, TransactionBehavior::Immediate)?;
    for tree in directories {
        let mut insert =
            transaction.prepare_cached("INSERT OR IGNORE INTO directories (tree) VALUES (?1)")?;
        insert.execute([tree.0.as_bytes()])?;
    }
    transaction.commit()?;
    Ok(())
}

type Missing = (Vec<TreeId>, Vec<(Vec<u8>, File)>);

/// Directories that are not remembered, and the contents in them that are not indexed.
fn missing(index: &Connection, store: &Store, tree: TreeId) -> Result<Missing, VfsError> {
    let (mut directories, mut files) = (Vec::new(), Vec::new());
    let (mut seen_trees, mut seen_contents) = (HashSet::new(), HashSet::new());
    let mut stack = vec![tree];
    while let Some(tree) = stack.pop() {
        if !seen_trees.insert(tree)
            || is_known(index, "SELECT 1 FROM directories WHERE tree = ?1", tree.0.as_bytes())?
        {
            continue;
        }
        directories.push(tree);
        for entry in directory(store, tree)?.entries {
            match entry.node {
                Node::Directory(tree) => stack.push(tree),
                Node::File(file) => {
                    if let Some(key) = key(file.content)
                        && seen_contents.insert(key.clone())
                        && !is_known(index, "SELECT 1 FROM texts WHERE content = ?1", &key)?
                    {
                        files.push((key, file));
                    }
                }
                Node::Symlink { .. } | Node::Fifo { .. } => {}
            }
        }
    }
    Ok((directories, files))
}

fn is_known(index: &Connection, sql: &str, key: &[u8]) -> Result<bool, VfsError> {
    Ok(index.prepare_cached(sql)?.query_row([key], |_| Ok(())).optional()?.is_some())
}

fn add(index: &Connection, store: &Store, batch: &[(Vec<u8>, File)]) -> Result<(), VfsError> {
    if batch.is_empty() {
        return Ok(());
    }
    // Files are read before the transaction, which other processes wait for.
    let mut texts = Vec::with_capacity(batch.len());
    for (key, file) in batch {
        texts.push((key, text_of(store, file)?));
    }
    let transaction = Transaction::new_unchecked(index, TransactionBehavior::Immediate)?;
    for (key, text) in texts {
        let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO texts (content) VALUES (?1)")?;
        // Another process may have been faster.
        if insert.execute([key])? == 0 {
            continue;
        }
        if let Some(text) = text {
            let id = transaction.last_insert_rowid();
            let mut insert = transaction.prepare_cached("INSERT INTO words (rowid, body) VALUES (?1, ?2)")?;
            insert.execute((id, text))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Removes what the store has no more; returns the number of texts.
pub(super) fn forget_collected(index: &Connection, store: &Store) -> Result<u64, VfsError> {
    let has = |id: &[u8]| -> Result<bool, StoreError> {
        let id: Result<[u8; 32], _> = id.try_into();
        id.map_or(Ok(false), |id| store.contains(&agentiso_store::ObjectId::from_bytes(id)))
    };
    let mut gone = Vec::new();
    let mut list = index.prepare("SELECT id, content FROM texts")?;
    let rows = list.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    for row in rows {
        let (id, key) = row?;
        if !has(key.get(1..).unwrap_or_default())? {
            gone.push(id);
        }
    }
    let mut trees = Vec::new();
    let mut list = index.prepare("SELECT tree FROM directories")?;
    for row in list.query_map([], |row| row.get::<_, Vec<u8>>(0))? {
        let tree = row?;
        if !has(&tree)? {
            trees.push(tree);
        }
    }
    let transaction = Transaction::new_unchecked(index, TransactionBehavior::Immediate)?;
    for id in &gone {
        transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([id])?;
        transaction.prepare_cached("DELETE FROM texts WHERE id = ?1")?.execute([id])?;
    }
    for tree in trees {
        transaction.prepare_cached("DELETE FROM directories WHERE tree = ?1")?.execute([tree])?;
    }
    transaction.commit()?;
    Ok(gone.len() as u64)
}
