//! The values of settings that are names.

use serde::{Deserialize, Serialize};

/// The numeric class of routines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NumericClass {
    /// [`lowered_ir::ir::Numerics::Strict`]: as written, without fma.
    Strict,
    /// [`lowered_ir::ir::Numerics::Fast`].
    #[default]
    Fast,
    /// `Fast`, simplified by the equations of real numbers too: constants are re-associated and `0 * x` is 0,
    /// even where that changes rounding, NaN or infinities.
    Real,
}

/// Which backend runs kernels that a code generator rejects. A backend does not fall back to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackSetting {
    /// For GPUs the backend `multicore`, or `interpreter` in builds without native code; no fallback for
    /// CPUs.
    #[default]
    Auto,
    /// The backend `multicore`.
    Multicore,
    /// The backend `inline`.
    Inline,
    /// The backend `interpreter`.
    Interpreter,
    /// None: a rejected kernel is a compile error.
    None,
}

impl FallbackSetting {
    /// The name of the fallback backend of the backend `from`, if it has one.
    pub(crate) fn backend(self, from: &str, from_gpu: bool) -> Option<&'static str> {
        let to = match self {
            FallbackSetting::Auto if from_gpu && cfg!(feature = "cranelift") => "multicore",
            FallbackSetting::Auto if from_gpu => "interpreter",
            FallbackSetting::Multicore => "multicore",
            FallbackSetting::Inline => "inline",
            FallbackSetting::Interpreter => "interpreter",
            FallbackSetting::Auto | FallbackSetting::None => return None,
        };
        (to != from).then_some(to)
    }

    /// The name of a backend that can be the fallback of the backend `from`: `multicore`, but `interpreter`
    /// for backends that reject the same statements as `multicore`, and in builds without native code. What
    /// `arrayjit-aot` and `ptx_text` compile runs without any backend.
    pub(crate) fn suggestion(from: &str) -> Option<&'static str> {
        match from {
            "interpreter" | "aot" | "ptx" => None,
            "multicore" | "inline" => Some("interpreter"),
            _ if cfg!(feature = "cranelift") => Some("multicore"),
            _ => Some("interpreter"),
        }
    }
}

/// Which of a device's tensor-core instructions are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorCoreSetting {
    /// No tensor-core instructions.
    Off,
    /// Instructions of single warps (`mma`), from compute capability 8.0 on.
    Warps,
    /// The fastest ones of the device: on Hopper, instructions of four warps together (`wgmma`).
    #[default]
    Auto,
}

/// How many streams a device suggests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuggestedStreams {
    /// One.
    OnlyDevicesParallel,
    /// Enough that copies overlap with computation.
    ForParallelCopying,
    /// As many as can compute at once.
    #[default]
    MostParallelStreams,
}

/// The widest vectors of CPU code. All widths give the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum VectorSetting {
    /// The machine's widest vectors of at most 256 bits, or of 512 bits for code that is faster with them.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Scalar code.
    #[serde(rename = "none")]
    None,
    /// 128-bit vectors.
    #[serde(rename = "128")]
    Bits128,
    /// The 128-bit vectors of ARM64. An error on other machines.
    #[serde(rename = "neon")]
    Neon,
    /// 256-bit vectors. An error on machines without AVX2.
    #[serde(rename = "avx2")]
    Avx2,
    /// 256-bit vectors, and 512-bit vectors for convolutions and for kernels of much arithmetic. An error on
    /// machines without AVX-512.
    #[serde(rename = "mixed")]
    Mixed,
    /// 512-bit vectors, and products of 8-bit integers by AMX if Linux permits it, which is not used with
    /// narrower vectors. An error on machines without AVX-512.
    #[serde(rename = "avx512")]
    Avx512,
}
