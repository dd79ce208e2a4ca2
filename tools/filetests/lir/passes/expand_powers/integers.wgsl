// routine powers, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = u32(i0_);
    let _e36 = slab_0_[(at_1_ + _e32)];
    let _e37 = bitcast<i32>(_e36);
    let _e39 = slab_0_[(at_1_ + _e32)];
    slab_0_[(at_0_ + _e32)] = bitcast<u32>(((_e37 * _e37) * bitcast<i32>(_e39)));
    let _e45 = slab_0_[(at_1_ + _e32)];
    let l0_ = (bitcast<i32>(_e45) + 1i);
    let l1_ = (l0_ * l0_);
    let l2_ = (l1_ * l1_);
    slab_0_[(at_2_ + _e32)] = bitcast<u32>(((l0_ * l2_) * (l2_ * l2_)));
    let _e57 = slab_0_[(at_1_ + _e32)];
    let l4_ = bitcast<i32>(_e57);
    let l3_ = select(0i, l4_, ((l4_ == 1i) | (l4_ == -1i)));
    slab_0_[(at_3_ + _e32)] = bitcast<u32>((l3_ + (select(l3_, -(l3_), (l3_ < 0i)) * 10i)));
}
// routine powers, kernel 1, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    let _e26 = slab_0_[at_0_];
    let l0_ = bitcast<f32>(_e26);
    let l1_ = abs(l0_);
    let l2_ = (l1_ < 0.000000000000000000000000000000000000011754944f);
    let l3_ = bitcast<i32>(select(l1_, (l1_ * 16777216f), l2_));
    let l4_ = ((l3_ - 1060439283i) >> 23u);
    let l5_ = (bitcast<f32>((l3_ - (l4_ << 23u))) - 1f);
    let l6_ = (f32(l4_) + select(0f, -24f, l2_));
    let _e50 = bitcast<u32>(l5_);
    let l7_ = (2f + bitcast<f32>((_e50 ^ select(0u, 1u, (_e50 == 2143289345u)))));
    let _e59 = (_e50 & 2147483647u);
    let _e64 = bits;
    let _e65 = bitcast<f32>(_e64);
    let _e68 = bits_1;
    let _e69 = bitcast<f32>(_e68);
    let _e70 = bitcast<u32>(l7_);
    let _e76 = bits_2;
    let _e77 = bitcast<f32>(_e76);
    let _e81 = ((_e70 & 2147483647u) == 0u);
    let l8_ = select((l5_ / l7_), select(_e77, select(_e69, _e65, ((_e50 ^ _e70) <= 2147483647u)), ((_e59 != 0u) & (_e59 <= 2139095040u))), _e81);
    let l9_ = (l8_ * l7_);
    let l10_ = bitcast<f32>((bitcast<i32>(l8_) & -4096i));
    let l11_ = (l8_ - l10_);
    let l12_ = bitcast<f32>((bitcast<i32>(l7_) & -4096i));
    let l13_ = (l7_ - l12_);
    let _e110 = fma(-(l8_), (l5_ - (bitcast<f32>((_e70 ^ select(0u, 1u, (_e70 == 2143289345u)))) - 2f)), ((l5_ - l9_) - (((((l10_ * l12_) - l9_) + (l10_ * l13_)) + (l11_ * l12_)) + (l11_ * l13_))));
    let _e111 = bitcast<u32>(_e110);
    let _e112 = (_e111 & 2147483647u);
    let l14_ = select((_e110 / l7_), select(_e77, select(_e69, _e65, ((_e111 ^ _e70) <= 2147483647u)), ((_e112 != 0u) & (_e112 <= 2139095040u))), _e81);
    let l15_ = (l8_ * l8_);
    let l20_ = (l8_ + l8_);
    let l21_ = (l15_ * fma(fma(fma(fma(0.15384556f, l15_, 0.18181819f), l15_, 0.22222222f), l15_, 0.2857143f), l15_, 0.4f));
    let l22_ = (0.6666667f + l21_);
    let l23_ = (l8_ * l15_);
    let l26_ = bitcast<f32>((bitcast<i32>(l15_) & -4096i));
    let l27_ = (l15_ - l26_);
    let l28_ = (l23_ * l22_);
    let l29_ = bitcast<f32>((bitcast<i32>(l23_) & -4096i));
    let l30_ = (l23_ - l29_);
    let l31_ = bitcast<f32>((bitcast<i32>(l22_) & -4096i));
    let l32_ = (l22_ - l31_);
    let l33_ = (l20_ + l28_);
    let _e171 = bitcast<u32>(l22_);
    let _e191 = bitcast<u32>(l33_);
    let l34_ = (((l14_ + l14_) + fma(fma(l14_, l15_, fma(l8_, fma(l20_, l14_, (((((l10_ * l10_) - l15_) + (l10_ * l11_)) + (l11_ * l10_)) + (l11_ * l11_))), (((((l10_ * l26_) - l23_) + (l10_ * l27_)) + (l11_ * l26_)) + (l11_ * l27_)))), l22_, fma(l23_, ((l21_ - (bitcast<f32>((_e171 ^ select(0u, 1u, (_e171 == 2143289345u)))) - 0.6666667f)) + -0.000000019868216f), (((((l29_ * l31_) - l28_) + (l29_ * l32_)) + (l30_ * l31_)) + (l30_ * l32_))))) + (l28_ - (bitcast<f32>((_e191 ^ select(0u, 1u, (_e191 == 2143289345u)))) - l20_)));
    let l35_ = (l33_ + l34_);
    let l36_ = (l35_ * 1.442695f);
    let l37_ = bitcast<f32>((bitcast<i32>(l35_) & -4096i));
    let l38_ = (l35_ - l37_);
    let l41_ = (l6_ + l36_);
    let _e207 = bitcast<u32>(l41_);
    let l42_ = (bitcast<f32>((_e207 ^ select(0u, 1u, (_e207 == 2143289345u)))) - l6_);
    let _e213 = bitcast<u32>(l35_);
    let _e232 = bitcast<u32>(fma(l35_, 0.00000001925963f, (((((l37_ * 1.4423828f) - l36_) + (l37_ * 0.00031220913f)) + (l38_ * 1.4423828f)) + (l38_ * 0.00031220913f))));
    let l43_ = (fma((l34_ - (bitcast<f32>((_e213 ^ select(0u, 1u, (_e213 == 2143289345u)))) - l33_)), 1.442695f, bitcast<f32>((_e232 ^ select(0u, 1u, (_e232 == 2143289345u))))) + ((l6_ - (l41_ - l42_)) + (l36_ - l42_)));
    let l44_ = (l41_ + l43_);
    let l46_ = (l44_ * 2f);
    let l47_ = bitcast<f32>((bitcast<i32>(l44_) & -4096i));
    let l48_ = (l44_ - l47_);
    let _e249 = bitcast<u32>(l44_);
    let l51_ = fma((l43_ - (bitcast<f32>((_e249 ^ select(0u, 1u, (_e249 == 2143289345u)))) - l41_)), 2f, (((((l47_ * 2f) - l46_) + select(_e77, (l47_ * 0f), ((bitcast<u32>(l47_) & 2147483647u) < 2139095040u))) + (l48_ * 2f)) + select(_e77, (l48_ * 0f), ((bitcast<u32>(l48_) & 2147483647u) < 2139095040u))));
    let l52_ = (l46_ + l51_);
    let _e276 = bitcast<u32>(l52_);
    let _e280 = select(l52_, -151f, ((-151f > l52_) && ((_e276 & 2147483647u) <= 2139095040u)));
    let l53_ = select(_e280, 129f, ((129f < _e280) && ((bitcast<u32>(_e280) & 2147483647u) <= 2139095040u)));
    let l54_ = (l53_ + 12583166f);
    let l55_ = bitcast<i32>(l54_);
    let _e291 = bitcast<u32>(l54_);
    let _e303 = (l51_ - (bitcast<f32>((_e276 ^ select(0u, 1u, (_e276 == 2143289345u)))) - l46_));
    let _e310 = select(_e303, -1f, ((-1f > _e303) && ((bitcast<u32>(_e303) & 2147483647u) <= 2139095040u)));
    let l56_ = ((l53_ - (bitcast<f32>((_e291 ^ select(0u, 1u, (_e291 == 2143289345u)))) - 12583166f)) + select(_e310, 1f, ((1f < _e310) && ((bitcast<u32>(_e310) & 2147483647u) <= 2139095040u))));
    let l57_ = (l55_ >> 1u);
    let l59_ = select(_e77, select(select(((fma(l56_, fma(fma(fma(fma(fma(0.00015353349f, l56_, 0.00133989f), l56_, 0.009618438f), l56_, 0.055503324f), l56_, 0.24022648f), l56_, 0.6931472f), 1f) * bitcast<f32>((l57_ << 23u))) * bitcast<f32>(((l55_ - l57_) << 23u))), 0f, (l1_ == 0f)), _e65, (l1_ == _e65)), (l1_ == l1_));
    slab_0_[at_0_] = bitcast<u32>(select(l59_, 1f, (l0_ == 1f)));
}
