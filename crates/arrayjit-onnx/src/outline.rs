//! The messages of a model file without the elements of its large arrays.
//!
//! Most of a model file is weights. They are left in the file while the messages around them are decoded,
//! and read later, straight into the arrays that have them: the file is never in memory as a whole.
//!
//! The main graph's initializers are the arrays that a file has in numbers; others are decoded as they are.
//! The bytes of a file that contradicts itself are passed on whole, so that its errors are those of decoding.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    ops::Range,
};

use prost::encoding::{MAX_TAG, MIN_TAG, WireType, encode_key, encode_varint};

/// Elements of fewer bytes are decoded with the messages around them.
const LARGE: u64 = 1 << 14;

/// Field numbers of `onnx.proto`.
const GRAPH_OF_MODEL: u32 = 7;
const INITIALIZER_OF_GRAPH: u32 = 5;
const RAW_DATA_OF_TENSOR: u32 = 9;

/// A model file without the elements of large arrays.
pub(crate) struct Outline {
    /// The encoded model.
    pub(crate) model: Vec<u8>,
    /// The place in the file of what was left out, by the position of the initializer in the main graph.
    pub(crate) elements: HashMap<usize, Range<u64>>,
}

impl Outline {
    /// Reads the outline of a file that has so many bytes.
    ///
    /// # Errors
    /// Those of the system, and of memory that is short.
    pub(crate) fn read(file: &File, size: u64) -> io::Result<Outline> {
        let mut scanner = Scanner { input: BufReader::new(file), at: 0, elements: HashMap::new() };
        match scanner.model(size) {
            Ok(model) => Ok(Outline { model, elements: scanner.elements }),
            Err(error) if is_malformed(&error) => whole(file, size),
            Err(error) => Err(error),
        }
    }
}

fn whole(mut file: &File, size: u64) -> io::Result<Outline> {
    file.seek(SeekFrom::Start(0))?;
    let mut model = Vec::new();
    append(file, size, &mut model)?;
    Ok(Outline { model, elements: HashMap::new() })
}

/// Appends `count` bytes, or as many as are left.
fn append(input: impl Read, count: u64, to: &mut Vec<u8>) -> io::Result<usize> {
    let space = to.try_reserve_exact(usize::try_from(count).unwrap_or(usize::MAX));
    space.map_err(|_| io::ErrorKind::OutOfMemory)?;
    input.take(count).read_to_end(to)
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn is_malformed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// What a scanner does with the content of a field of known length: it is handled and encoded, or copied.
type OnField<'f> = dyn FnMut(&mut Scanner<'_>, u32, Range<u64>, &mut Vec<u8>) -> io::Result<bool> + 'f;

/// Walks over the fields of messages in a file.
struct Scanner<'a> {
    input: BufReader<&'a File>,
    /// The position in the file.
    at: u64,
    elements: HashMap<usize, Range<u64>>,
}

impl Scanner<'_> {
    fn model(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let (mut model, mut graphs) = (Vec::new(), 0);
        self.fields(size, &mut model, &mut |scanner, field, content, model| {
            if field != GRAPH_OF_MODEL {
                return Ok(false);
            }
            graphs += 1;
            // Several are merged, which numbers their initializers anew.
            if graphs > 1 {
                return Err(malformed());
            }
            let graph = scanner.graph(content.end)?;
            encode_field(field, &graph, model);
            Ok(true)
        })?;
        Ok(model)
    }

    fn graph(&mut self, end: u64) -> io::Result<Vec<u8>> {
        let (mut graph, mut initializers) = (Vec::new(), 0);
        self.fields(end, &mut graph, &mut |scanner, field, content, graph| {
            if field != INITIALIZER_OF_GRAPH {
                return Ok(false);
            }
            initializers += 1;
            if content.end - content.start < LARGE {
                return Ok(false);
            }
            let tensor = scanner.tensor(content.end, initializers - 1)?;
            encode_field(field, &tensor, graph);
            Ok(true)
        })?;
        Ok(graph)
    }

    fn tensor(&mut self, end: u64, initializer: usize) -> io::Result<Vec<u8>> {
        let (mut tensor, mut elements) = (Vec::new(), 0);
        self.fields(end, &mut tensor, &mut |scanner, field, content, _| {
            if field != RAW_DATA_OF_TENSOR {
                return Ok(false);
            }
            elements += 1;
            // The last ones count.
            if elements > 1 {
                return Err(malformed());
            }
            if content.end - content.start < LARGE {
                return Ok(false);
            }
            scanner.skip_to(content.end)?;
            scanner.elements.insert(initializer, content);
            Ok(true)
        })?;
        Ok(tensor)
    }

    /// Copies the fields of the message that ends at `end`, but for those that `on_field` handles.
    fn fields(&mut self, end: u64, to: &mut Vec<u8>, on_field: &mut OnField<'_>) -> io::Result<()> {
        while self.at < end {
            let key = self.varint()?;
            let field = u32::try_from(key >> 3).ok().filter(|field| (MIN_TAG..=MAX_TAG).contains(field));
            let field = field.ok_or_else(malformed)?;
            let wire = WireType::try_from(key & 7).map_err(|_| malformed())?;
            let fixed = match wire {
                WireType::Varint => {
                    encode_key(field, wire, to);
                    encode_varint(self.varint()?, to);
                    continue;
                }
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::LengthDelimited => {
                    let length = self.varint()?;
                    let content_end = self.at.checked_add(length).filter(|&content_end| content_end <= end);
                    let content = self.at..content_end.ok_or_else(malformed)?;
                    if !on_field(self, field, content.clone(), to)? {
                        encode_key(field, wire, to);
                        encode_varint(length, to);
                        self.copy(length, to)?;
                    }
                    if self.at != content.end {
                        return Err(malformed());
                    }
                    continue;
                }
                WireType::StartGroup | WireType::EndGroup => return Err(malformed()),
            };
            encode_key(field, wire, to);
            self.copy(fixed, to)?;
        }
        if self.at == end { Ok(()) } else { Err(malformed()) }
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.input.read_exact(&mut byte)?;
            self.at += 1;
            value |= u64::from(byte[0] & 0x7f) << shift;
            // The tenth byte has the last bit of a number.
            if shift == 63 && byte[0] > 1 {
                return Err(malformed());
            }
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed())
    }

    fn copy(&mut self, count: u64, to: &mut Vec<u8>) -> io::Result<()> {
        let copied = append(&mut self.input, count, to)? as u64;
        self.at += copied;
        if copied == count { Ok(()) } else { Err(malformed()) }
    }

    fn skip_to(&mut self, position: u64) -> io::Result<()> {
        let distance = i64::try_from(position - self.at).map_err(|_| malformed())?;
        self.input.seek_relative(distance)?;
        self.at = position;
        Ok(())
    }
}

fn encode_field(field: u32, content: &[u8], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(content.len() as u64, to);
    to.extend_from_slice(content);
}
