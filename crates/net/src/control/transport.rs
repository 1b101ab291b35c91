//! Messages on a stream: a length of four bytes, then JSON.

use std::io;

use agentiso_core::in_clear;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use zeroize::Zeroizing;

/// The largest message: the machines of a large installation with long policies.
const MAX_MESSAGE: usize = 64 << 20;

/// Reads a message, or nothing at the end of the stream.
pub(super) async fn read<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<Option<T>> {
    let length = match stream.read_u32().await {
        Ok(length) => length as usize,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_MESSAGE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a message of {length} bytes is too large"),
        ));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    stream.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes a message.
pub(super) async fn write<T: Serialize>(stream: &mut UnixStream, message: &T) -> io::Result<()> {
    // Only the router reads it, on a socket that no other user can open. Secrets in it are wiped after sending.
    let bytes = Zeroizing::new(in_clear(|| serde_json::to_vec(message)).map_err(io::Error::other)?);
    let length = u32::try_from(bytes.len()).ok().filter(|&length| length as usize <= MAX_MESSAGE);
    let length =
        length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the message is too large"))?;
    stream.write_all(&Zeroizing::new([&length.to_be_bytes(), &bytes[..]].concat())).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Request;

    #[tokio::test]
    async fn messages_arrive_and_damaged_ones_are_refused() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        write(&mut near, &Request::Machines).await.unwrap();
        assert_eq!(read(&mut far).await.unwrap(), Some(Request::Machines));

        near.write_all(&[0, 0, 0, 2, b'{', b'x']).await.unwrap();
        let error = read::<Request>(&mut far).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);

        near.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        assert!(read::<Request>(&mut far).await.unwrap_err().to_string().contains("too large"));

        near.write_all(&[0, 0, 0, 9, b'{']).await.unwrap();
        drop(near);
        assert_eq!(read::<Request>(&mut far).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(read::<Request>(&mut far).await.unwrap(), None, "the end of the stream");
    }
}
