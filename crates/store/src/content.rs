//! The bytes of files: one blob if small, chunks and holes if large.
//!
//! The content of a file depends on its bytes alone. A chunk of zeros is a hole, whether the file system stored it or not.

use std::io::{self, Read};

use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};
use crate::limits::CHUNK;
use crate::node::Content;
use crate::object::{Recipe, Segment};
use crate::session::Session;
use crate::store::Objects;

/// Stores the bytes of a file.
pub fn store_bytes(session: &Session, bytes: &[u8]) -> Result<Content, StoreError> {
    if bytes.is_empty() {
        return Ok(Content::Empty);
    }
    if bytes.len() <= CHUNK {
        return session.put(ObjectKind::Blob, bytes).map(Content::Blob);
    }
    let mut recipe = Recipe::default();
    for chunk in bytes.chunks(CHUNK) {
        push_chunk(session, &mut recipe, chunk)?;
    }
    put_recipe(session, recipe, bytes.len() as u64)
}

/// Stores the bytes of a stream to its end; returns their number, too.
pub fn store_stream(session: &Session, mut stream: impl Read) -> Result<(u64, Content), StoreError> {
    let mut buffer = Vec::with_capacity(CHUNK);
    let mut recipe = Recipe::default();
    let mut size = 0;
    loop {
        buffer.clear();
        let read = stream.by_ref().take(CHUNK as u64).read_to_end(&mut buffer);
        read.map_err(StoreError::io("read", "the stream"))?;
        if size == 0 && buffer.len() < CHUNK {
            return Ok((buffer.len() as u64, store_bytes(session, &buffer)?));
        }
        if size == CHUNK as u64 && buffer.is_empty() {
            // Exactly one chunk is a blob.
            if let [Segment::Data(id)] = recipe.segments() {
                return Ok((size, Content::Blob(*id)));
            }
            return Ok((size, store_bytes(session, &vec![0; CHUNK])?));
        }
        if buffer.is_empty() {
            return Ok((size, put_recipe(session, recipe, size)?));
        }
        push_chunk(session, &mut recipe, &buffer)?;
        size += buffer.len() as u64;
        if buffer.len() < CHUNK {
            return Ok((size, put_recipe(session, recipe, size)?));
        }
    }
}

/// Adds a chunk, as a hole if it contains only zeros.
pub(crate) fn push_chunk(session: &Session, recipe: &mut Recipe, chunk: &[u8]) -> Result<(), StoreError> {
    if is_zero(chunk) {
        recipe.push_hole(1);
    } else {
        recipe.push_data(session.put(ObjectKind::Blob, chunk)?);
    }
    Ok(())
}

