// routine sums, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let symbol_n = i32(_e7.z);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 2i) {
        } else {
            break;
        }
        let _e41 = (0i < (symbol_n + (i1_ * -1i)));
        let _e42 = (i0_ * 2i);
        let _e48 = slab_0_[(at_0_ + u32((_e42 + i1_)))];
        let _e55 = slab_0_[(at_0_ + u32((symbol_n + _e42)))];
        let _e60 = l0_;
        l0_ = fma(select(0f, bitcast<f32>(_e48), _e41), select(0f, (bitcast<f32>(_e55) + -1f), _e41), _e60);
        continuing {
            let _e62 = i1_next;
            i1_next = (_e62 + 1i);
        }
    }
    let _e65 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e65);
}

// routine guards is rejected: routine `guards`: webgpu does not support `index` on i64: it takes arithmetic in i64

// routine locals, kernel 0, extent 2
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e31 = (at_0_ + (_e28 * 4u));
    let _e34 = slab_0_[_e31];
    let _e37 = slab_0_[(_e31 + 1u)];
    let _e40 = slab_0_[(_e31 + 2u)];
    let _e44 = slab_0_[(_e31 + 3u)];
    let l1_ = vec4<u32>(_e34, _e37, _e40, _e44);
    let l2_ = l1_.x;
    let l3_ = l1_.y;
    let l4_ = l1_.z;
    let l5_ = l1_.w;
    let l6_ = (466688986u ^ l2_);
    let l7_ = (l6_ ^ l3_);
    let l8_ = (l7_ ^ l4_);
    let l9_ = (l8_ ^ l5_);
    let l10_ = (1u + l2_);
    let l11_ = (0u + l3_);
    let l12_ = (0u + l4_);
    let l13_ = (0u + l5_);
    let l14_ = (l10_ + l11_);
    let l15_ = ((l11_ << 10u) | (l11_ >> 22u));
    let l16_ = (l15_ ^ l14_);
    let l17_ = (l12_ + l13_);
    let l18_ = ((l13_ << 26u) | (l13_ >> 6u));
    let l19_ = (l18_ ^ l17_);
    let l20_ = (l14_ + l19_);
    let l21_ = ((l19_ << 11u) | (l19_ >> 21u));
    let l22_ = (l21_ ^ l20_);
    let l23_ = (l17_ + l16_);
    let l24_ = ((l16_ << 21u) | (l16_ >> 11u));
    let l25_ = (l24_ ^ l23_);
    let l26_ = (l20_ + l25_);
    let l27_ = ((l25_ << 13u) | (l25_ >> 19u));
    let l28_ = (l27_ ^ l26_);
    let l29_ = (l23_ + l22_);
    let l30_ = ((l22_ << 27u) | (l22_ >> 5u));
    let l31_ = (l30_ ^ l29_);
    let l32_ = (l26_ + l31_);
    let l33_ = ((l31_ << 23u) | (l31_ >> 9u));
    let l34_ = (l33_ ^ l32_);
    let l35_ = (l29_ + l28_);
    let l36_ = ((l28_ << 5u) | (l28_ >> 27u));
    let l37_ = (l36_ ^ l35_);
    let l38_ = (l32_ + l3_);
    let l39_ = (l37_ + l4_);
    let l40_ = (l35_ + l5_);
    let l41_ = (l34_ + l9_);
    let l42_ = (l41_ + 1u);
    let l43_ = (l38_ + l39_);
    let l44_ = ((l39_ << 6u) | (l39_ >> 26u));
    let l45_ = (l44_ ^ l43_);
    let l46_ = (l40_ + l42_);
    let l47_ = ((l42_ << 20u) | (l42_ >> 12u));
    let l48_ = (l47_ ^ l46_);
    let l49_ = (l43_ + l48_);
    let l50_ = ((l48_ << 17u) | (l48_ >> 15u));
    let l51_ = (l50_ ^ l49_);
    let l52_ = (l46_ + l45_);
    let l53_ = ((l45_ << 11u) | (l45_ >> 21u));
    let l54_ = (l53_ ^ l52_);
    let l55_ = (l49_ + l54_);
    let l56_ = ((l54_ << 25u) | (l54_ >> 7u));
    let l57_ = (l56_ ^ l55_);
    let l58_ = (l52_ + l51_);
    let l59_ = ((l51_ << 10u) | (l51_ >> 22u));
    let l60_ = (l59_ ^ l58_);
    let l61_ = (l55_ + l60_);
    let l62_ = ((l60_ << 18u) | (l60_ >> 14u));
    let l63_ = (l62_ ^ l61_);
    let l64_ = (l58_ + l57_);
    let l65_ = ((l57_ << 20u) | (l57_ >> 12u));
    let l66_ = (l65_ ^ l64_);
    let l67_ = (l61_ + l4_);
    let l68_ = (l66_ + l5_);
    let l69_ = (l64_ + l9_);
    let l70_ = (l63_ + l2_);
    let l71_ = (l70_ + 2u);
    let l72_ = (l67_ + l68_);
    let l73_ = ((l68_ << 10u) | (l68_ >> 22u));
    let l74_ = (l73_ ^ l72_);
    let l75_ = (l69_ + l71_);
    let l76_ = ((l71_ << 26u) | (l71_ >> 6u));
    let l77_ = (l76_ ^ l75_);
    let l78_ = (l72_ + l77_);
    let l79_ = ((l77_ << 11u) | (l77_ >> 21u));
    let l80_ = (l79_ ^ l78_);
    let l81_ = (l75_ + l74_);
    let l82_ = ((l74_ << 21u) | (l74_ >> 11u));
    let l83_ = (l82_ ^ l81_);
    let l84_ = (l78_ + l83_);
    let l85_ = ((l83_ << 13u) | (l83_ >> 19u));
    let l86_ = (l85_ ^ l84_);
    let l87_ = (l81_ + l80_);
    let l88_ = ((l80_ << 27u) | (l80_ >> 5u));
    let l89_ = (l88_ ^ l87_);
    let l90_ = (l84_ + l89_);
    let l91_ = ((l89_ << 23u) | (l89_ >> 9u));
    let l92_ = (l91_ ^ l90_);
    let l93_ = (l87_ + l86_);
    let l94_ = ((l86_ << 5u) | (l86_ >> 27u));
    let l95_ = (l94_ ^ l93_);
    let l96_ = (l90_ + l5_);
    let l97_ = (l95_ + l9_);
    let l98_ = (l93_ + l2_);
    let l99_ = (l92_ + l3_);
    let l100_ = (l99_ + 3u);
    let l101_ = (l96_ + l97_);
    let l102_ = ((l97_ << 6u) | (l97_ >> 26u));
    let l103_ = (l102_ ^ l101_);
    let l104_ = (l98_ + l100_);
    let l105_ = ((l100_ << 20u) | (l100_ >> 12u));
    let l106_ = (l105_ ^ l104_);
    let l107_ = (l101_ + l106_);
    let l108_ = ((l106_ << 17u) | (l106_ >> 15u));
    let l109_ = (l108_ ^ l107_);
    let l110_ = (l104_ + l103_);
    let l111_ = ((l103_ << 11u) | (l103_ >> 21u));
    let l112_ = (l111_ ^ l110_);
    let l113_ = (l107_ + l112_);
    let l114_ = ((l112_ << 25u) | (l112_ >> 7u));
    let l115_ = (l114_ ^ l113_);
    let l116_ = (l110_ + l109_);
    let l117_ = ((l109_ << 10u) | (l109_ >> 22u));
    let l118_ = (l117_ ^ l116_);
    let l119_ = (l113_ + l118_);
    let l120_ = ((l118_ << 18u) | (l118_ >> 14u));
    let l121_ = (l120_ ^ l119_);
    let l122_ = (l116_ + l115_);
    let l123_ = ((l115_ << 20u) | (l115_ >> 12u));
    let l124_ = (l123_ ^ l122_);
    let l125_ = (l119_ + l9_);
    let l126_ = (l124_ + l2_);
    let l127_ = (l122_ + l3_);
    let l128_ = (l121_ + l4_);
    let l129_ = (l128_ + 4u);
    let l130_ = (l125_ + l126_);
    let l131_ = ((l126_ << 10u) | (l126_ >> 22u));
    let l132_ = (l131_ ^ l130_);
    let l133_ = (l127_ + l129_);
    let l134_ = ((l129_ << 26u) | (l129_ >> 6u));
    let l135_ = (l134_ ^ l133_);
    let l136_ = (l130_ + l135_);
    let l137_ = ((l135_ << 11u) | (l135_ >> 21u));
    let l138_ = (l137_ ^ l136_);
    let l139_ = (l133_ + l132_);
    let l140_ = ((l132_ << 21u) | (l132_ >> 11u));
    let l141_ = (l140_ ^ l139_);
    let l142_ = (l136_ + l141_);
    let l143_ = ((l141_ << 13u) | (l141_ >> 19u));
    let l144_ = (l143_ ^ l142_);
    let l145_ = (l139_ + l138_);
    let l146_ = ((l138_ << 27u) | (l138_ >> 5u));
    let l147_ = (l146_ ^ l145_);
    let l148_ = (l142_ + l147_);
    let l149_ = ((l147_ << 23u) | (l147_ >> 9u));
    let l150_ = (l149_ ^ l148_);
    let l151_ = (l145_ + l144_);
    let l152_ = ((l144_ << 5u) | (l144_ >> 27u));
    let l153_ = (l152_ ^ l151_);
    let l154_ = (l148_ + l2_);
    let l155_ = (l153_ + l3_);
    let l156_ = (l151_ + l4_);
    let l157_ = (l150_ + l5_);
    let l158_ = (l157_ + 5u);
    let l0_ = vec4<u32>(l154_, l155_, l156_, l158_);
    let _e308 = slab_0_[_e31];
    let _e309 = slab_0_[(_e31 + 1u)];
    let _e310 = slab_0_[(_e31 + 2u)];
    let _e311 = slab_0_[(_e31 + 3u)];
    slab_0_[(at_1_ + _e28)] = select(vec4<u32>(_e308, _e309, _e310, _e311).x, 1u, (l0_.w < 1000000u));
}
// routine locals, kernel 1, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(0.25f);
}
