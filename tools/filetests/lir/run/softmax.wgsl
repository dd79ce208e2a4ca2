// routine softmax, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var bits: u32 = 4286578688u;
    var i1_next: i32;
    var l1_: f32;
    var i2_next: i32;
    var i3_next: i32;
    var bits_1: u32 = 2139095040u;
    var bits_2: u32 = 2143289344u;

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
    let _e31 = bits;
    let _e32 = bitcast<f32>(_e31);
    l0_ = _e32;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e44 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))];
        let _e45 = bitcast<f32>(_e44);
        let _e46 = l0_;
        l0_ = select(_e45, _e46, ((_e46 > _e45) || !(((bitcast<u32>(_e46) & 2147483647u) <= 2139095040u))));
        continuing {
            let _e56 = i1_next;
            i1_next = (_e56 + 1i);
        }
    }
    l1_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e66 = u32(((i0_ * 3i) + i2_));
        let _e69 = slab_0_[(at_0_ + _e66)];
        let _e71 = l0_;
        let _e72 = (bitcast<f32>(_e69) - _e71);
        let _e79 = select(_e72, -105f, ((-105f > _e72) && ((bitcast<u32>(_e72) & 2147483647u) <= 2139095040u)));
        let l2_ = select(_e79, 90f, ((90f < _e79) && ((bitcast<u32>(_e79) & 2147483647u) <= 2139095040u)));
        let l3_ = fma(l2_, 1.442695f, 12583166f);
        let _e90 = bitcast<u32>(l3_);
        let l4_ = (bitcast<f32>((_e90 ^ select(0u, 1u, (_e90 == 2143289345u)))) - 12583166f);
        let l5_ = bitcast<i32>(l3_);
        let _e101 = bitcast<u32>(fma(l4_, -0.69314575f, l2_));
        let l6_ = fma(l4_, -0.0000014286068f, bitcast<f32>((_e101 ^ select(0u, 1u, (_e101 == 2143289345u)))));
        let l7_ = (l5_ >> 1u);
        slab_0_[(at_1_ + _e66)] = bitcast<u32>(((fma(fma(fma(fma(fma(fma(0.0013814627f, l6_, 0.008368717f), l6_, 0.04166839f), l6_, 0.16666521f), l6_, 0.49999994f), l6_, 1f), l6_, 1f) * bitcast<f32>((l7_ << 23u))) * bitcast<f32>(((l5_ - l7_) << 23u))));
        let _e131 = l1_;
        let _e132 = slab_0_[(at_1_ + _e66)];
        l1_ = (_e131 + bitcast<f32>(_e132));
        continuing {
            let _e135 = i2_next;
            i2_next = (_e135 + 1i);
        }
    }
    i3_next = 0i;
    loop {
        let i3_ = i3_next;
        if (i3_ < 3i) {
        } else {
            break;
        }
        let _e145 = slab_0_[(at_1_ + u32(((i0_ * 3i) + i3_)))];
        let _e147 = l1_;
        let _e148 = (_e145 & 2147483647u);
        let _e153 = bits_1;
        let _e155 = bitcast<u32>(_e147);
        let _e161 = bits_2;
        slab_0_[(at_1_ + u32(((i0_ * 3i) + i3_)))] = bitcast<u32>(select((bitcast<f32>(_e145) / _e147), select(bitcast<f32>(_e161), select(_e32, bitcast<f32>(_e153), ((_e145 ^ _e155) <= 2147483647u)), ((_e148 != 0u) & (_e148 <= 2139095040u))), ((_e155 & 2147483647u) == 0u)));
        continuing {
            let _e169 = i3_next;
            i3_next = (_e169 + 1i);
        }
    }
}
