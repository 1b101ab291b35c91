//! Decompression, by magic number.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use liblzma::stream::{CONCATENATED, Stream};

/// A compression format.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Xz,
    Zstd,
}

/// The memory limit of a decoder: enough for `xz -9` and `zstd -19 --long`.
const DECODER_MEMORY: u64 = 256 << 20;
const ZSTD_WINDOW_LOG: u32 = 27;

impl Compression {
    pub(crate) fn of(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            _ => Self::None,
        }
    }

    /// Roughly how much larger the content is than the file.
    pub(crate) fn usual_ratio(self) -> u64 {
        match self {
            Self::None => 1,
            Self::Gzip => 3,
            Self::Xz | Self::Zstd => 5,
        }
    }
}

/// Peeks at the first bytes.
pub(crate) fn peek<R: Read>(mut input: R) -> io::Result<(Vec<u8>, impl Read)> {
    let mut head = Vec::with_capacity(512);
    input.by_ref().take(512).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(input)))
}

/// Reads `input`, decompressing it if necessary.
pub(crate) fn reader<'a>(input: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let (head, input) = peek(input)?;
    let input = BufReader::with_capacity(128 << 10, input);
    decoder(Compression::of(&head), input)
}

/// Unpacks a small file in memory; more than `max` bytes is an error.
pub(crate) fn bytes(data: &[u8], max: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    decoder(Compression::of(data), data)?.take(max + 1).read_to_end(&mut out)?;
    if out.len() as u64 > max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it unpacks to more than {max} bytes"),
        ));
    }
    Ok(out)
}

fn decoder<'a>(compression: Compression, input: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        Compression::Xz => {
            let stream = Stream::new_stream_decoder(DECODER_MEMORY, CONCATENATED)?;
            Box::new(liblzma::bufread::XzDecoder::new_stream(input, stream))
        }
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
    })
}
