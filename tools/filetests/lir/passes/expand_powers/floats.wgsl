// routine powers, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var l0_: f32;
    var i1_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 1i) {
        } else {
            break;
        }
        l0_ = 0f;
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 4i) {
            } else {
                break;
            }
            let _e41 = slab_0_[(at_0_ + u32(i1_))];
            let _e43 = slab_0_[(at_0_ + u32(i1_))];
            let _e45 = l0_;
            l0_ = fma(bitcast<f32>(_e41), bitcast<f32>(_e43), _e45);
            continuing {
                let _e47 = i1_next;
                i1_next = (_e47 + 1i);
            }
        }
        let _e49 = l0_;
        slab_0_[at_1_] = bitcast<u32>(_e49);
        continuing {
            let _e52 = i0_next;
            i0_next = (_e52 + 1i);
        }
    }
}
// routine powers, kernel 1, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let _e13 = table[1u];
    let at_4_ = _e13.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e35 = u32(i0_);
    let _e39 = atomicLoad((&slab_0_[(at_0_ + _e35)]));
    let l0_ = (bitcast<f32>(_e39) + -1f);
    let l1_ = (l0_ * l0_);
    atomicStore((&slab_0_[(at_1_ + _e35)]), bitcast<u32>((l1_ * l1_)));
    let _e48 = atomicLoad((&slab_0_[(at_0_ + _e35)]));
    let _e49 = bitcast<f32>(_e48);
    let _e51 = atomicLoad((&slab_0_[(at_0_ + _e35)]));
    let _e53 = ((_e49 * _e49) * bitcast<f32>(_e51));
    let _e55 = bitcast<u32>(1f);
    let _e58 = (_e55 & 2147483647u);
    let _e63 = bits;
    let _e64 = bitcast<f32>(_e63);
    let _e67 = bits_1;
    let _e68 = bitcast<f32>(_e67);
    let _e69 = bitcast<u32>(_e53);
    let _e75 = bits_2;
    let _e76 = bitcast<f32>(_e75);
    atomicStore((&slab_0_[(at_2_ + _e35)]), bitcast<u32>(select((1f / _e53), select(_e76, select(_e68, _e64, ((_e55 ^ _e69) <= 2147483647u)), ((_e58 != 0u) & (_e58 <= 2139095040u))), ((_e69 & 2147483647u) == 0u))));
    let _e88 = ((_e35 & 1u) * 16u);
    let _e91 = atomicLoad((&slab_0_[(at_3_ + (_e35 >> 1u))]));
    let l2_ = ((_e91 >> _e88) & 65535u);
    let l3_ = (l2_ & 32767u);
    let _e97 = atomicLoad((&slab_0_[(at_3_ + (_e35 >> 1u))]));
    let l4_ = ((_e97 >> _e88) & 65535u);
    let l5_ = (l4_ & 32767u);
    let _e116 = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l3_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l3_ == 31744u)), 2143289344u, (31744u < l3_)) | ((l2_ & 32768u) << 16u)));
    let l6_ = bitcast<u32>(((_e116 * _e116) * bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l5_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l5_ == 31744u)), 2143289344u, (31744u < l5_)) | ((l4_ & 32768u) << 16u)))));
    let l7_ = (l6_ & 2147483647u);
    let _e147 = ((l7_ + (((l7_ >> 13u) & 1u) + 3355447295u)) >> 13u);
    let _e160 = atomicAnd((&slab_0_[(at_3_ + (_e35 >> 1u))]), ~((65535u << _e88)));
    let _e161 = atomicOr((&slab_0_[(at_3_ + (_e35 >> 1u))]), (((select(select(select(_e147, 31744u, (31744u < _e147)), (bitcast<u32>((bitcast<f32>(l7_) + 0.5f)) - 1056964608u), (l7_ < 947912704u)), 32256u, (2139095040u < l7_)) | ((l6_ >> 16u) & 32768u)) & 65535u) << _e88));
    let _e162 = atomicLoad((&slab_0_[(at_0_ + _e35)]));
    let l8_ = bitcast<f32>(_e162);
    let l9_ = abs(l8_);
    let l10_ = (l9_ < 0.000000000000000000000000000000000000011754944f);
    let l11_ = bitcast<i32>(select(l9_, (l9_ * 16777216f), l10_));
    let l12_ = ((l11_ - 1060439283i) >> 23u);
    let l13_ = (bitcast<f32>((l11_ - (l12_ << 23u))) - 1f);
    let l14_ = (f32(l12_) + select(0f, -24f, l10_));
    let _e185 = bitcast<u32>(l13_);
    let l15_ = (2f + bitcast<f32>((_e185 ^ select(0u, 1u, (_e185 == 2143289345u)))));
    let _e192 = (_e185 & 2147483647u);
    let _e196 = bitcast<u32>(l15_);
    let _e203 = ((_e196 & 2147483647u) == 0u);
    let l16_ = select((l13_ / l15_), select(_e76, select(_e68, _e64, ((_e185 ^ _e196) <= 2147483647u)), ((_e192 != 0u) & (_e192 <= 2139095040u))), _e203);
    let l17_ = (l16_ * l15_);
    let l18_ = bitcast<f32>((bitcast<i32>(l16_) & -4096i));
    let l19_ = (l16_ - l18_);
    let l20_ = bitcast<f32>((bitcast<i32>(l15_) & -4096i));
    let l21_ = (l15_ - l20_);
    let _e232 = fma(-(l16_), (l13_ - (bitcast<f32>((_e196 ^ select(0u, 1u, (_e196 == 2143289345u)))) - 2f)), ((l13_ - l17_) - (((((l18_ * l20_) - l17_) + (l18_ * l21_)) + (l19_ * l20_)) + (l19_ * l21_))));
    let _e233 = bitcast<u32>(_e232);
    let _e234 = (_e233 & 2147483647u);
    let l22_ = select((_e232 / l15_), select(_e76, select(_e68, _e64, ((_e233 ^ _e196) <= 2147483647u)), ((_e234 != 0u) & (_e234 <= 2139095040u))), _e203);
    let l23_ = (l16_ * l16_);
    let l28_ = (l16_ + l16_);
    let l29_ = (l23_ * fma(fma(fma(fma(0.15384556f, l23_, 0.18181819f), l23_, 0.22222222f), l23_, 0.2857143f), l23_, 0.4f));
    let l30_ = (0.6666667f + l29_);
    let l31_ = (l16_ * l23_);
    let l34_ = bitcast<f32>((bitcast<i32>(l23_) & -4096i));
    let l35_ = (l23_ - l34_);
    let l36_ = (l31_ * l30_);
    let l37_ = bitcast<f32>((bitcast<i32>(l31_) & -4096i));
    let l38_ = (l31_ - l37_);
    let l39_ = bitcast<f32>((bitcast<i32>(l30_) & -4096i));
    let l40_ = (l30_ - l39_);
    let l41_ = (l28_ + l36_);
    let _e293 = bitcast<u32>(l30_);
    let _e313 = bitcast<u32>(l41_);
    let l42_ = (((l22_ + l22_) + fma(fma(l22_, l23_, fma(l16_, fma(l28_, l22_, (((((l18_ * l18_) - l23_) + (l18_ * l19_)) + (l19_ * l18_)) + (l19_ * l19_))), (((((l18_ * l34_) - l31_) + (l18_ * l35_)) + (l19_ * l34_)) + (l19_ * l35_)))), l30_, fma(l31_, ((l29_ - (bitcast<f32>((_e293 ^ select(0u, 1u, (_e293 == 2143289345u)))) - 0.6666667f)) + -0.000000019868216f), (((((l37_ * l39_) - l36_) + (l37_ * l40_)) + (l38_ * l39_)) + (l38_ * l40_))))) + (l36_ - (bitcast<f32>((_e313 ^ select(0u, 1u, (_e313 == 2143289345u)))) - l28_)));
    let l43_ = (l41_ + l42_);
    let l44_ = (l43_ * 1.442695f);
    let l45_ = bitcast<f32>((bitcast<i32>(l43_) & -4096i));
    let l46_ = (l43_ - l45_);
    let l49_ = (l14_ + l44_);
    let _e329 = bitcast<u32>(l49_);
    let l50_ = (bitcast<f32>((_e329 ^ select(0u, 1u, (_e329 == 2143289345u)))) - l14_);
    let _e335 = bitcast<u32>(l43_);
    let _e354 = bitcast<u32>(fma(l43_, 0.00000001925963f, (((((l45_ * 1.4423828f) - l44_) + (l45_ * 0.00031220913f)) + (l46_ * 1.4423828f)) + (l46_ * 0.00031220913f))));
    let l51_ = (fma((l42_ - (bitcast<f32>((_e335 ^ select(0u, 1u, (_e335 == 2143289345u)))) - l41_)), 1.442695f, bitcast<f32>((_e354 ^ select(0u, 1u, (_e354 == 2143289345u))))) + ((l14_ - (l49_ - l50_)) + (l44_ - l50_)));
    let l52_ = (l49_ + l51_);
    let l54_ = (l52_ * 5f);
    let l55_ = bitcast<f32>((bitcast<i32>(l52_) & -4096i));
    let l56_ = (l52_ - l55_);
    let _e372 = bitcast<u32>(l52_);
    let l59_ = fma((l51_ - (bitcast<f32>((_e372 ^ select(0u, 1u, (_e372 == 2143289345u)))) - l49_)), 5f, (((((l55_ * 5f) - l54_) + select(_e76, (l55_ * 0f), ((bitcast<u32>(l55_) & 2147483647u) < 2139095040u))) + (l56_ * 5f)) + select(_e76, (l56_ * 0f), ((bitcast<u32>(l56_) & 2147483647u) < 2139095040u))));
    let l60_ = (l54_ + l59_);
    let _e399 = bitcast<u32>(l60_);
    let _e403 = select(l60_, -151f, ((-151f > l60_) && ((_e399 & 2147483647u) <= 2139095040u)));
    let l61_ = select(_e403, 129f, ((129f < _e403) && ((bitcast<u32>(_e403) & 2147483647u) <= 2139095040u)));
    let l62_ = (l61_ + 12583166f);
    let l63_ = bitcast<i32>(l62_);
    let _e414 = bitcast<u32>(l62_);
    let _e426 = (l59_ - (bitcast<f32>((_e399 ^ select(0u, 1u, (_e399 == 2143289345u)))) - l54_));
    let _e432 = select(_e426, -1f, ((-1f > _e426) && ((bitcast<u32>(_e426) & 2147483647u) <= 2139095040u)));
    let l64_ = ((l61_ - (bitcast<f32>((_e414 ^ select(0u, 1u, (_e414 == 2143289345u)))) - 12583166f)) + select(_e432, 1f, ((1f < _e432) && ((bitcast<u32>(_e432) & 2147483647u) <= 2139095040u))));
    let l65_ = (l63_ >> 1u);
    let l67_ = select(_e76, select(select(((fma(l64_, fma(fma(fma(fma(fma(0.00015353349f, l64_, 0.00133989f), l64_, 0.009618438f), l64_, 0.055503324f), l64_, 0.24022648f), l64_, 0.6931472f), 1f) * bitcast<f32>((l65_ << 23u))) * bitcast<f32>(((l63_ - l65_) << 23u))), 0f, (l9_ == 0f)), _e64, (l9_ == _e64)), (l9_ == l9_));
    let _e466 = atomicLoad((&slab_0_[(at_0_ + _e35)]));
    let l69_ = bitcast<f32>(_e466);
    let l70_ = abs(l69_);
    let l71_ = (l70_ < 0.000000000000000000000000000000000000011754944f);
    let l72_ = bitcast<i32>(select(l70_, (l70_ * 16777216f), l71_));
    let l73_ = ((l72_ - 1060439283i) >> 23u);
    let l74_ = (bitcast<f32>((l72_ - (l73_ << 23u))) - 1f);
    let l75_ = (f32(l73_) + select(0f, -24f, l71_));
    let _e482 = bitcast<u32>(l74_);
    let l76_ = (2f + bitcast<f32>((_e482 ^ select(0u, 1u, (_e482 == 2143289345u)))));
    let _e488 = (_e482 & 2147483647u);
    let _e492 = bitcast<u32>(l76_);
    let _e499 = ((_e492 & 2147483647u) == 0u);
    let l77_ = select((l74_ / l76_), select(_e76, select(_e68, _e64, ((_e482 ^ _e492) <= 2147483647u)), ((_e488 != 0u) & (_e488 <= 2139095040u))), _e499);
    let l78_ = (l77_ * l76_);
    let l79_ = bitcast<f32>((bitcast<i32>(l77_) & -4096i));
    let l80_ = (l77_ - l79_);
    let l81_ = bitcast<f32>((bitcast<i32>(l76_) & -4096i));
    let l82_ = (l76_ - l81_);
    let _e527 = fma(-(l77_), (l74_ - (bitcast<f32>((_e492 ^ select(0u, 1u, (_e492 == 2143289345u)))) - 2f)), ((l74_ - l78_) - (((((l79_ * l81_) - l78_) + (l79_ * l82_)) + (l80_ * l81_)) + (l80_ * l82_))));
    let _e528 = bitcast<u32>(_e527);
    let _e529 = (_e528 & 2147483647u);
    let l83_ = select((_e527 / l76_), select(_e76, select(_e68, _e64, ((_e528 ^ _e492) <= 2147483647u)), ((_e529 != 0u) & (_e529 <= 2139095040u))), _e499);
    let l84_ = (l77_ * l77_);
    let l89_ = (l77_ + l77_);
    let l90_ = (l84_ * fma(fma(fma(fma(0.15384556f, l84_, 0.18181819f), l84_, 0.22222222f), l84_, 0.2857143f), l84_, 0.4f));
    let l91_ = (0.6666667f + l90_);
    let l92_ = (l77_ * l84_);
    let l95_ = bitcast<f32>((bitcast<i32>(l84_) & -4096i));
    let l96_ = (l84_ - l95_);
    let l97_ = (l92_ * l91_);
    let l98_ = bitcast<f32>((bitcast<i32>(l92_) & -4096i));
    let l99_ = (l92_ - l98_);
    let l100_ = bitcast<f32>((bitcast<i32>(l91_) & -4096i));
    let l101_ = (l91_ - l100_);
    let l102_ = (l89_ + l97_);
    let _e582 = bitcast<u32>(l91_);
    let _e601 = bitcast<u32>(l102_);
    let l103_ = (((l83_ + l83_) + fma(fma(l83_, l84_, fma(l77_, fma(l89_, l83_, (((((l79_ * l79_) - l84_) + (l79_ * l80_)) + (l80_ * l79_)) + (l80_ * l80_))), (((((l79_ * l95_) - l92_) + (l79_ * l96_)) + (l80_ * l95_)) + (l80_ * l96_)))), l91_, fma(l92_, ((l90_ - (bitcast<f32>((_e582 ^ select(0u, 1u, (_e582 == 2143289345u)))) - 0.6666667f)) + -0.000000019868216f), (((((l98_ * l100_) - l97_) + (l98_ * l101_)) + (l99_ * l100_)) + (l99_ * l101_))))) + (l97_ - (bitcast<f32>((_e601 ^ select(0u, 1u, (_e601 == 2143289345u)))) - l89_)));
    let l104_ = (l102_ + l103_);
    let l105_ = (l104_ * 1.442695f);
    let l106_ = bitcast<f32>((bitcast<i32>(l104_) & -4096i));
    let l107_ = (l104_ - l106_);
    let l110_ = (l75_ + l105_);
    let _e616 = bitcast<u32>(l110_);
    let l111_ = (bitcast<f32>((_e616 ^ select(0u, 1u, (_e616 == 2143289345u)))) - l75_);
    let _e622 = bitcast<u32>(l104_);
    let _e638 = bitcast<u32>(fma(l104_, 0.00000001925963f, (((((l106_ * 1.4423828f) - l105_) + (l106_ * 0.00031220913f)) + (l107_ * 1.4423828f)) + (l107_ * 0.00031220913f))));
    let l112_ = (fma((l103_ - (bitcast<f32>((_e622 ^ select(0u, 1u, (_e622 == 2143289345u)))) - l102_)), 1.442695f, bitcast<f32>((_e638 ^ select(0u, 1u, (_e638 == 2143289345u))))) + ((l75_ - (l110_ - l111_)) + (l105_ - l111_)));
    let l113_ = (l110_ + l112_);
    let l115_ = (l113_ * 2.5f);
    let l116_ = bitcast<f32>((bitcast<i32>(l113_) & -4096i));
    let l117_ = (l113_ - l116_);
    let _e656 = bitcast<u32>(l113_);
    let l120_ = fma((l112_ - (bitcast<f32>((_e656 ^ select(0u, 1u, (_e656 == 2143289345u)))) - l110_)), 2.5f, (((((l116_ * 2.5f) - l115_) + select(_e76, (l116_ * 0f), ((bitcast<u32>(l116_) & 2147483647u) < 2139095040u))) + (l117_ * 2.5f)) + select(_e76, (l117_ * 0f), ((bitcast<u32>(l117_) & 2147483647u) < 2139095040u))));
    let l121_ = (l115_ + l120_);
    let _e682 = bitcast<u32>(l121_);
    let _e686 = select(l121_, -151f, ((-151f > l121_) && ((_e682 & 2147483647u) <= 2139095040u)));
    let l122_ = select(_e686, 129f, ((129f < _e686) && ((bitcast<u32>(_e686) & 2147483647u) <= 2139095040u)));
    let l123_ = (l122_ + 12583166f);
    let l124_ = bitcast<i32>(l123_);
    let _e695 = bitcast<u32>(l123_);
    let _e707 = (l120_ - (bitcast<f32>((_e682 ^ select(0u, 1u, (_e682 == 2143289345u)))) - l115_));
    let _e713 = select(_e707, -1f, ((-1f > _e707) && ((bitcast<u32>(_e707) & 2147483647u) <= 2139095040u)));
    let l125_ = ((l122_ - (bitcast<f32>((_e695 ^ select(0u, 1u, (_e695 == 2143289345u)))) - 12583166f)) + select(_e713, 1f, ((1f < _e713) && ((bitcast<u32>(_e713) & 2147483647u) <= 2139095040u))));
    let l126_ = (l124_ >> 1u);
    let l128_ = select(_e76, select(select(((fma(l125_, fma(fma(fma(fma(fma(0.00015353349f, l125_, 0.00133989f), l125_, 0.009618438f), l125_, 0.055503324f), l125_, 0.24022648f), l125_, 0.6931472f), 1f) * bitcast<f32>((l126_ << 23u))) * bitcast<f32>(((l124_ - l126_) << 23u))), 0f, (l70_ == 0f)), _e64, (l70_ == _e64)), (l70_ == l70_));
    atomicStore((&slab_0_[(at_4_ + _e35)]), bitcast<u32>((select((l67_ * bitcast<f32>((1065353216i | (bitcast<i32>(l8_) & i32(-2147483648))))), 1f, (l8_ == 1f)) + select(select(l128_, select(l128_, _e76, (_e68 < l69_)), (l69_ < 0f)), 1f, (l69_ == 1f)))));
}
