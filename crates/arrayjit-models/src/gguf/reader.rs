//! The header of a GGUF file: metadata and the places of tensors.
//!
//! Every length in the file is compared with the bytes that are left before memory is taken for it, and
//! arrays have a bound together, so a file takes memory in proportion to its header.

use std::{
    io::{BufReader, Read},
    path::Path,
    sync::Arc,
};

use serde_json::{Number, Value};

use crate::{
    config::Config,
    encoding::Encoding,
    error::{InFile, ModelError, Result, format_error},
    weights::{WeightFile, Weights},
};

/// A file whose header was read.
pub(super) struct GgufFile {
    pub(super) metadata: Config,
    pub(super) weights: Weights,
}

/// The most elements of all arrays of metadata together; the largest vocabularies have less than a tenth.
const MAX_ARRAY_ELEMENTS: u64 = 1 << 23;
/// The longest name or text of metadata: chat templates are some kilobytes long.
const MAX_TEXT_BYTES: u64 = 1 << 20;
/// The most bytes of a header.
const MAX_HEADER_BYTES: u64 = 1 << 28;
/// The most axes of a tensor, as in llama.cpp.
const MAX_RANK: u32 = 4;

/// The header that is read, with the bytes that are left.
struct Header<R> {
    reader: R,
    position: u64,
    end: u64,
    array_elements: u64,
}

/// Reads the header of a file, and checks that its tensors lie within it.
pub(super) fn read(path: &Path) -> Result<GgufFile> {
    let file = Arc::new(WeightFile::open(path)?);
    read_file(&file).in_file(path)
}

fn read_file(file: &Arc<WeightFile>) -> Result<GgufFile> {
    let (reader, end) = (BufReader::new(file.reader(0)), file.len().min(MAX_HEADER_BYTES));
    let mut header = Header { reader, position: 0, end, array_elements: 0 };
    let magic: [u8; 4] = header.bytes()?;
    if &magic != b"GGUF" {
        return Err(format_error("the beginning", format!("{magic:?}"), "the letters GGUF"));
    }
    let version = header.u32()?;
    if !(2..=3).contains(&version) {
        return Err(format_error("the version", version, "2 or 3, little-endian"));
    }
    // A tensor takes 24 bytes at least, and an entry 13.
    let (tensors, entries) = (header.count(24)?, header.count(13)?);
    let mut metadata = Config::default();
    for _ in 0..entries {
        let key = header.text()?;
        let kind = header.u32()?;
        let value = header.value(kind, &key)?;
        if metadata.0.insert(key.clone(), value).is_some() {
            return Err(format_error(format!("the entry `{key}`"), "there twice", "one of each name"));
        }
    }
    let mut places = Vec::new();
    for _ in 0..tensors {
        places.push(header.tensor()?);
    }
    let alignment = metadata.size("general.alignment")?.unwrap_or(32) as u64;
    let start = header.position.next_multiple_of(alignment);
    let mut weights = Weights::default();
    for TensorPlace { name, shape, encoding, offset } in places {
        if !offset.is_multiple_of(alignment) {
            let expected = format!("a multiple of {alignment}");
            return Err(format_error(format!("the place of `{name}`"), offset, expected));
        }
        let offset = start.checked_add(offset);
        let offset = offset.ok_or_else(|| {
            format_error(format!("the place of `{name}`"), "too large", "one within the file")
        })?;
        weights.add(name, file, offset, shape, encoding)?;
    }
    Ok(GgufFile { metadata, weights })
}

/// Where a tensor is, behind the header.
struct TensorPlace {
    name: String,
    shape: Vec<usize>,
    encoding: Encoding,
    offset: u64,
}

