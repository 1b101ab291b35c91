//! Numbers and byte strings of object formats.

/// Why bytes are not a valid object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed(pub(crate) &'static str);

const SHORT: Malformed = Malformed("it ends too early");

#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn new(magic: &[u8; 4], version: u8) -> Self {
        let mut writer = Self(Vec::with_capacity(256));
        writer.0.extend_from_slice(magic);
        writer.0.push(version);
        writer
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Seven bits per byte, the lowest first; the top bit says that more follow.
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Small negative numbers are short, too.
    pub(crate) fn signed(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)) as u64);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }
}

pub(crate) struct Reader<'b> {
    left: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Checks magic and version.
    pub(crate) fn new(bytes: &'b [u8], magic: &[u8; 4], version: u8) -> Result<Self, Malformed> {
        let mut reader = Self { left: bytes };
        if reader.raw(4)? != magic {
            return Err(Malformed("it has the wrong magic"));
        }
        if reader.byte()? != version {
            return Err(Malformed("its version is unknown"));
        }
        Ok(reader)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.left.split_first().ok_or(SHORT)?;
        self.left = rest;
        Ok(*first)
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'b [u8], Malformed> {
        let (bytes, rest) = self.left.split_at_checked(len).ok_or(SHORT)?;
        self.left = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N)?.try_into().map_err(|_| SHORT)
    }

    /// Accepts only the shortest form, so that a value has one encoding.
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(Malformed("a number is too large"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let is_shortest = byte != 0 || shift == 0;
                return if is_shortest { Ok(value) } else { Err(Malformed("a number is too long")) };
            }
        }
        Err(Malformed("a number is too long"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed("a number is too large"))
    }

    pub(crate) fn bytes(&mut self, max: usize) -> Result<&'b [u8], Malformed> {
        let len: usize = self.narrow()?;
        if len > max {
            return Err(Malformed("a text is too long"));
        }
        self.raw(len)
    }

    /// A count of things that take at least `each` bytes, which bounds what may be allocated for them.
    pub(crate) fn count(&mut self, each: usize) -> Result<usize, Malformed> {
        let count: usize = self.narrow()?;
        if count > self.left.len() / each {
            return Err(SHORT);
        }
        Ok(count)
    }

    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.left.is_empty() { Ok(()) } else { Err(Malformed("bytes follow its end")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_back(value: u64, signed: i64) {
            let mut writer = Writer::new(b"test", 1);
            writer.number(value);
            writer.signed(signed);
            let mut reader = Reader::new(&writer.0, b"test", 1).unwrap();
            prop_assert_eq!(reader.number(), Ok(value));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }

    #[test]
    fn longer_forms_of_a_number_are_refused() {
        for bytes in [&[0x80, 0x00][..], &[0xff; 10], &[0x80; 11]] {
            assert!(Reader { left: bytes }.number().is_err(), "{bytes:?}");
        }
    }
}
