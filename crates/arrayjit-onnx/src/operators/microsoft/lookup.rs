//! Rows of tables in blocks of few bits, which are dequantized where they are read.

use arrayjit_tensor::low_level::wrapped;
use tnode::{DType, HostArray};

use super::{blocks::computed, ms};
use crate::{
    error::{OnnxError, Result},
    extents::Extents,
    operators::{
        context::{Lowered, NodeContext},
        operator::Operator,
    },
    shape::{access, axis, letters},
    value::Value,
};

pub(in crate::operators) static OPERATORS: &[Operator] = &[ms("GatherBlockQuantized", gathered).sized()];

/// How the integers of a table are stored.
#[derive(Clone, Copy)]
struct Packing {
    bits: usize,
    /// The integers of an element, along the last axis.
    in_element: usize,
    /// The zero point of a table without zero points.
    zero: u32,
}

impl Packing {
    /// A file says of integers of 4 bits that they are, and of bytes it does not say what they hold.
    fn of(cx: &NodeContext<'_>, data: &Value) -> Result<Packing> {
        if cx.narrow(0).is_some() || data.dtype() != DType::U8 {
            return Ok(Packing { bits: 8, in_element: 1, zero: 0 });
        }
        match cx.int_or("bits", 4)? {
            bits @ (2 | 4 | 8) => {
                let bits = bits as usize;
                Ok(Packing { bits, in_element: 8 / bits, zero: 1 << (bits - 1) })
            }
            _ => Err(OnnxError::attribute("bits", "2, 4 or 8")),
        }
    }

    /// The integers of an array, one for each byte: `count` along the last axis.
    fn unpacked(&self, array: &HostArray, count: usize) -> Result<HostArray> {
        let (bits, mask) = (self.bits, u8::MAX >> (8 - self.bits));
        let mut shape = array.dims().to_vec();
        let width = shape.pop().unwrap_or(1);
        let row = |row: &[u8]| {
            let integer = |at: usize| row[at / self.in_element] >> (at % self.in_element * bits) & mask;
            (0..count).map(integer).collect::<Vec<u8>>()
        };
        let integers: Vec<u8> = array.bytes().chunks_exact(width.max(1)).flat_map(row).collect();
        shape.push(count);
        Ok(HostArray::from_bytes(array.dtype(), shape, &integers)?)
    }
}

/// The rows of a table at positions of an axis; the integers of a block along another axis share a scale and
/// a zero point.
fn gathered(cx: &mut NodeContext<'_>) -> Lowered {
    let (data, positions, scales) = (cx.value(0)?, cx.value(1)?, cx.value(2)?);
    let (packing, rank) = (Packing::of(cx, &data)?, data.rank());
    let [rows, blocked] = [("gather_axis", 0), ("quantize_axis", 1)].map(|(name, default)| {
        let given = cx.int_or(name, default)?;
        axis(given, rank).map_err(|_| OnnxError::attribute(name, format!("an axis of {rank}")))
    });
    let (rows, blocked, size, each) = (rows?, blocked?, cx.count("block_size", 128)?, packing.in_element);
    if rows == blocked || each > 1 && blocked + 1 != rank || !size.is_multiple_of(each) {
        let expected =
            "another axis than the gathered one, and of bytes the last one, in blocks of whole bytes";
        return Err(OnnxError::attribute("quantize_axis", expected));
    }
    let mut sizes = data.shape().to_vec();
    sizes[blocked] = sizes[blocked].checked_mul(each).ok_or_else(OnnxError::overflow)?;
    let (full, rest) = (sizes[blocked] / size, sizes[blocked] % size);
    let mut expected = sizes.clone();
    expected[blocked] = sizes[blocked].div_ceil(size);
    check_shape(2, &scales, &expected)?;
    let zeros = match cx.optional(3) {
        Some(zeros) => {
            let count = expected[blocked];
            expected[blocked] = count.div_ceil(each);
            check_shape(3, &zeros, &expected)?;
            expected[blocked] = count;
            Some(match each {
                1 => zeros,
                _ => computed(cx, &[zeros], &expected, move |arrays| packing.unpacked(arrays[0], count))?,
            })
        }
        None => None,
    };
    let (mut extents, dtype) = (Extents::from(&sizes), scales.dtype());
    extents.0.splice(rows..=rows, positions.extents().0);
    if extents.dims().contains(&0) {
        return Ok(vec![cx.empty(dtype, &extents.dims())?]);
    }
    let mut target = letters(extents.0.len());
    let behind = rows + positions.rank();
    let own = wrapped(&cx.bind_array(&positions)?.at(&target[rows..behind]), sizes[rows]);
    let mut index = [&target[..rows], &[own], &target[behind..]].concat();
    let written = if blocked < rows { blocked } else { blocked + positions.rank() - 1 };
    let (table, scale) = (cx.bind_array(&data)?, cx.bind_array(&scales)?);
    let zeros = zeros.map(|zeros| cx.bind_array(&zeros)).transpose()?;
    // Whole blocks, and the integers behind them.
    let mut statements = Vec::new();
    for (block, bytes, range) in [
        ("b".to_owned(), size / each, format!("b < {full}, ")),
        (full.to_string(), rest / each, String::new()),
    ] {
        if bytes == 0 || block == "b" && full == 0 {
            continue;
        }
        target[written] = format!("{size}*{block} + {each}*j + p");
        index[blocked].clone_from(&block);
        let factor = scale.at(&index);
        let zero = match &zeros {
            Some(zeros) => format!("i32({})", zeros.at(&index)),
            None => packing.zero.to_string(),
        };
        index[blocked] = format!("{}*{block} + j", size / each);
        let number = format!("i32({})", table.at(&index));
        let number = match each {
            1 => number,
            _ => format!("bit_and(shr({number}, {}*p), {})", packing.bits, (1 << packing.bits) - 1),
        };
        statements.push(format!(
            "{} += {dtype}(f32({number} - {zero}) * f32({factor})) where {range}j < {bytes}, p < {each}",
            access("y", &target)
        ));
    }
    let zero = format!("{} := 0", access("y", letters(extents.0.len())));
    statements.insert(0, zero);
    Ok(vec![cx.emit(dtype, &extents, &statements.join("\n"))?])
}

fn check_shape(at: usize, value: &Value, expected: &[usize]) -> Result<()> {
    match value.shape() == expected {
        true => Ok(()),
        false => {
            Err(OnnxError::operand(at, format!("expected the shape {expected:?}, found {:?}", value.shape())))
        }
    }
}
