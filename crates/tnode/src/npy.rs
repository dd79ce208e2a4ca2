//! NumPy's `.npy` files and `.npz` archives.
//!
//! Values are stored without margins. Arrays have at most [`MAX_RANK`](crate::MAX_RANK) axes; files with more
//! are rejected. `bf16`, the 8-bit floats and `u32x4` have no NumPy type and are rejected;
//! [`safetensors`](mod@crate::safetensors) supports all of them. Files are untrusted input: sizes in headers
//! are checked before use, and memory grows only as bytes arrive. Source: NumPy, *The NPY format*, versions 1
//! to 3.

use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use crate::dtype::DType;
use crate::error::{Result, TensorNodeError};
use crate::host_array::HostArray;
use crate::padding::{Dims, checked_elems};

const FORMAT: &str = "npy";
const MAGIC: &[u8] = b"\x93NUMPY";
/// The largest accepted header. Longer ones describe structured types, which are not supported.
const MAX_HEADER_BYTES: usize = 1 << 16;

/// Reads one array.
///
/// # Errors
/// When reading fails, the header is no `.npy` header, the element type has no counterpart here, there are
/// more than [`MAX_RANK`](crate::MAX_RANK) axes, data are missing, or memory is short.
pub fn read(mut reader: impl Read) -> Result<HostArray> {
    let header = Header::parse(&read_header(&mut reader)?)?;
    let len = checked_elems(&header.dims)? * header.dtype.size_bytes();
    let mut array = HostArray::read_bytes(header.dtype, header.dims.clone(), len, reader).map_err(failed)?;
    if header.big_endian {
        array.bytes_mut().chunks_exact_mut(header.dtype.size_bytes()).for_each(<[u8]>::reverse);
    }
    if header.columns_first {
        array = array.into_rows_first()?;
    }
    array.normalize_bools();
    Ok(array)
}

/// Writes one array, without its margins.
///
/// # Errors
/// When writing fails or NumPy has no such element type.
pub fn write(array: &HostArray, mut writer: impl Write) -> Result<()> {
    let header = Header::text(array)?;
    let len = u16::try_from(header.len()).map_err(|_| malformed("too many axes for a header"))?;
    let prefix = [MAGIC, &[1, 0], &len.to_le_bytes(), header.as_bytes()].concat();
    writer.write_all(&prefix).map_err(failed)?;
    writer.write_all(&array.value_bytes()).map_err(failed)
}

/// Reads every array of an `.npz` archive, by name.
///
/// # Errors
/// When the archive or one of its arrays cannot be read.
pub fn read_npz(reader: impl Read + Seek) -> Result<BTreeMap<String, HostArray>> {
    let mut archive = ZipArchive::new(reader).map_err(failed_zip)?;
    let mut arrays = BTreeMap::new();
    for position in 0..archive.len() {
        let entry = archive.by_index(position).map_err(failed_zip)?;
        let name = entry.name().map_err(failed_zip)?;
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        arrays.insert(name, read(entry)?);
    }
    Ok(arrays)
}

/// Writes an `.npz` archive, uncompressed.
///
/// # Errors
/// When writing fails, two arrays have one name, or NumPy has no such element type.
pub fn write_npz<'a>(
    arrays: impl IntoIterator<Item = (&'a str, &'a HostArray)>,
    writer: impl Write + Seek,
) -> Result<()> {
    let mut archive = ZipWriter::new(writer);
    for (name, array) in arrays {
        let options = SimpleFileOptions::default().large_file(array.size_bytes() > u32::MAX as usize / 2);
        archive.start_file(format!("{name}.npy"), options).map_err(failed_zip)?;
        write(array, &mut archive)?;
    }
    archive.finish().map_err(failed_zip)?;
    Ok(())
}

fn failed(source: std::io::Error) -> TensorNodeError {
    TensorNodeError::File { format: FORMAT, source }
}

fn failed_zip(source: zip::result::ZipError) -> TensorNodeError {
    TensorNodeError::File { format: "npz", source: source.into() }
}

fn malformed(why: impl Into<String>) -> TensorNodeError {
    TensorNodeError::Malformed { format: FORMAT, why: why.into() }
}

