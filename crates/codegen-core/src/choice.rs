//! Choices of a codegen for a kernel, where several forms of its code give the same bits.

use std::fmt;
use std::sync::Arc;

/// A choice between forms of code that give the same bits, such as the block sizes of a matmul. It is one
/// word in a form that only its codegen reads. A kernel without a choice is compiled by heuristics.
///
/// The codegen checks the choice when it compiles the kernel, so that a choice from a file is never unsound.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelChoice(Arc<str>);

impl KernelChoice {
    /// A choice from its text; `None` unless the text consists of at least one printable ASCII character and
    /// has neither spaces nor `#`.
    pub fn new(text: &str) -> Option<KernelChoice> {
        let is_word = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        is_word.then(|| KernelChoice(text.into()))
    }

    /// The text, which only the codegen reads.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_words() {
        assert_eq!(KernelChoice::new("gemm0=in-place:rows").expect("a word").as_str(), "gemm0=in-place:rows");
        for text in ["", "two words", "comment#", "line\n", "µ"] {
            assert_eq!(KernelChoice::new(text), None, "{text:?}");
        }
    }
}
