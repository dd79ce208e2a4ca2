//! The arrays of quantized weights: their sizes, and how a statement reads a weight from them.

use arrayjit::DType;

use super::BlockFormat;
use crate::{
    error::{Result, misfit},
    shape::access,
};

/// Outputs that stand side by side in memory: the lanes of four vectors of 512 bits, so that a product of one
/// row has as many sums at once as hide the latency of additions.
pub(super) const PANEL: usize = 64;

/// The sizes of quantized weights and the storage of their scales, which determine the shapes of their
/// arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizedFormat {
    outputs: usize,
    inputs: usize,
    block: usize,
    bits: usize,
    scales: BlockScales,
}

/// How the scales and offsets of blocks are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockScales {
    /// The type of the stored floats.
    pub(super) float: DType,
    /// The integer that stands for 0; offsets are stored if there is none. Integers of 8 bits are stored with
    /// it subtracted, as signed bytes.
    pub(super) zero: Option<u8>,
    /// The number of blocks that share a float, each with a factor of 8 bits; 1 if each has its own float.
    pub(super) shared_by: usize,
}

/// The name, the element type and the shape of an array of quantized weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizedArray {
    /// `integers`, `scales`, `offsets`, `shared_scales` or `shared_offsets`.
    pub name: &'static str,
    /// The type of the elements.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<usize>,
}

impl QuantizedArray {
    /// The elements of an output.
    pub(super) fn columns(&self) -> usize {
        self.shape[1..self.shape.len() - 1].iter().product()
    }
}

impl QuantizedFormat {
    /// Outputs that stand side by side in memory.
    pub const PANEL_OUTPUTS: usize = PANEL;

    /// Weights of shape `[outputs, inputs]`, as integers of `bits` bits in blocks of `block` inputs, each
    /// with a scale and an offset in f32. The last block of an output may be partly used.
    ///
    /// # Errors
    /// A size of 0, another number of bits than 4 or 8, or a block of an odd size with 4 bits.
    pub fn new(sizes: [usize; 2], block: usize, bits: usize) -> Result<QuantizedFormat> {
        let scales = BlockScales { float: DType::F32, zero: None, shared_by: 1 };
        QuantizedFormat::checked(sizes, block, bits, scales)
    }

    /// Weights of shape `[outputs, inputs]` with the integers, scales and offsets of a block format.
    ///
    /// # Errors
    /// A size of 0, or inputs that are no whole number of blocks.
    pub fn of_blocks(format: BlockFormat, sizes: [usize; 2]) -> Result<QuantizedFormat> {
        let weights = format.block_weights();
        if !sizes[1].is_multiple_of(weights) {
            return Err(misfit("inputs", sizes[1], format!("a multiple of {weights}")));
        }
        QuantizedFormat::checked(sizes, format.part_weights(), format.bits(), format.scales())
    }

    fn checked(
        [outputs, inputs]: [usize; 2],
        block: usize,
        bits: usize,
        scales: BlockScales,
    ) -> Result<QuantizedFormat> {
        if !matches!(bits, 4 | 8) {
            return Err(misfit("bits", bits, "4 or 8"));
        }
        if block == 0 || block > 1 << 16 || bits == 4 && !block.is_multiple_of(2) {
            return Err(misfit("block", block, "a size of at most 65536, which is even with 4 bits"));
        }
        if outputs == 0 || inputs == 0 {
            return Err(misfit("size", 0, "at least one output and one input"));
        }
        Ok(QuantizedFormat { outputs, inputs, block, bits, scales })
    }

    /// The rows of the weights.
    pub fn outputs(self) -> usize {
        self.outputs
    }

    /// The columns of the weights.
    pub fn inputs(self) -> usize {
        self.inputs
    }

    /// The inputs of a block.
    pub(super) fn block(self) -> usize {
        self.block
    }

    /// The blocks of an output.
    pub fn blocks(self) -> usize {
        self.inputs.div_ceil(self.block)
    }

    /// The number of inputs, rounded up to whole blocks.
    pub(super) fn padded_inputs(self) -> usize {
        self.blocks() * self.block
    }