pub(crate) fn put_recipe(session: &Session, recipe: Recipe, size: u64) -> Result<Content, StoreError> {
    let recipe = recipe.finish(size)?;
    session.put(ObjectKind::Recipe, &recipe.encode()).map(Content::Chunked)
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// A part of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'b> {
    /// Bytes.
    Data(&'b [u8]),
    /// This many zeros.
    Hole(u64),
}

/// Calls `each` with the parts of a file in order.
pub fn pieces(
    objects: &dyn Objects,
    content: Content,
    size: u64,
    mut each: impl FnMut(Piece<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    match content {
        Content::Empty => Ok(()),
        Content::Blob(id) => each(Piece::Data(&blob(objects, &id, size)?)),
        Content::Chunked(id) => {
            let recipe = recipe(objects, &id, size)?;
            let mut left = size;
            for segment in recipe.segments() {
                match segment {
                    Segment::Hole(chunks) => {
                        let len = (chunks * CHUNK as u64).min(left);
                        each(Piece::Hole(len))?;
                        left -= len;
                    }
                    Segment::Data(id) => {
                        let len = left.min(CHUNK as u64);
                        each(Piece::Data(&blob(objects, id, len)?))?;
                        left -= len;
                    }
                }
            }
            Ok(())
        }
    }
}

/// Reads a file of at most `max` bytes.
pub fn read_content(
    objects: &dyn Objects,
    content: Content,
    size: u64,
    max: usize,
) -> Result<Vec<u8>, StoreError> {
    if size > max as u64 {
        return Err(StoreError::invalid("the file", format_args!("it is larger than {max} bytes")));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    pieces(objects, content, size, |piece| {
        match piece {
            Piece::Data(data) => bytes.extend_from_slice(data),
            Piece::Hole(len) => bytes.resize(bytes.len() + len as usize, 0),
        }
        Ok(())
    })?;
    Ok(bytes)
}

/// Reads up to `len` bytes of a file from an offset; fewer only at its end.
pub fn read_range(
    objects: &dyn Objects,
    content: Content,
    size: u64,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, StoreError> {
    let end = size.min(offset.saturating_add(len as u64));
    if offset >= end {
        return Ok(Vec::new());
    }
    let id = match content {
        Content::Empty => return Ok(Vec::new()),
        Content::Blob(id) => {
            let bytes = blob(objects, &id, size)?;
            return Ok(bytes.get(offset as usize..end as usize).unwrap_or_default().to_vec());
        }
        Content::Chunked(id) => id,
    };
    let mut bytes = Vec::with_capacity((end - offset) as usize);
    let mut at = 0;
    for segment in recipe(objects, &id, size)?.segments() {
        let len = match segment {
            Segment::Hole(chunks) => (chunks * CHUNK as u64).min(size - at),
            Segment::Data(_) => (CHUNK as u64).min(size - at),
        };
        let (from, to) = (offset.max(at), end.min(at + len));
        if from < to {
            match segment {
                Segment::Hole(_) => bytes.resize(bytes.len() + (to - from) as usize, 0),
                Segment::Data(id) => {
                    let chunk = blob(objects, id, len)?;
                    let range = (from - at) as usize..(to - at) as usize;
                    bytes.extend_from_slice(chunk.get(range).unwrap_or_default());
                }
            }
        }
        at += len;
        if at >= end {
            break;
        }
    }
    Ok(bytes)
}

pub(crate) fn recipe(
    objects: &dyn Objects,
    id: &ObjectId,
    size: impl Into<Option<u64>>,
) -> Result<Recipe, StoreError> {
    let recipe = Recipe::decode(&objects.object(ObjectKind::Recipe, id)?)?;
    if size.into().is_some_and(|size| size != recipe.size()) {
        return Err(StoreError::damaged(
            format!("the list of chunks {id}"),
            "its size is not that of the file",
        ));
    }
    Ok(recipe)
}

fn blob(objects: &dyn Objects, id: &ObjectId, size: u64) -> Result<Vec<u8>, StoreError> {
    let bytes = objects.object(ObjectKind::Blob, id)?;
    if bytes.len() as u64 != size {
        return Err(StoreError::damaged(format!("the blob {id}"), "its size is not that of the file"));
    }
    Ok(bytes)
}

/// The content of a file as a stream.
pub(crate) struct ContentReader<'o> {
    objects: &'o dyn Objects,
    segments: Vec<Segment>,
    next: usize,
    /// Bytes of the present segment that were not read yet: data, or a number of zeros.
    data: Vec<u8>,
    at: usize,
    zeros: u64,
    left: u64,
}

impl<'o> ContentReader<'o> {
    pub(crate) fn new(objects: &'o dyn Objects, content: Content, size: u64) -> Result<Self, StoreError> {
        let segments = match content {
            Content::Empty => Vec::new(),
            Content::Blob(id) => vec![Segment::Data(id)],
            Content::Chunked(id) => recipe(objects, &id, size)?.segments().to_vec(),
        };
        Ok(Self { objects, segments, next: 0, data: Vec::new(), at: 0, zeros: 0, left: size })
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut data) = self.data.get(self.at..).filter(|data| !data.is_empty()) {
                let len = data.read(out)?;
                self.at += len;
                return Ok(len);
            }
            if self.zeros > 0 {
                let len = out.len().min(self.zeros as usize);
                out.iter_mut().take(len).for_each(|byte| *byte = 0);
                self.zeros -= len as u64;
                return Ok(len);
            }
            let Some(segment) = self.segments.get(self.next) else { return Ok(0) };
            self.next += 1;
            match segment {
                Segment::Hole(chunks) => {
                    self.zeros = (chunks * CHUNK as u64).min(self.left);
                    self.left -= self.zeros;
                }
                Segment::Data(id) => {
                    let len = self.left.min(CHUNK as u64);
                    self.data = blob(self.objects, id, len).map_err(io::Error::other)?;
                    self.at = 0;
                    self.left -= len;
                }
            }
        }
    }
}