impl<R: Read> Header<R> {
    fn left(&self) -> u64 {
        self.end - self.position
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.take(N as u64)?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Notes that bytes are read.
    fn take(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.left() {
            let found = format!("{bytes} bytes long at byte {}", self.position);
            return Err(format_error(
                "a part of the header",
                found,
                format!("at most {} bytes", self.left()),
            ));
        }
        self.position += bytes;
        Ok(())
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A number of elements that take at least so many bytes each.
    fn count(&mut self, least_bytes: u64) -> Result<u64> {
        let count = self.u64()?;
        match count.checked_mul(least_bytes) {
            Some(bytes) if bytes <= self.left() => Ok(count),
            _ => Err(format_error(
                "a number of elements",
                count,
                format!("as many as {} bytes hold", self.left()),
            )),
        }
    }

    fn text(&mut self) -> Result<String> {
        let length = self.count(1)?;
        if length > MAX_TEXT_BYTES {
            return Err(format_error(
                "the length of a text",
                length,
                format!("at most {MAX_TEXT_BYTES} bytes"),
            ));
        }
        self.take(length)?;
        let mut bytes = vec![0; length as usize];
        self.reader.read_exact(&mut bytes)?;
        String::from_utf8(bytes).map_err(|error| format_error("a text", error, "one in UTF-8"))
    }

    /// The value of an entry, whose type has the number `kind`.
    fn value(&mut self, kind: u32, key: &str) -> Result<Value> {
        // Numbers of JSON are finite, so others are texts, which readers of numbers reject.
        let float = |number: f64| Number::from_f64(number).map_or(number.to_string().into(), Value::Number);
        Ok(match kind {
            0 => self.bytes::<1>()?[0].into(),
            1 => i8::from_le_bytes(self.bytes()?).into(),
            2 => u16::from_le_bytes(self.bytes()?).into(),
            3 => i16::from_le_bytes(self.bytes()?).into(),
            4 => self.u32()?.into(),
            5 => i32::from_le_bytes(self.bytes()?).into(),
            // The digits that make the same f32 are those that the author wrote.
            6 => float(f32::from_le_bytes(self.bytes()?).to_string().parse().unwrap_or(f64::NAN)),
            7 => (self.bytes::<1>()?[0] != 0).into(),
            8 => self.text()?.into(),
            9 => self.array(key)?,
            10 => self.u64()?.into(),
            11 => i64::from_le_bytes(self.bytes()?).into(),
            12 => float(f64::from_le_bytes(self.bytes()?)),
            _ => {
                return Err(format_error(
                    format!("the type of the entry `{key}`"),
                    kind,
                    "a number from 0 to 12",
                ));
            }
        })
    }

    fn array(&mut self, key: &str) -> Result<Value> {
        let kind = self.u32()?;
        if kind == 9 {
            return Err(format_error(
                format!("the entry `{key}`"),
                "an array of arrays",
                "one of numbers or texts",
            ));
        }
        let count = self.count(1)?;
        self.array_elements = self.array_elements.saturating_add(count);
        if self.array_elements > MAX_ARRAY_ELEMENTS {
            let expected = format!("at most {MAX_ARRAY_ELEMENTS} elements in all arrays");
            return Err(format_error(
                format!("the entry `{key}`"),
                format!("{count} elements long"),
                expected,
            ));
        }
        (0..count).map(|_| self.value(kind, key)).collect()
    }

    fn tensor(&mut self) -> Result<TensorPlace> {
        let name = self.text()?;
        let rank = self.u32()?;
        if rank > MAX_RANK {
            return Err(format_error(format!("the rank of `{name}`"), rank, format!("at most {MAX_RANK}")));
        }
        let mut shape = Vec::new();
        for _ in 0..rank {
            let size = self.u64()?;
            let known = usize::try_from(size).ok();
            shape.push(
                known.ok_or_else(|| {
                    format_error(format!("a size of `{name}`"), size, "one that fits memory")
                })?,
            );
        }
        shape.reverse(); // the first size of a file is that of neighboring elements
        let number = self.u32()?;
        let encoding = Encoding::of_gguf(number).ok_or_else(|| ModelError::Encoding {
            name: name.clone(),
            found: format!("type {number} of GGUF"),
            expected: Encoding::GGUF,
        })?;
        Ok(TensorPlace { name, shape, encoding, offset: self.u64()? })
    }
}