    /// The groups of [`PANEL`] outputs.
    pub(super) fn panels(self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    /// Integers of a byte.
    pub(super) fn per_byte(self) -> usize {
        8 / self.bits
    }

    /// The bits of an integer.
    pub(super) fn bits(self) -> usize {
        self.bits
    }

    /// The bits that an integer may have.
    pub(super) fn mask(self) -> u8 {
        u8::MAX >> (8 - self.bits)
    }

    /// Whether products of one row add up the integers of a block before they multiply by its scale.
    pub(super) fn sums_blocks(self) -> bool {
        self.scales.float != DType::F32
    }

    /// The zero of integers that are stored without it, which are signed.
    pub(super) fn subtracted(self) -> Option<u8> {
        self.scales.zero.filter(|_| self.bits == 8)
    }

    /// The arrays in the order in which operations take them. The last axis has one element for each of 64
    /// outputs.
    pub fn arrays(self) -> Vec<QuantizedArray> {
        let BlockScales { float, zero, shared_by } = self.scales;
        let has_offsets = zero.is_none();
        let of_blocks = if shared_by == 1 { float } else { DType::I8 };
        let table = |name, dtype, columns: &[usize]| {
            let shape = [self.panels()].iter().chain(columns).chain(&[PANEL]).copied().collect();
            QuantizedArray { name, dtype, shape }
        };
        let integers = if self.subtracted().is_some() { DType::I8 } else { DType::U8 };
        let mut arrays = vec![table("integers", integers, &[self.blocks(), self.block / self.per_byte()])];
        arrays.push(table("scales", of_blocks, &[self.blocks()]));
        arrays.extend(has_offsets.then(|| table("offsets", of_blocks, &[self.blocks()])));
        if shared_by > 1 {
            let groups = self.blocks() / shared_by;
            arrays.push(table("shared_scales", float, &[groups]));
            arrays.extend(has_offsets.then(|| table("shared_offsets", float, &[groups])));
        }
        arrays
    }

    /// The expressions that read a weight in a statement, by the indices of its panel and lane. `suffix`
    /// stands behind the name of each array.
    pub(super) fn reads(self, suffix: &str, panel: &str, lane: &str) -> WeightReads {
        let BlockScales { zero, shared_by, .. } = self.scales;
        let (block, block_at, mut ranges) = match shared_by {
            1 => ("block".to_owned(), vec!["block"], vec![]),
            _ => {
                let block = format!("{shared_by}*group + part");
                (block, vec!["group", "part"], vec![format!("part < {shared_by}")])
            }
        };
        let at = |name: &str, columns: &[&str]| {
            access(&format!("{name}{suffix}"), [panel].iter().chain(columns).chain(&[lane]))
        };
        let factor = |name: &str, shared: &str| match shared_by {
            1 => format!("f32({})", at(name, &[&block])),
            _ => format!("f32({}) * f32({})", at(shared, &["group"]), at(name, &[&block])),
        };
        let byte = format!("i32({})", at("integers", &[&block, "byte"]));
        let (integer, in_block) = match self.bits {
            4 => {
                ranges.push("half < 2".into());
                (format!("bit_and(shr({byte}, 4 * half), 15)"), "2*byte + half")
            }
            _ => (byte, "byte"),
        };
        let groups = format!("{} < {}", block_at[0], self.blocks() / shared_by);
        let bytes = format!("byte < {}", self.block / self.per_byte());
        let all_ranges = [groups, bytes].iter().chain(&ranges).cloned().collect::<Vec<_>>().join(", ");
        WeightReads {
            input: match shared_by {
                1 => format!("{}*block + {in_block}", self.block),
                _ => format!("{}*group + {}*part + {in_block}", self.block * shared_by, self.block),
            },
            integer: match zero.filter(|_| self.subtracted().is_none()) {
                Some(zero) => format!("f32({integer} - {zero})"),
                None => format!("f32({integer})"),
            },
            block: block_at,
            scale: factor("scales", "shared_scales"),
            offset: zero.is_none().then(|| factor("offsets", "shared_offsets")),
            ranges: if ranges.is_empty() { String::new() } else { format!(" where {}", ranges.join(", ")) },
            all_ranges: format!(" where {all_ranges}"),
        }
    }
}

/// The parts of a statement that reads weights.
pub(super) struct WeightReads {
    /// The position among the inputs.
    pub(super) input: String,
    /// The integer minus the one that stands for 0.
    pub(super) integer: String,
    /// The indices of a block.
    pub(super) block: Vec<&'static str>,
    pub(super) scale: String,
    pub(super) offset: Option<String>,
    /// The ranges of indices that no array determines, as the end of the statement.
    pub(super) ranges: String,
    /// The ranges of the indices of blocks and in blocks, as the end of a statement without arrays.
    pub(super) all_ranges: String,
}

impl WeightReads {
    /// The expression of the weight as a number, which rounds once.
    pub(super) fn weight(&self) -> String {
        match &self.offset {
            None => format!("{} * ({})", self.integer, self.scale),
            Some(offset) => format!("fma({}, {}, {offset})", self.integer, self.scale),
        }
    }
}
