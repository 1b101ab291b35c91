//! The task that reads from the guest. It waits only for the guest, never for a consumer.

use std::io;

use agentiso_proto::{
    Decoder, Event, Frame, Kind, Response, VERSION_MAX, VERSION_MIN, WelcomeScanner, from_bytes,
};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::LinkError;
use super::session::Session;

const READ: usize = 256 * 1024;

/// Reads until the session ends, and returns why.
pub(super) async fn run<R: AsyncRead + Unpin>(
    reader: &mut R,
    nonce: [u8; 16],
    session: &Session,
) -> LinkError {
    let mut buffer = vec![0; READ];
    let mut phase = Phase::Greeting(WelcomeScanner::new(nonce));
    loop {
        let len = match reader.read(&mut buffer).await {
            Ok(0) => return LinkError::closed(io::ErrorKind::UnexpectedEof, "the guest's end was closed"),
            Ok(len) => len,
            Err(error) => return LinkError::Closed(error.into()),
        };
        if let Err(error) = take(&mut buffer[..len].as_ref(), &mut phase, session) {
            return error;
        }
    }
}

enum Phase {
    /// Skips everything before the Welcome, which belongs to an earlier session.
    Greeting(WelcomeScanner),
    Talking(Decoder),
}

fn take(input: &mut &[u8], phase: &mut Phase, session: &Session) -> Result<(), LinkError> {
    if let Phase::Greeting(scanner) = phase {
        let Some(welcome) = scanner.next(input) else { return Ok(()) };
        match welcome.version {
            0 => return Err(LinkError::Version { min: welcome.min, max: welcome.max }),
            VERSION_MIN..=VERSION_MAX => session.welcomed(welcome.version),
            version => return Err(LinkError::Violation(format!("version {version} was never offered"))),
        }
        *phase = Phase::Talking(Decoder::new());
    }
    if let Phase::Talking(decoder) = phase {
        while let Some(event) = decoder.next(input) {
            match event {
                Event::Frame(frame) => dispatch(frame, session).map_err(LinkError::Violation)?,
                Event::Lost(error) => return Err(LinkError::Violation(error.to_string())),
                Event::Hello(_) => return Err(LinkError::Violation("a guest says no hello".to_owned())),
            }
        }
    }
    Ok(())
}

/// Passes a frame to its stream. The error describes a violation of the protocol.
fn dispatch(frame: Frame, session: &Session) -> Result<(), String> {
    let Frame { kind, channel, last, stream: id, payload } = frame;
    match kind {
        Kind::Response => {
            let response: Response =
                from_bytes(&payload).map_err(|error| format!("a response does not decode: {error}"))?;
            let stream = if last { session.finish(id)? } else { session.find(id)? };
            if let Some(stream) = stream {
                stream.response(response, payload.len(), last);
            }
            Ok(())
        }
        Kind::Data => session.find(id)?.map_or(Ok(()), |stream| stream.data(channel, payload)),
        Kind::Eof => session.find(id)?.map_or(Ok(()), |stream| stream.eof(channel)),
        Kind::Credit => {
            let amount = payload.try_into().map(u32::from_le_bytes);
            let amount = amount.map_err(|_| "a grant of credit does not decode".to_owned())?;
            session.find(id)?.map_or(Ok(()), |stream| stream.credit(amount))
        }
        Kind::Pong => session.pong(&payload),
        Kind::Request | Kind::Cancel | Kind::Control | Kind::Ping => {
            Err(format!("a guest sends no frames of kind {kind:?}"))
        }
    }
}
