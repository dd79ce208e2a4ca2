//! The instruction table of AVX-512 (F, BW, DQ and VL). All instructions are EVEX-encoded, so that they can
//! name 32 registers.
//!
//! Masks are vectors here as in AVX2, so that both instruction sets share the lowering. A mask register
//! operand is computed from a vector just before the instruction, and a mask register result is expanded to a
//! vector just after it. Shapes are those of AVX2 with `z` for 512 bits. In addition, `kd…` and `kq…` compare
//! into a mask register, which is expanded to lanes of 32 or 64 bits; `blendv`, `blend`, `loadk` and `storek`
//! read a mask register, computed from a vector or an immediate.
//!
//! Tests decode this code everywhere, and run it on processors that have the instructions.

use iced_x86::Code;

use crate::avx2::{AvxOp, FMA, INTEGER};

/// The encoding and the shape of an instruction. Instructions that only the lowering for AVX2 uses have no
/// encoding.
pub(crate) fn encoding(op: AvxOp) -> (Code, &'static str) {
    match op {
        AvxOp::FmaF32 | AvxOp::FmaF64 | AvxOp::FnmaF32 | AvxOp::FnmaF64 => (Code::INVALID, FMA),
        AvxOp::FmsF32 | AvxOp::FmsF64 | AvxOp::FnmsF32 | AvxOp::FnmsF64 => (Code::INVALID, FMA),
        AvxOp::Integer => (Code::EVEX_Vmovq_xmm_rm64, INTEGER),
        AvxOp::Prefetch => (Code::Prefetcht0_m8, "m"),
        AvxOp::AddF32 => (Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        AvxOp::AddF64 => (Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        AvxOp::SubF32 => (Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        AvxOp::SubF64 => (Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        AvxOp::MulF32 => (Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        AvxOp::MulF64 => (Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        AvxOp::DivF32 => (Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        AvxOp::DivF64 => (Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        AvxOp::MaxF32 => (Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae, "zzZ"),
        AvxOp::MaxF64 => (Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae, "zzZ"),
        AvxOp::MinF32 => (Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, "zzZ"),
        AvxOp::MinF64 => (Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae, "zzZ"),
        AvxOp::SqrtF32 => (Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, "zZ"),
        AvxOp::RoundF32 => (Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, "zZi"),
        AvxOp::CmpF32 => (Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, "kdzZi"),
        AvxOp::SqrtF64 => (Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, "zZ"),
        AvxOp::RoundF64 => (Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae, "zZi"),
        AvxOp::CmpF64 => (Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, "kqzZi"),
        AvxOp::AndF => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::AndNotF => (Code::EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::XorF => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::And => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::Or => (Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::Xor => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::AddI32 => (Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::SubI32 => (Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::MulI32 => (Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::MaxI32 => (Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::MaxU32 => (Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::MinI32 => (Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::MinU32 => (Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::ShlV32 => (Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::ShrV32 => (Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::SarV32 => (Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::AddI64 => (Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        AvxOp::SubI64 => (Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        AvxOp::MulLow => (Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        AvxOp::ShlV64 => (Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        AvxOp::ShrV64 => (Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        AvxOp::BlendV => (Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32, "blendv"),
        AvxOp::Blend => (Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32, "blend"),
        AvxOp::AbsI32 => (Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32, "zZ"),
        AvxOp::EqI32 => (Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32, "kdzZ"),
        AvxOp::EqI64 => (Code::EVEX_Vpcmpeqq_kr_k1_zmm_zmmm512b64, "kqzZ"),
        AvxOp::GtI32 => (Code::EVEX_Vpcmpgtd_kr_k1_zmm_zmmm512b32, "kdzZ"),
        AvxOp::GtI64 => (Code::EVEX_Vpcmpgtq_kr_k1_zmm_zmmm512b64, "kqzZ"),
        AvxOp::Shl32 => (Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, "zzi"),
        AvxOp::Shl64 => (Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, "zzi"),
        AvxOp::Shr32 => (Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, "zzi"),
        AvxOp::Shr64 => (Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, "zzi"),
        AvxOp::Sar32 => (Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, "zzi"),
        AvxOp::I32ToF32 => (Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, "zZ"),
        AvxOp::F32ToI32 => (Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, "zZ"),
        AvxOp::F32ToF64 => (Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, "zy"),
        AvxOp::F64ToF32 => (Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, "yZ"),
        AvxOp::I32ToF64 => (Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er, "zy"),
        AvxOp::F64ToI32 => (Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae, "yZ"),
        AvxOp::ExtendI32 => (Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256, "zy"),
        AvxOp::ExtendU32 => (Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, "zy"),
        AvxOp::ExtendU8 => (Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, "zx"),
        AvxOp::ExtendI8 => (Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128, "zx"),
        AvxOp::ExtendU16 => (Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, "zy"),
        AvxOp::ExtendI16 => (Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256, "zy"),
        AvxOp::F16ToF32 => (Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, "zy"),
        AvxOp::F32ToF16 => (Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, "yzi"),
        AvxOp::Load => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, "zm"),
        AvxOp::Store => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, "mz"),
        AvxOp::StoreStreaming => (Code::EVEX_Vmovntps_m512_zmm, "mz"),
        AvxOp::LoadMasked => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, "loadk"),
        AvxOp::StoreMasked => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, "storek"),
        AvxOp::Load256 => (Code::EVEX_Vmovups_ymm_k1z_ymmm256, "ym"),
        AvxOp::Load128 => (Code::EVEX_Vmovups_xmm_k1z_xmmm128, "xm"),
        AvxOp::Store128 => (Code::EVEX_Vmovups_xmmm128_k1z_xmm, "mx"),
        AvxOp::Load64 => (Code::EVEX_Vmovq_xmm_xmmm64, "xm"),
        AvxOp::Store64 => (Code::EVEX_Vmovq_xmmm64_xmm, "mx"),
        AvxOp::Load32 => (Code::EVEX_Vmovd_xmm_rm32, "xm"),
        AvxOp::Store32 => (Code::EVEX_Vmovd_rm32_xmm, "mx"),
        AvxOp::LoadAll32 | AvxOp::All32 => (Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, "zX"),
        AvxOp::LoadAll64 | AvxOp::All64 => (Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, "zX"),
        AvxOp::LoadAll16 => (Code::EVEX_Vpbroadcastw_ymm_k1z_xmmm16, "ym"),
        AvxOp::LoadAll8 => (Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8, "xm"),
        AvxOp::Insert64 => (Code::EVEX_Vpinsrq_xmm_xmm_rm64_imm8, "xxmi"),
        AvxOp::Insert32 => (Code::EVEX_Vpinsrd_xmm_xmm_rm32_imm8, "xxmi"),
        AvxOp::Insert16 => (Code::EVEX_Vpinsrw_xmm_xmm_r32m16_imm8, "xxmi"),
        AvxOp::Insert8 => (Code::EVEX_Vpinsrb_xmm_xmm_r32m8_imm8, "xxmi"),
        AvxOp::Extract64 => (Code::EVEX_Vpextrq_rm64_xmm_imm8, "mxi"),
        AvxOp::Extract32 => (Code::EVEX_Vpextrd_rm32_xmm_imm8, "mxi"),
        AvxOp::Extract16 => (Code::EVEX_Vpextrw_r32m16_xmm_imm8, "mxi"),
        AvxOp::Extract8 => (Code::EVEX_Vpextrb_r32m8_xmm_imm8, "mxi"),
        AvxOp::InsertHigh => (Code::EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8, "zzxi"),
        AvxOp::ExtractHigh => (Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, "xzi"),
        AvxOp::InsertHalf => (Code::EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8, "zzyi"),
        AvxOp::ExtractHalf => (Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, "yzi"),
        AvxOp::PackU8 => (Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, "xz"),
        AvxOp::PackU16 => (Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, "yz"),
        AvxOp::Permute => (Code::EVEX_Vpermps_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        AvxOp::Copy => (Code::EVEX_Vmovaps_zmm_k1z_zmmm512, "zZ"),
        AvxOp::StoreHigh | AvxOp::PermuteInLane | AvxOp::PermuteHalves | AvxOp::Permute64 => {
            (Code::INVALID, "")
        }
        AvxOp::UnpackLow32 | AvxOp::UnpackHigh32 | AvxOp::UnpackLow64 | AvxOp::UnpackHigh64 => {
            (Code::INVALID, "")
        }
        AvxOp::Shuffle32 | AvxOp::ShuffleBytes => (Code::INVALID, ""),
    }
}

/// The three encodings of a fused multiply-add, in the order of [`crate::avx2::fma_codes`].
pub(crate) fn fma_codes(op: AvxOp) -> [Code; 3] {
    match op {
        AvxOp::FmaF32 => [
            Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        AvxOp::FmaF64 => [
            Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        AvxOp::FnmaF32 => [
            Code::EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        AvxOp::FnmaF64 => [
            Code::EVEX_Vfnmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        AvxOp::FmsF32 => [
            Code::EVEX_Vfmsub132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        AvxOp::FmsF64 => [
            Code::EVEX_Vfmsub132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmsub213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmsub231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        AvxOp::FnmsF32 => [
            Code::EVEX_Vfnmsub132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfnmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfnmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        _ => [
            Code::EVEX_Vfnmsub132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfnmsub213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfnmsub231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
    }
}
