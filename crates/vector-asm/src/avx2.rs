//! The instruction table of AVX2 with FMA3 and F16C, one line for each instruction.
//!
//! The *shape* of an instruction has one letter for each operand, the result first. `x` and `y` are registers
//! of 128 and 256 bits, in capitals if the operand may be in memory; `m` is memory; `i` is an 8-bit
//! immediate. AVX-512 has its own table for the same instructions ([`crate::avx512`]).

use iced_x86::Code;

/// Declares the instructions: name, encoding, shape, and whether the first two operands may be exchanged.
macro_rules! operations {
    ($($name:ident $code:ident $shape:literal $commutes:literal;)*) => {
        /// An instruction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum AvxOp {
            $($name,)*
        }

        impl AvxOp {
            /// The 256-bit or 128-bit VEX encoding.
            pub(crate) fn code(self) -> Code {
                match self { $(AvxOp::$name => Code::$code,)* }
            }

            /// The operands: one letter for each, the result first.
            pub(crate) fn shape(self) -> &'static str {
                match self { $(AvxOp::$name => $shape,)* }
            }

            /// Whether its first two operands may be exchanged.
            pub(crate) fn commutes(self) -> bool {
                match self { $(AvxOp::$name => $commutes,)* }
            }
        }
    };
}

operations! {
    AddF32 VEX_Vaddps_ymm_ymm_ymmm256 "yyY" true;
    AddF64 VEX_Vaddpd_ymm_ymm_ymmm256 "yyY" true;
    SubF32 VEX_Vsubps_ymm_ymm_ymmm256 "yyY" false;
    SubF64 VEX_Vsubpd_ymm_ymm_ymmm256 "yyY" false;
    MulF32 VEX_Vmulps_ymm_ymm_ymmm256 "yyY" true;
    MulF64 VEX_Vmulpd_ymm_ymm_ymmm256 "yyY" true;
    DivF32 VEX_Vdivps_ymm_ymm_ymmm256 "yyY" false;
    DivF64 VEX_Vdivpd_ymm_ymm_ymmm256 "yyY" false;
    MaxF32 VEX_Vmaxps_ymm_ymm_ymmm256 "yyY" false;
    MaxF64 VEX_Vmaxpd_ymm_ymm_ymmm256 "yyY" false;
    MinF32 VEX_Vminps_ymm_ymm_ymmm256 "yyY" false;
    MinF64 VEX_Vminpd_ymm_ymm_ymmm256 "yyY" false;
    SqrtF32 VEX_Vsqrtps_ymm_ymmm256 "yY" false;
    SqrtF64 VEX_Vsqrtpd_ymm_ymmm256 "yY" false;
    RoundF32 VEX_Vroundps_ymm_ymmm256_imm8 "yYi" false;
    RoundF64 VEX_Vroundpd_ymm_ymmm256_imm8 "yYi" false;
    CmpF32 VEX_Vcmpps_ymm_ymm_ymmm256_imm8 "yyYi" false;
    CmpF64 VEX_Vcmppd_ymm_ymm_ymmm256_imm8 "yyYi" false;
    FmaF32 VEX_Vfmadd231ps_ymm_ymm_ymmm256 "fma" false;
    FmaF64 VEX_Vfmadd231pd_ymm_ymm_ymmm256 "fma" false;
    FnmaF32 VEX_Vfnmadd231ps_ymm_ymm_ymmm256 "fma" false;
    FnmaF64 VEX_Vfnmadd231pd_ymm_ymm_ymmm256 "fma" false;
    FmsF32 VEX_Vfmsub231ps_ymm_ymm_ymmm256 "fma" false;
    FmsF64 VEX_Vfmsub231pd_ymm_ymm_ymmm256 "fma" false;
    FnmsF32 VEX_Vfnmsub231ps_ymm_ymm_ymmm256 "fma" false;
    FnmsF64 VEX_Vfnmsub231pd_ymm_ymm_ymmm256 "fma" false;
    AndF VEX_Vandps_ymm_ymm_ymmm256 "yyY" true;
    AndNotF VEX_Vandnps_ymm_ymm_ymmm256 "yyY" false;
    XorF VEX_Vxorps_ymm_ymm_ymmm256 "yyY" true;
    And VEX_Vpand_ymm_ymm_ymmm256 "yyY" true;
    Or VEX_Vpor_ymm_ymm_ymmm256 "yyY" true;
    Xor VEX_Vpxor_ymm_ymm_ymmm256 "yyY" true;
    BlendV VEX_Vblendvps_ymm_ymm_ymmm256_ymm "yyYy" false;
    Blend VEX_Vblendps_ymm_ymm_ymmm256_imm8 "yyYi" false;
    AddI32 VEX_Vpaddd_ymm_ymm_ymmm256 "yyY" true;
    AddI64 VEX_Vpaddq_ymm_ymm_ymmm256 "yyY" true;
    SubI32 VEX_Vpsubd_ymm_ymm_ymmm256 "yyY" false;
    SubI64 VEX_Vpsubq_ymm_ymm_ymmm256 "yyY" false;
    MulI32 VEX_Vpmulld_ymm_ymm_ymmm256 "yyY" true;
    MulLow VEX_Vpmuludq_ymm_ymm_ymmm256 "yyY" true;
    MaxI32 VEX_Vpmaxsd_ymm_ymm_ymmm256 "yyY" true;
    MaxU32 VEX_Vpmaxud_ymm_ymm_ymmm256 "yyY" true;
    MinI32 VEX_Vpminsd_ymm_ymm_ymmm256 "yyY" true;
    MinU32 VEX_Vpminud_ymm_ymm_ymmm256 "yyY" true;
    AbsI32 VEX_Vpabsd_ymm_ymmm256 "yY" false;
    EqI32 VEX_Vpcmpeqd_ymm_ymm_ymmm256 "yyY" true;
    EqI64 VEX_Vpcmpeqq_ymm_ymm_ymmm256 "yyY" true;
    GtI32 VEX_Vpcmpgtd_ymm_ymm_ymmm256 "yyY" false;
    GtI64 VEX_Vpcmpgtq_ymm_ymm_ymmm256 "yyY" false;
    ShlV32 VEX_Vpsllvd_ymm_ymm_ymmm256 "yyY" false;
    ShlV64 VEX_Vpsllvq_ymm_ymm_ymmm256 "yyY" false;
    ShrV32 VEX_Vpsrlvd_ymm_ymm_ymmm256 "yyY" false;
    ShrV64 VEX_Vpsrlvq_ymm_ymm_ymmm256 "yyY" false;
    SarV32 VEX_Vpsravd_ymm_ymm_ymmm256 "yyY" false;
    Shl32 VEX_Vpslld_ymm_ymm_imm8 "yyi" false;
    Shl64 VEX_Vpsllq_ymm_ymm_imm8 "yyi" false;
    Shr32 VEX_Vpsrld_ymm_ymm_imm8 "yyi" false;
    Shr64 VEX_Vpsrlq_ymm_ymm_imm8 "yyi" false;
    Sar32 VEX_Vpsrad_ymm_ymm_imm8 "yyi" false;
    I32ToF32 VEX_Vcvtdq2ps_ymm_ymmm256 "yY" false;
    F32ToI32 VEX_Vcvttps2dq_ymm_ymmm256 "yY" false;
    F32ToF64 VEX_Vcvtps2pd_ymm_xmmm128 "yX" false;
    F64ToF32 VEX_Vcvtpd2ps_xmm_ymmm256 "xY" false;
    I32ToF64 VEX_Vcvtdq2pd_ymm_xmmm128 "yX" false;
    F64ToI32 VEX_Vcvttpd2dq_xmm_ymmm256 "xY" false;
    ExtendI32 VEX_Vpmovsxdq_ymm_xmmm128 "yX" false;
    ExtendU32 VEX_Vpmovzxdq_ymm_xmmm128 "yX" false;
    ExtendU8 VEX_Vpmovzxbd_ymm_xmmm64 "yX" false;
    ExtendI8 VEX_Vpmovsxbd_ymm_xmmm64 "yX" false;
    ExtendU16 VEX_Vpmovzxwd_ymm_xmmm128 "yX" false;
    ExtendI16 VEX_Vpmovsxwd_ymm_xmmm128 "yX" false;
    F16ToF32 VEX_Vcvtph2ps_ymm_xmmm128 "yX" false;
    F32ToF16 VEX_Vcvtps2ph_xmmm128_ymm_imm8 "xyi" false;
    Load VEX_Vmovups_ymm_ymmm256 "ym" false;
    Store VEX_Vmovups_ymmm256_ymm "my" false;
    StoreStreaming VEX_Vmovntps_m256_ymm "my" false;
    LoadMasked VEX_Vmaskmovps_ymm_ymm_m256 "yym" false;
    StoreMasked VEX_Vmaskmovps_m256_ymm_ymm "myy" false;
    Load256 VEX_Vmovups_ymm_ymmm256 "ym" false;
    Load128 VEX_Vmovups_xmm_xmmm128 "xm" false;
    Store128 VEX_Vmovups_xmmm128_xmm "mx" false;
    Load64 VEX_Vmovq_xmm_xmmm64 "xm" false;
    Store64 VEX_Vmovq_xmmm64_xmm "mx" false;
    Load32 VEX_Vmovd_xmm_rm32 "xm" false;
    Store32 VEX_Vmovd_rm32_xmm "mx" false;
    LoadAll32 VEX_Vbroadcastss_ymm_m32 "ym" false;
    LoadAll64 VEX_Vbroadcastsd_ymm_m64 "ym" false;
    LoadAll16 VEX_Vpbroadcastw_xmm_xmmm16 "xm" false;
    LoadAll8 VEX_Vpbroadcastb_xmm_xmmm8 "xm" false;
    All32 VEX_Vbroadcastss_ymm_xmm "yx" false;
    All64 VEX_Vbroadcastsd_ymm_xmm "yx" false;
    Insert64 VEX_Vpinsrq_xmm_xmm_rm64_imm8 "xxmi" false;
    Insert32 VEX_Vpinsrd_xmm_xmm_rm32_imm8 "xxmi" false;
    Insert16 VEX_Vpinsrw_xmm_xmm_r32m16_imm8 "xxmi" false;
    Insert8 VEX_Vpinsrb_xmm_xmm_r32m8_imm8 "xxmi" false;
    Extract64 VEX_Vpextrq_rm64_xmm_imm8 "mxi" false;
    Extract32 VEX_Vpextrd_rm32_xmm_imm8 "mxi" false;
    Extract16 VEX_Vpextrw_r32m16_xmm_imm8 "mxi" false;
    Extract8 VEX_Vpextrb_r32m8_xmm_imm8 "mxi" false;
    InsertHigh VEX_Vinsertf128_ymm_ymm_xmmm128_imm8 "yyXi" false;
    ExtractHigh VEX_Vextractf128_xmmm128_ymm_imm8 "xyi" false;
    StoreHigh VEX_Vextractf128_xmmm128_ymm_imm8 "myi" false;
    InsertHalf VEX_Vinsertf128_ymm_ymm_xmmm128_imm8 "yyXi" false;
    ExtractHalf VEX_Vextractf128_xmmm128_ymm_imm8 "xyi" false;
    PackU8 INVALID "xy" false;
    PackU16 INVALID "xy" false;
    Permute VEX_Vpermps_ymm_ymm_ymmm256 "yyY" false;
    PermuteInLane VEX_Vpermilps_ymm_ymmm256_imm8 "yYi" false;
    PermuteHalves VEX_Vperm2f128_ymm_ymm_ymmm256_imm8 "yyYi" false;
    Permute64 VEX_Vpermpd_ymm_ymmm256_imm8 "yYi" false;
    UnpackLow32 VEX_Vunpcklps_ymm_ymm_ymmm256 "yyY" false;
    UnpackHigh32 VEX_Vunpckhps_ymm_ymm_ymmm256 "yyY" false;
    UnpackLow64 VEX_Vunpcklpd_ymm_ymm_ymmm256 "yyY" false;
    UnpackHigh64 VEX_Vunpckhpd_ymm_ymm_ymmm256 "yyY" false;
    Shuffle32 VEX_Vshufps_ymm_ymm_ymmm256_imm8 "yyYi" false;
    ShuffleBytes VEX_Vpshufb_ymm_ymm_ymmm256 "yyY" false;
    Integer VEX_Vmovq_xmm_rm64 "integer" false;
    Copy VEX_Vmovaps_ymm_ymmm256 "yY" false;
    Prefetch Prefetcht0_m8 "m" false;
}

