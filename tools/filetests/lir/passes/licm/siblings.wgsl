// routine shared, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;
    var i2_next: i32;
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;
    var i3_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
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
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e37 = l0_;
        let _e44 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))];
        l0_ = (_e37 + bitcast<f32>(_e44));
        continuing {
            let _e47 = i1_next;
            i1_next = (_e47 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e55 = u32(((i0_ * 3i) + i2_));
        let _e58 = slab_0_[(at_0_ + _e55)];
        let _e60 = l0_;
        let _e63 = (_e58 & 2147483647u);
        let _e68 = bits;
        let _e72 = bits_1;
        let _e74 = bitcast<u32>(_e60);
        let _e80 = bits_2;
        slab_0_[(at_1_ + _e55)] = bitcast<u32>(select((bitcast<f32>(_e58) / _e60), select(bitcast<f32>(_e80), select(bitcast<f32>(_e72), bitcast<f32>(_e68), ((_e58 ^ _e74) <= 2147483647u)), ((_e63 != 0u) & (_e63 <= 2139095040u))), ((_e74 & 2147483647u) == 0u)));
        continuing {
            let _e90 = i2_next;
            i2_next = (_e90 + 1i);
        }
    }
    let _e92 = l0_;
    let _e93 = l0_;
    let l1_ = (_e92 * sqrt(_e93));
    i3_next = 0i;
    loop {
        let i3_ = i3_next;
        if (i3_ < 4i) {
        } else {
            break;
        }
        slab_0_[(at_2_ + u32(((i0_ * 4i) + i3_)))] = bitcast<u32>(l1_);
        continuing {
            let _e106 = i3_next;
            i3_next = (_e106 + 1i);
        }
    }
}

// routine hazard, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;
    var l2_: f32;
    var i2_next: i32;
    var l3_: f32;
    var i3_next: i32;
    var l4_: f32;
    var i4_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
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
        if (i0_ < 2i) {
        } else {
            break;
        }
        let _e33 = u32(i0_);
        let _e37 = slab_0_[(at_0_ + _e33)];
        let l0_ = sqrt(bitcast<f32>(_e37));
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 2i) {
            } else {
                break;
            }
            let _e45 = slab_0_[(at_1_ + _e33)];
            slab_0_[(at_1_ + _e33)] = bitcast<u32>((bitcast<f32>(_e45) + l0_));
            slab_0_[(at_2_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>(1f);
            continuing {
                let _e56 = i1_next;
                i1_next = (_e56 + 1i);
            }
        }
        slab_0_[(at_0_ + _e33)] = bitcast<u32>(16f);
        let _e61 = slab_0_[(at_0_ + _e33)];
        let l1_ = sqrt(bitcast<f32>(_e61));
        let _e66 = slab_0_[(at_1_ + _e33)];
        l2_ = bitcast<f32>(_e66);
        i2_next = 0i;
        loop {
            let i2_ = i2_next;
            if (i2_ < 2i) {
            } else {
                break;
            }
            let _e72 = l2_;
            l2_ = (_e72 + l1_);
            continuing {
                let _e74 = i2_next;
                i2_next = (_e74 + 1i);
            }
        }
        let _e76 = l2_;
        slab_0_[(at_1_ + _e33)] = bitcast<u32>(_e76);
        l3_ = 0f;
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < 2i) {
            } else {
                break;
            }
            let _e83 = l3_;
            let _e89 = slab_0_[(at_2_ + u32(((i0_ * 2i) + i3_)))];
            l3_ = (_e83 + bitcast<f32>(_e89));
            continuing {
                let _e92 = i3_next;
                i3_next = (_e92 + 1i);
            }
        }
        l4_ = 0f;
        i4_next = 0i;
        loop {
            let i4_ = i4_next;
            if (i4_ < 2i) {
            } else {
                break;
            }
            let _e98 = l4_;
            let _e106 = slab_0_[(at_2_ + u32((((i0_ * -2i) + i4_) + 2i)))];
            l4_ = (_e98 + bitcast<f32>(_e106));
            continuing {
                let _e109 = i4_next;
                i4_next = (_e109 + 1i);
            }
        }
        let _e111 = slab_0_[(at_1_ + _e33)];
        let _e113 = l3_;
        let _e117 = l4_;
        slab_0_[(at_1_ + _e33)] = bitcast<u32>(((bitcast<f32>(_e111) + (_e113 * 10f)) + (_e117 * 100f)));
        continuing {
            let _e122 = i0_next;
            i0_next = (_e122 + 1i);
        }
    }
}
