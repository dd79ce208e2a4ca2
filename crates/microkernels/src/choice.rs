//! Choices of packing and block sizes by a caller, as data and as text.
//!
//! Every choice that fits a problem gives the same bits, because each accumulator adds its products in
//! ascending order of K however the dimensions are cut. A choice is checked when a plan is made with it, so a
//! choice from a file cannot make a plan that leaves its memory.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a plan accesses its operands, and the sizes of its blocks: MC rows, KC positions along K, NC columns.
///
/// As text: `in-place:rows`, `in-place:columns`, `whole-a:kc=256,nc=64`, `blocks:mc=96,kc=256,nc=2048`,
/// `blocks-of-a:mc=96,kc=256,nc=2048`, `blocks-of-b:mc=96,kc=256,nc=2048` or
/// `blocks-in-place:mc=96,kc=256,nc=2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlockingChoice {
    /// Microkernels read both operands in place.
    InPlace {
        /// Whether the loop over rows is the outer one.
        rows_outer: bool,
    },
    /// A is packed whole, and blocks of B.
    WholeA {
        /// Extent of a block along K.
        kc: u32,
        /// Columns of a block.
        nc: u32,
    },
    /// The loops run over blocks.
    Blocks {
        /// The operands whose blocks are packed.
        packed: PackedBlocks,
        /// Rows of a block.
        mc: u32,
        /// Extent of a block along K.
        kc: u32,
        /// Columns of a block.
        nc: u32,
    },
}

/// The operands whose blocks are packed. Microkernels read the others in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum PackedBlocks {
    /// A and B.
    Both,
    /// A alone.
    OnlyA,
    /// B alone.
    OnlyB,
    /// Neither A nor B.
    Neither,
}

/// Why a plan cannot be made with a choice.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ChoiceError {
    /// The text is no choice.
    #[error("`{text}` is no choice of packing and blocks; one is `blocks:mc=96,kc=256,nc=2048`")]
    Text { text: String },
    /// Microkernels cannot read an operand in place.
    #[error("operand {operand} cannot be read in place")]
    NotInPlace { operand: char },
    /// The product is computed with its operands exchanged, for which the loops run over blocks.
    #[error("a transposed product has the choice `{found}`, expected one of blocks")]
    Transposed { found: BlockingChoice },
    /// The product is one of integers, which has no choices.
    #[error("a product of integers has the choice `{found}`, expected none")]
    Integers { found: BlockingChoice },
    /// The size of a block is impossible.
    #[error("the block size {name} is {found}, expected {expected}")]
    Size { name: &'static str, found: u32, expected: String },
    /// Packed operands need more memory than a plan may have; `usize::MAX` bytes if there are more than
    /// addresses.
    #[error("packed operands take {bytes} bytes, expected at most {most}")]
    Memory { bytes: usize, most: usize },
}

impl fmt::Display for BlockingChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BlockingChoice::InPlace { rows_outer: true } => f.write_str("in-place:rows"),
            BlockingChoice::InPlace { rows_outer: false } => f.write_str("in-place:columns"),
            BlockingChoice::WholeA { kc, nc } => write!(f, "whole-a:kc={kc},nc={nc}"),
            BlockingChoice::Blocks { packed, mc, kc, nc } => {
                let name = match packed {
                    PackedBlocks::Both => "blocks",
                    PackedBlocks::OnlyA => "blocks-of-a",
                    PackedBlocks::OnlyB => "blocks-of-b",
                    PackedBlocks::Neither => "blocks-in-place",
                };
                write!(f, "{name}:mc={mc},kc={kc},nc={nc}")
            }
        }
    }
}

impl FromStr for BlockingChoice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<BlockingChoice, ChoiceError> {
        parse(text).ok_or_else(|| ChoiceError::Text { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<BlockingChoice> {
    let (packing, rest) = text.split_once(':')?;
    let sizes = |names: &[&str]| -> Option<Vec<u32>> {
        let mut parts = rest.split(',');
        let sizes =
            names.iter().map(|name| parts.next()?.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
        let sizes = sizes.collect::<Option<Vec<u32>>>()?;
        parts.next().is_none().then_some(sizes)
    };
    let blocks = |packed| {
        let sizes = sizes(&["mc", "kc", "nc"])?;
        Some(BlockingChoice::Blocks { packed, mc: sizes[0], kc: sizes[1], nc: sizes[2] })
    };
    match packing {
        "in-place" if rest == "rows" => Some(BlockingChoice::InPlace { rows_outer: true }),
        "in-place" if rest == "columns" => Some(BlockingChoice::InPlace { rows_outer: false }),
        "whole-a" => {
            let sizes = sizes(&["kc", "nc"])?;
            Some(BlockingChoice::WholeA { kc: sizes[0], nc: sizes[1] })
        }
        "blocks" => blocks(PackedBlocks::Both),
        "blocks-of-a" => blocks(PackedBlocks::OnlyA),
        "blocks-of-b" => blocks(PackedBlocks::OnlyB),
        "blocks-in-place" => blocks(PackedBlocks::Neither),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_read_as_they_are_written() {
        let choices = [
            BlockingChoice::InPlace { rows_outer: true },
            BlockingChoice::InPlace { rows_outer: false },
            BlockingChoice::WholeA { kc: 1, nc: 16 },
            BlockingChoice::Blocks { packed: PackedBlocks::Both, mc: 6, kc: 2, nc: 32 },
            BlockingChoice::Blocks { packed: PackedBlocks::OnlyA, mc: 14, kc: 4, nc: 64 },
            BlockingChoice::Blocks { packed: PackedBlocks::OnlyB, mc: 12, kc: u32::MAX, nc: 48 },
            BlockingChoice::Blocks { packed: PackedBlocks::Neither, mc: 6, kc: 3, nc: 16 },
        ];
        for choice in choices {
            assert_eq!(choice.to_string().parse(), Ok(choice));
        }
    }

    #[test]
    fn other_texts_are_errors_that_quote_them() {
        let texts = [
            "",
            "blocks",
            "in-place:",
            "in-place:rows,",
            "whole-a:kc=1",
            "whole-a:kc=1,nc=2,nc=3",
            "whole-a:nc=1,kc=2",
            "whole-a:kc=1,nc=-2",
            "blocks:mc=1,kc=4294967296,nc=3",
            "tiles:kc=1",
        ];
        for text in texts {
            let error = text.parse::<BlockingChoice>().expect_err(text);
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }
}
