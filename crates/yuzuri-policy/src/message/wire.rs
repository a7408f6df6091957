//! Big-endian integers on the wire, with as many bytes as they need.

use super::Refusal;

pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer(Vec::with_capacity(bytes))
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub fn into_vec(self) -> Vec<u8> {
        self.0
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes the lower three bytes.
    pub fn u24(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes()[1..]);
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes the lower five bytes.
    pub fn u40(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes()[3..]);
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }
}

pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Refusal::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn bytes(&mut self, bytes: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(Refusal::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn skip(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.0 = self.0.get(bytes..).ok_or(Refusal::Malformed)?;
        Ok(())
    }

    /// Fails if any bytes are left.
    pub fn end(&self) -> Result<(), Refusal> {
        if self.0.is_empty() { Ok(()) } else { Err(Refusal::Malformed) }
    }

    pub fn u8(&mut self) -> Result<u8, Refusal> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    pub fn u16(&mut self) -> Result<u16, Refusal> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn u24(&mut self) -> Result<u32, Refusal> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub fn u32(&mut self) -> Result<u32, Refusal> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u40(&mut self) -> Result<u64, Refusal> {
        let [a, b, c, d, e] = self.array()?;
        Ok(u64::from_be_bytes([0, 0, 0, a, b, c, d, e]))
    }

    pub fn u64(&mut self) -> Result<u64, Refusal> {
        Ok(u64::from_be_bytes(self.array()?))
    }
}