/// Reads the header's text.
fn read_header(reader: &mut impl Read) -> Result<String> {
    let mut prefix = [0; 8];
    reader.read_exact(&mut prefix).map_err(failed)?;
    if &prefix[..6] != MAGIC {
        return Err(malformed("expected the magic bytes \\x93NUMPY"));
    }
    let len = match prefix[6] {
        1 => u32::from(u16::from_le_bytes(read_exactly(reader)?)),
        2 | 3 => u32::from_le_bytes(read_exactly(reader)?),
        version => return Err(malformed(format!("expected version 1, 2 or 3, found {version}"))),
    };
    if len as usize > MAX_HEADER_BYTES {
        return Err(malformed(format!("a header of {len} bytes, expected at most {MAX_HEADER_BYTES}")));
    }
    let mut header = vec![0; len as usize];
    reader.read_exact(&mut header).map_err(failed)?;
    String::from_utf8(header).map_err(|_| malformed("expected a header in UTF-8"))
}

fn read_exactly<const N: usize>(reader: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

struct Header {
    dtype: DType,
    big_endian: bool,
    columns_first: bool,
    dims: Dims,
}

impl Header {
    /// The header of an array, padded so that the data begin at a multiple of 64 bytes.
    fn text(array: &HostArray) -> Result<String> {
        let descr = descr(array.dtype()).ok_or_else(|| TensorNodeError::UnsupportedElement {
            format: FORMAT,
            what: array.dtype().to_string(),
        })?;
        let dims = match array.dims_without_padding().as_slice() {
            [one] => format!("{one},"),
            dims => dims.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
        };
        let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
        let unpadded = MAGIC.len() + 4 + dict.len() + 1;
        Ok(dict + &" ".repeat(unpadded.next_multiple_of(64) - unpadded) + "\n")
    }

    /// Parses the dictionary literal, which has exactly three keys.
    fn parse(text: &str) -> Result<Header> {
        let parsed =
            parse_dict(&mut Cursor(text)).ok_or_else(|| malformed(format!("header {:?}", text.trim())))?;
        let (Some(descr), Some(columns_first), Some(dims)) = parsed else {
            return Err(malformed("the header lacks descr, fortran_order or shape"));
        };
        let dtype = DType::ALL.into_iter().find(|&d| descr_of(d, &descr));
        let dtype = dtype
            .ok_or_else(|| TensorNodeError::UnsupportedElement { format: FORMAT, what: descr.clone() })?;
        Ok(Header { dtype, big_endian: descr.starts_with('>'), columns_first, dims })
    }
}

/// NumPy's name of an element type.
fn descr(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bool => Some("|b1"),
        DType::U8 => Some("|u1"),
        DType::I8 => Some("|i1"),
        DType::U16 => Some("<u2"),
        DType::I32 => Some("<i4"),
        DType::U32 => Some("<u4"),
        DType::I64 => Some("<i8"),
        DType::U64 => Some("<u8"),
        DType::F16 => Some("<f2"),
        DType::F32 => Some("<f4"),
        DType::F64 => Some("<f8"),
        DType::Bf16 | DType::Fp8E5m2 | DType::Fp8E4m3fn | DType::U32x4 => None,
    }
}

/// Whether `found` names `dtype` in some byte order.
fn descr_of(dtype: DType, found: &str) -> bool {
    let kind = |text: &str| text.strip_prefix(['<', '>', '|', '=']).map(str::to_owned);
    descr(dtype).is_some_and(|name| kind(name) == kind(found))
}

type Fields = (Option<String>, Option<bool>, Option<Dims>);

fn parse_dict(text: &mut Cursor<'_>) -> Option<Fields> {
    let mut fields = Fields::default();
    text.eat("{").then_some(())?;
    while !text.eat("}") {
        let key = text.quoted()?;
        text.eat(":").then_some(())?;
        match key {
            "descr" => fields.0 = Some(text.quoted()?.to_owned()),
            "fortran_order" => fields.1 = Some(text.boolean()?),
            "shape" => fields.2 = Some(text.tuple()?),
            _ => return None,
        }
        if !text.eat(",") {
            text.eat("}").then_some(())?;
            break;
        }
    }
    text.0.trim().is_empty().then_some(fields)
}

/// The unparsed rest of a Python literal.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(token);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let quote = if self.eat("'") { '\'' } else { self.eat("\"").then_some('"')? };
        let (inside, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        Some(inside)
    }

    fn boolean(&mut self) -> Option<bool> {
        if self.eat("True") { Some(true) } else { self.eat("False").then_some(false) }
    }

    fn tuple(&mut self) -> Option<Dims> {
        self.eat("(").then_some(())?;
        let (inside, rest) = self.0.split_once(')')?;
        self.0 = rest;
        let sizes = inside.split(',').map(str::trim);
        sizes.filter(|size| !size.is_empty()).map(|size| size.trim_end_matches('L').parse().ok()).collect()
    }
}
