//! Transferring directory trees.

use agentiso_proto::{
    Channel, DATA_PAYLOAD, MAX_PAYLOAD, RawPath, Request, Response, TreeDecoder, TreeEntry, TreeItem,
    TreeKind, TreeOptions, encode_entry,
};

use super::exchange::Exchange;
use super::files::Upload;
use super::stream::{Event, Shape};
use super::{Guest, LinkError};

const READING: Shape = Shape { receives: &[Channel::Main], budget: 2 * MAX_PAYLOAD };
const WRITING: Shape = Shape { receives: &[], budget: 2 * MAX_PAYLOAD };

impl Guest {
    /// Receives a file or a directory tree from the guest.
    pub async fn send_tree(&self, path: impl Into<RawPath>) -> Result<TreeReader, LinkError> {
        let exchange = self.start(&Request::SendTree { path: path.into() }, READING).await?;
        Ok(TreeReader { exchange, decoder: TreeDecoder::new(), piece: Vec::new(), taken: 0, over: false })
    }

    /// Sends a tree into a directory of the guest, which is created if missing.
    pub async fn receive_tree(
        &self,
        path: impl Into<RawPath>,
        options: TreeOptions,
    ) -> Result<TreeWriter, LinkError> {
        let exchange = self.start(&Request::ReceiveTree { path: path.into(), options }, WRITING).await?;
        Ok(TreeWriter { upload: Upload::new(exchange), waiting: Vec::new(), content_left: 0 })
    }
}

/// A tree from the guest. Its paths are safe to append to a directory. Its symbolic links may point anywhere, so code that
/// writes the tree must not follow them.
#[derive(Debug)]
pub struct TreeReader {
    exchange: Exchange,
    decoder: TreeDecoder,
    piece: Vec<u8>,
    taken: usize,
    over: bool,
}

impl TreeReader {
    /// The next entry or piece of content, `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<TreeItem>, LinkError> {
        if self.over {
            return Ok(None);
        }
        let item = self.advance().await;
        self.over = !matches!(item, Ok(Some(_)));
        item
    }

    async fn advance(&mut self) -> Result<Option<TreeItem>, LinkError> {
        loop {
            let mut rest = &self.piece[self.taken..];
            let item = self.decoder.next(&mut rest);
            self.taken = self.piece.len() - rest.len();
            match item {
                Ok(Some(TreeItem::End)) | Ok(None) => {}
                Ok(item) => return Ok(item),
                Err(error) => return Err(self.exchange.guest().violation(error.to_string())),
            }
            if self.taken < self.piece.len() {
                continue;
            }
            match self.exchange.next().await? {
                Event::Data(_, bytes) => (self.piece, self.taken) = (bytes, 0),
                Event::Last(Response::Done) if self.decoder.is_complete() => return Ok(None),
                other => return Err(self.exchange.unexpected(&other)),
            }
        }
    }
}

/// Sends a tree to the guest. Dropping it before [`Self::finish`] leaves an incomplete tree.
#[derive(Debug)]
pub struct TreeWriter {
    upload: Upload,
    /// Entries are short, so they are buffered.
    waiting: Vec<u8>,
    content_left: u64,
}

impl TreeWriter {
    /// Sends an entry; the content of a regular file must follow.
    pub async fn entry(&mut self, entry: &TreeEntry) -> Result<(), LinkError> {
        self.check_content_is_complete()?;
        encode_entry(entry, &mut self.waiting).map_err(LinkError::Tree)?;
        if let TreeKind::File { size } = entry.kind {
            self.content_left = size;
        }
        self.send_if(DATA_PAYLOAD).await
    }

    /// Sends content of the last entry.
    pub async fn content(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        let len = bytes.len() as u64;
        let left = self.content_left.checked_sub(len);
        self.content_left = left.ok_or_else(|| LinkError::TreeContent(len - self.content_left))?;
        if bytes.len() < DATA_PAYLOAD {
            self.waiting.extend_from_slice(bytes);
            return self.send_if(DATA_PAYLOAD).await;
        }
        self.send_if(1).await?;
        self.upload.write(bytes).await
    }

    /// Ends the tree, waits until the guest has written it, and returns the number of content bytes.
    pub async fn finish(mut self) -> Result<u64, LinkError> {
        self.check_content_is_complete()?;
        self.waiting.extend_from_slice(&0_u32.to_le_bytes());
        self.send_if(1).await?;
        self.upload.finish().await
    }

    fn check_content_is_complete(&self) -> Result<(), LinkError> {
        if self.content_left == 0 { Ok(()) } else { Err(LinkError::TreeContent(self.content_left)) }
    }

    async fn send_if(&mut self, enough: usize) -> Result<(), LinkError> {
        if self.waiting.len() >= enough {
            self.upload.write(&self.waiting).await?;
            self.waiting.clear();
        }
        Ok(())
    }
}
