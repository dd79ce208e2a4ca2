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

use crate::op::Op;

/// The encoding and the shape of an instruction. Instructions that only other lowerings use have no
/// encoding.
pub(crate) fn encoding(op: Op) -> (Code, &'static str) {
    match op {
        Op::Integer => (Code::EVEX_Vmovq_xmm_rm64, ""),
        Op::Prefetch => (Code::Prefetcht0_m8, "m"),
        Op::AddF32 => (Code::EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        Op::AddF64 => (Code::EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        Op::SubF32 => (Code::EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        Op::SubF64 => (Code::EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        Op::MulF32 => (Code::EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        Op::MulF64 => (Code::EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        Op::DivF32 => (Code::EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, "zzZ"),
        Op::DivF64 => (Code::EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er, "zzZ"),
        Op::MaxF32 => (Code::EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae, "zzZ"),
        Op::MaxF64 => (Code::EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae, "zzZ"),
        Op::MinF32 => (Code::EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, "zzZ"),
        Op::MinF64 => (Code::EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae, "zzZ"),
        Op::SqrtF32 => (Code::EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, "zZ"),
        Op::RoundF32 => (Code::EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, "zZi"),
        Op::CmpF32 => (Code::EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, "kdzZi"),
        Op::SqrtF64 => (Code::EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er, "zZ"),
        Op::RoundF64 => (Code::EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae, "zZi"),
        Op::CmpF64 => (Code::EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae, "kqzZi"),
        Op::AndF => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::AndNotF => (Code::EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::XorF => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::And => (Code::EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::Or => (Code::EVEX_Vpord_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::Xor => (Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::AddI32 => (Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::SubI32 => (Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::MulI32 => (Code::EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::MaxI32 => (Code::EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::MaxU32 => (Code::EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::MinI32 => (Code::EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::MinU32 => (Code::EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::ShlV32 => (Code::EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::ShrV32 => (Code::EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::SarV32 => (Code::EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::AddI64 => (Code::EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        Op::SubI64 => (Code::EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        Op::MulLow => (Code::EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        Op::ShlV64 => (Code::EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        Op::ShrV64 => (Code::EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64, "zzZ"),
        Op::BlendV => (Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32, "blendv"),
        Op::Blend => (Code::EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32, "blend"),
        Op::AbsI32 => (Code::EVEX_Vpabsd_zmm_k1z_zmmm512b32, "zZ"),
        Op::EqI32 => (Code::EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32, "kdzZ"),
        Op::EqI64 => (Code::EVEX_Vpcmpeqq_kr_k1_zmm_zmmm512b64, "kqzZ"),
        Op::GtI32 => (Code::EVEX_Vpcmpgtd_kr_k1_zmm_zmmm512b32, "kdzZ"),
        Op::GtI64 => (Code::EVEX_Vpcmpgtq_kr_k1_zmm_zmmm512b64, "kqzZ"),
        Op::Shl32 => (Code::EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8, "zzi"),
        Op::Shl64 => (Code::EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8, "zzi"),
        Op::Shr32 => (Code::EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8, "zzi"),
        Op::Shr64 => (Code::EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8, "zzi"),
        Op::Sar32 => (Code::EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8, "zzi"),
        Op::I32ToF32 => (Code::EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er, "zZ"),
        Op::F32ToI32 => (Code::EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae, "zZ"),
        Op::F32ToF64 => (Code::EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae, "zy"),
        Op::F64ToF32 => (Code::EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er, "yZ"),
        Op::I32ToF64 => (Code::EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er, "zy"),
        Op::F64ToI32 => (Code::EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae, "yZ"),
        Op::ExtendI32 => (Code::EVEX_Vpmovsxdq_zmm_k1z_ymmm256, "zy"),
        Op::ExtendU32 => (Code::EVEX_Vpmovzxdq_zmm_k1z_ymmm256, "zy"),
        Op::ExtendU8 => (Code::EVEX_Vpmovzxbd_zmm_k1z_xmmm128, "zx"),
        Op::ExtendI8 => (Code::EVEX_Vpmovsxbd_zmm_k1z_xmmm128, "zx"),
        Op::ExtendU16 => (Code::EVEX_Vpmovzxwd_zmm_k1z_ymmm256, "zy"),
        Op::ExtendI16 => (Code::EVEX_Vpmovsxwd_zmm_k1z_ymmm256, "zy"),
        Op::F16ToF32 => (Code::EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae, "zy"),
        Op::F32ToF16 => (Code::EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae, "yzi"),
        Op::Load => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, "zm"),
        Op::Store => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, "mz"),
        Op::StoreStreaming => (Code::EVEX_Vmovntps_m512_zmm, "mz"),
        Op::LoadMasked => (Code::EVEX_Vmovups_zmm_k1z_zmmm512, "loadk"),
        Op::StoreMasked => (Code::EVEX_Vmovups_zmmm512_k1z_zmm, "storek"),
        Op::Load256 => (Code::EVEX_Vmovups_ymm_k1z_ymmm256, "ym"),
        Op::Load128 => (Code::EVEX_Vmovups_xmm_k1z_xmmm128, "xm"),
        Op::Store128 => (Code::EVEX_Vmovups_xmmm128_k1z_xmm, "mx"),
        Op::Load64 => (Code::EVEX_Vmovq_xmm_xmmm64, "xm"),
        Op::Store64 => (Code::EVEX_Vmovq_xmmm64_xmm, "mx"),
        Op::Load32 => (Code::EVEX_Vmovd_xmm_rm32, "xm"),
        Op::Store32 => (Code::EVEX_Vmovd_rm32_xmm, "mx"),
        Op::LoadAll32 | Op::All32 => (Code::EVEX_Vbroadcastss_zmm_k1z_xmmm32, "zX"),
        Op::LoadAll64 | Op::All64 => (Code::EVEX_Vbroadcastsd_zmm_k1z_xmmm64, "zX"),
        Op::LoadAll16 => (Code::EVEX_Vpbroadcastw_ymm_k1z_xmmm16, "ym"),
        Op::LoadAll8 => (Code::EVEX_Vpbroadcastb_xmm_k1z_xmmm8, "xm"),
        Op::Insert64 => (Code::EVEX_Vpinsrq_xmm_xmm_rm64_imm8, "xxmi"),
        Op::Insert32 => (Code::EVEX_Vpinsrd_xmm_xmm_rm32_imm8, "xxmi"),
        Op::Insert16 => (Code::EVEX_Vpinsrw_xmm_xmm_r32m16_imm8, "xxmi"),
        Op::Insert8 => (Code::EVEX_Vpinsrb_xmm_xmm_r32m8_imm8, "xxmi"),
        Op::Extract64 => (Code::EVEX_Vpextrq_rm64_xmm_imm8, "mxi"),
        Op::Extract32 => (Code::EVEX_Vpextrd_rm32_xmm_imm8, "mxi"),
        Op::Extract16 => (Code::EVEX_Vpextrw_r32m16_xmm_imm8, "mxi"),
        Op::Extract8 => (Code::EVEX_Vpextrb_r32m8_xmm_imm8, "mxi"),
        Op::InsertHigh => (Code::EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8, "zzxi"),
        Op::ExtractHigh => (Code::EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8, "xzi"),
        Op::InsertHalf => (Code::EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8, "zzyi"),
        Op::ExtractHalf => (Code::EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, "yzi"),
        Op::PackU8 => (Code::EVEX_Vpmovdb_xmmm128_k1z_zmm, "xz"),
        Op::PackU16 => (Code::EVEX_Vpmovdw_ymmm256_k1z_zmm, "yz"),
        Op::Permute => (Code::EVEX_Vpermps_zmm_k1z_zmm_zmmm512b32, "zzZ"),
        Op::Copy => (Code::EVEX_Vmovaps_zmm_k1z_zmmm512, "zZ"),
        _ => (Code::INVALID, ""),
    }
}

/// The three encodings of a fused multiply-add, in the order of [`super::avx2::fma_codes`].
pub(crate) fn fma_codes(op: Op) -> [Code; 3] {
    match op {
        Op::FmaF32 => [
            Code::EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        Op::FmaF64 => [
            Code::EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        Op::FnmaF32 => [
            Code::EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        Op::FnmaF64 => [
            Code::EVEX_Vfnmadd132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        Op::FmsF32 => [
            Code::EVEX_Vfmsub132ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er,
            Code::EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er,
        ],
        Op::FmsF64 => [
            Code::EVEX_Vfmsub132pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmsub213pd_zmm_k1z_zmm_zmmm512b64_er,
            Code::EVEX_Vfmsub231pd_zmm_k1z_zmm_zmmm512b64_er,
        ],
        Op::FnmsF32 => [
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
