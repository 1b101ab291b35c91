//! The x86 boot image: a small loader with the compressed kernel inside.

use std::io::Read;

use liblzma::stream::Stream;

/// No kernel unpacks to more.
const VMLINUX_MAX: u64 = 1 << 30;
const DECODER_MEMORY: u64 = 256 << 20;
/// The blocks of the old lz4 format unpack to at most this.
const LZ4_BLOCK: usize = 8 << 20;

/// Why a boot image could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BzImageError {
    /// It is something else.
    #[error("it is not a Linux boot image")]
    NotBzImage,
    /// It ends before it should, or points outside itself.
    #[error("it is cut short or its header is damaged")]
    Truncated,
    /// The kernel inside is compressed in a way we do not know.
    #[error("the kernel inside is compressed in an unknown way")]
    UnknownCompression,
    /// The kernel inside cannot be unpacked.
    #[error("the kernel inside cannot be unpacked: {0}")]
    Damaged(String),
}

/// The version a boot image gives itself, as in `uname -r`.
pub fn version_of_bzimage(image: &[u8]) -> Result<String, BzImageError> {
    check(image)?;
    let at = usize::from(u16_at(image, 0x20e)?) + 0x200;
    let text = image.get(at..).ok_or(BzImageError::Truncated)?;
    let word = text.iter().take(128).take_while(|byte| byte.is_ascii_graphic()).copied().collect::<Vec<u8>>();
    match String::from_utf8(word) {
        Ok(word) if !word.is_empty() => Ok(word),
        _ => Err(BzImageError::Truncated),
    }
}

/// Unpacks the ELF kernel inside a boot image.
pub fn unpack_vmlinux(image: &[u8]) -> Result<Vec<u8>, BzImageError> {
    check(image)?;
    let setup_sectors = match image.get(0x1f1).ok_or(BzImageError::Truncated)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let start = (setup_sectors + 1) * 512;
    let offset = usize::try_from(u32_at(image, 0x248)?).map_err(|_| BzImageError::Truncated)?;
    let length = usize::try_from(u32_at(image, 0x24c)?).map_err(|_| BzImageError::Truncated)?;
    let from = start.checked_add(offset).ok_or(BzImageError::Truncated)?;
    let to = from.checked_add(length).ok_or(BzImageError::Truncated)?;
    unpack(image.get(from..to).ok_or(BzImageError::Truncated)?)
}

fn unpack(payload: &[u8]) -> Result<Vec<u8>, BzImageError> {
    let damaged = |error: std::io::Error| BzImageError::Damaged(error.to_string());
    // The build appends the unpacked length to all but gzip, so only the first stream is read.
    match payload {
        [0x1f, 0x8b, ..] => read(flate2::read::GzDecoder::new(payload)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream =
                Stream::new_stream_decoder(DECODER_MEMORY, 0).map_err(|error| damaged(error.into()))?;
            read(liblzma::bufread::XzDecoder::new_stream(payload, stream))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let mut decoder =
                zstd::stream::read::Decoder::with_buffer(payload).map_err(damaged)?.single_frame();
            decoder.window_log_max(27).map_err(damaged)?;
            read(decoder)
        }
        [0x02, 0x21, 0x4c, 0x18, blocks @ ..] => unpack_lz4(blocks),
        [0x7f, b'E', b'L', b'F', ..] => Ok(payload.to_vec()),
        _ => Err(BzImageError::UnknownCompression),
    }
}

fn read(decoder: impl Read) -> Result<Vec<u8>, BzImageError> {
    let mut kernel = Vec::new();
    decoder
        .take(VMLINUX_MAX + 1)
        .read_to_end(&mut kernel)
        .map_err(|error| BzImageError::Damaged(error.to_string()))?;
    if kernel.len() as u64 > VMLINUX_MAX {
        return Err(BzImageError::Damaged("it unpacks to an absurd size".to_owned()));
    }
    Ok(kernel)
}

