//! Descriptors on a stream: each is sent with one byte of its own, so that no read of a message can take it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Sends a descriptor.
pub(super) async fn send(stream: &UnixStream, descriptor: &OwnedFd) -> io::Result<()> {
    let send = || {
        let descriptors = [descriptor.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        Ok(sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    };
    stream.async_io(Interest::WRITABLE, send).await.map(drop)
}

/// Receives a descriptor.
pub(super) async fn receive(stream: &UnixStream) -> io::Result<OwnedFd> {
    let receive = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
        let received = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        Ok(received)
    };
    let received = stream.async_io(Interest::READABLE, receive).await?;
    received.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no descriptor came with the machine"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_descriptor_arrives_and_its_absence_is_noticed() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send(&near, &writer.into()).await.unwrap();
        let received = receive(&far).await.unwrap();
        std::fs::File::from(received).write_all(b"x").unwrap();
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        near.write_all(b"0").await.unwrap();
        assert_eq!(receive(&far).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