/// The shape of fused multiply-adds, which have three encodings.
pub(crate) const FMA: &str = "fma";
/// The shape of [`AvxOp::Integer`], which moves the integer of a stream to a vector register.
pub(crate) const INTEGER: &str = "integer";

/// The three encodings of a fused multiply-add `a · b + c`: 132 (the result replaces `a`, and `b` may be in
/// memory), 213 (the result replaces `a`, and `c` may be in memory), and 231 (the result replaces `c`).
pub(crate) fn fma_codes(op: AvxOp) -> [Code; 3] {
    match op {
        AvxOp::FmaF32 => [
            Code::VEX_Vfmadd132ps_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd213ps_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd231ps_ymm_ymm_ymmm256,
        ],
        AvxOp::FmaF64 => [
            Code::VEX_Vfmadd132pd_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd213pd_ymm_ymm_ymmm256,
            Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256,
        ],
        AvxOp::FnmaF32 => [
            Code::VEX_Vfnmadd132ps_ymm_ymm_ymmm256,
            Code::VEX_Vfnmadd213ps_ymm_ymm_ymmm256,
            Code::VEX_Vfnmadd231ps_ymm_ymm_ymmm256,
        ],
        AvxOp::FnmaF64 => [
            Code::VEX_Vfnmadd132pd_ymm_ymm_ymmm256,
            Code::VEX_Vfnmadd213pd_ymm_ymm_ymmm256,
            Code::VEX_Vfnmadd231pd_ymm_ymm_ymmm256,
        ],
        AvxOp::FmsF32 => [
            Code::VEX_Vfmsub132ps_ymm_ymm_ymmm256,
            Code::VEX_Vfmsub213ps_ymm_ymm_ymmm256,
            Code::VEX_Vfmsub231ps_ymm_ymm_ymmm256,
        ],
        AvxOp::FmsF64 => [
            Code::VEX_Vfmsub132pd_ymm_ymm_ymmm256,
            Code::VEX_Vfmsub213pd_ymm_ymm_ymmm256,
            Code::VEX_Vfmsub231pd_ymm_ymm_ymmm256,
        ],
        AvxOp::FnmsF32 => [
            Code::VEX_Vfnmsub132ps_ymm_ymm_ymmm256,
            Code::VEX_Vfnmsub213ps_ymm_ymm_ymmm256,
            Code::VEX_Vfnmsub231ps_ymm_ymm_ymmm256,
        ],
        _ => [
            Code::VEX_Vfnmsub132pd_ymm_ymm_ymmm256,
            Code::VEX_Vfnmsub213pd_ymm_ymm_ymmm256,
            Code::VEX_Vfnmsub231pd_ymm_ymm_ymmm256,
        ],
    }
}

impl AvxOp {
    /// The source that may be in memory, by its position among the sources.
    pub(crate) fn memory_source(self) -> Option<usize> {
        match self.shape() {
            FMA => Some(1),
            shape => shape.bytes().position(|c| c.is_ascii_uppercase()).map(|operand| operand - 1),
        }
    }

    /// Whether the instruction is a plain load.
    pub(crate) fn is_load(self) -> bool {
        use AvxOp::{
            Load, Load32, Load64, Load128, Load256, LoadAll8, LoadAll16, LoadAll32, LoadAll64, LoadMasked,
        };
        matches!(
            self,
            Load | Load256
                | LoadMasked
                | Load128
                | Load64
                | Load32
                | LoadAll32
                | LoadAll64
                | LoadAll16
                | LoadAll8
        )
    }
}