/// Unpacks the old lz4 format: blocks, each after its length, and the unpacked length as a last word.
fn unpack_lz4(mut blocks: &[u8]) -> Result<Vec<u8>, BzImageError> {
    let mut kernel = Vec::new();
    while blocks.len() > 4 {
        let (length, rest) = blocks.split_at(4);
        let length = usize::try_from(u32_at(length, 0)?).map_err(|_| BzImageError::Truncated)?;
        let block = rest.get(..length).ok_or(BzImageError::Truncated)?;
        let mut unpacked = vec![0; LZ4_BLOCK];
        let got = lz4_flex::block::decompress_into(block, &mut unpacked)
            .map_err(|error| BzImageError::Damaged(error.to_string()))?;
        kernel.extend_from_slice(&unpacked[..got]);
        if kernel.len() as u64 > VMLINUX_MAX {
            return Err(BzImageError::Damaged("it unpacks to an absurd size".to_owned()));
        }
        blocks = &rest[length..];
    }
    Ok(kernel)
}

fn check(image: &[u8]) -> Result<(), BzImageError> {
    let is_linux = image.get(0x202..0x206) == Some(b"HdrS") && image.get(0x1fe..0x200) == Some(&[0x55, 0xaa]);
    // 2.08 brought the fields that say where the payload is.
    if is_linux && u16_at(image, 0x206)? >= 0x208 { Ok(()) } else { Err(BzImageError::NotBzImage) }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, BzImageError> {
    let field = bytes.get(at..at + 2).and_then(|field| field.try_into().ok());
    field.map(u16::from_le_bytes).ok_or(BzImageError::Truncated)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, BzImageError> {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    field.map(u32::from_le_bytes).ok_or(BzImageError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    const KERNEL: &[u8] = b"\x7fELF, or so it says. So it says. So it says. So it says.";

    fn image_around(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2 * 512];
        image[0x1f1] = 1;
        image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
        image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
        image[0x300..0x30f].copy_from_slice(b"6.1.0-x (who)  ");
        image.extend_from_slice(&[0; 16]);
        image.extend_from_slice(payload);
        image
    }

    fn with_length(mut packed: Vec<u8>) -> Vec<u8> {
        packed.extend_from_slice(&u32::try_from(KERNEL.len()).unwrap().to_le_bytes());
        packed
    }

    #[test]
    fn every_usual_compression_is_undone() {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(KERNEL).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(KERNEL).unwrap();
        let block = lz4_flex::block::compress(KERNEL);
        let mut lz4 = vec![0x02, 0x21, 0x4c, 0x18];
        lz4.extend_from_slice(&u32::try_from(block.len()).unwrap().to_le_bytes());
        lz4.extend_from_slice(&block);
        for packed in [
            gzip.finish().unwrap(),
            with_length(xz.finish().unwrap()),
            with_length(zstd::encode_all(KERNEL, 1).unwrap()),
            with_length(lz4),
            KERNEL.to_vec(),
        ] {
            assert_eq!(unpack_vmlinux(&image_around(&packed)).unwrap(), KERNEL);
        }
    }

    #[test]
    fn the_version_is_the_first_word_of_its_text() {
        assert_eq!(version_of_bzimage(&image_around(b"x")).unwrap(), "6.1.0-x");
    }

    #[test]
    fn damaged_images_are_told_apart() {
        let good = image_around(&zstd::encode_all(KERNEL, 1).unwrap());
        assert_eq!(unpack_vmlinux(&good[..good.len() - 1]), Err(BzImageError::Truncated));
        assert_eq!(unpack_vmlinux(&good[..0x210]), Err(BzImageError::Truncated));
        assert_eq!(unpack_vmlinux(b"MZ"), Err(BzImageError::NotBzImage));
        assert_eq!(unpack_vmlinux(&image_around(b"BZh91AY")), Err(BzImageError::UnknownCompression));
        let mut cut = zstd::encode_all(KERNEL, 1).unwrap();
        cut.truncate(cut.len() / 2);
        assert!(matches!(unpack_vmlinux(&image_around(&cut)), Err(BzImageError::Damaged(_))));
        let mut wild = good;
        wild[0x248..0x250].fill(0xff);
        assert_eq!(unpack_vmlinux(&wild), Err(BzImageError::Truncated));
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(junk in proptest::collection::vec(any::<u8>(), 0..64), at in 0x1f1usize..0x260) {
            let mut image = image_around(KERNEL);
            let end = (at + junk.len()).min(image.len());
            image[at..end].copy_from_slice(&junk[..end - at]);
            let _ = unpack_vmlinux(&image);
            let _ = version_of_bzimage(&image);
        }
    }
}
