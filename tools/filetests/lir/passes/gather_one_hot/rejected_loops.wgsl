// routine partial, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var l0_: f32;
    var i1_next: i32;
    var i2_next: i32;
    var l1_: f32;
    var i3_next: i32;
    var i4_next: i32;
    var l2_: f32;
    var i5_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let symbol_n = i32(_e9.w);
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
        let _e38 = slab_0_[at_0_];
        l0_ = bitcast<f32>(_e38);
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 2i) {
            } else {
                break;
            }
            let _e45 = l0_;
            let _e46 = (i1_ + 1i);
            let _e48 = slab_0_[at_1_];
            let _e54 = slab_0_[(at_2_ + u32(_e46))];
            l0_ = (_e45 + select(0f, bitcast<f32>(_e54), (_e46 == bitcast<i32>(_e48))));
            continuing {
                let _e59 = i1_next;
                i1_next = (_e59 + 1i);
            }
        }
        let _e61 = l0_;
        slab_0_[at_0_] = bitcast<u32>(_e61);
        continuing {
            let _e63 = i0_next;
            i0_next = (_e63 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 1i) {
        } else {
            break;
        }
        let _e70 = slab_0_[(at_0_ + 1u)];
        l1_ = bitcast<f32>(_e70);
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < 2i) {
            } else {
                break;
            }
            let _e76 = l1_;
            let _e78 = slab_0_[at_1_];
            let _e84 = slab_0_[(at_2_ + u32(i3_))];
            l1_ = (_e76 + select(0f, bitcast<f32>(_e84), (i3_ == bitcast<i32>(_e78))));
            continuing {
                let _e88 = i3_next;
                i3_next = (_e88 + 1i);
            }
        }
        let _e90 = l1_;
        slab_0_[(at_0_ + 1u)] = bitcast<u32>(_e90);
        continuing {
            let _e92 = i2_next;
            i2_next = (_e92 + 1i);
        }
    }
    i4_next = 0i;
    loop {
        let i4_ = i4_next;
        if (i4_ < 1i) {
        } else {
            break;
        }
        let _e100 = slab_0_[(at_0_ + 2u)];
        l2_ = bitcast<f32>(_e100);
        i5_next = 0i;
        loop {
            let i5_ = i5_next;
            if (i5_ < min(3i, symbol_n)) {
            } else {
                break;
            }
            let _e108 = l2_;
            let _e110 = slab_0_[at_1_];
            let _e116 = slab_0_[(at_2_ + u32(i5_))];
            l2_ = (_e108 + select(0f, bitcast<f32>(_e116), (i5_ == bitcast<i32>(_e110))));
            continuing {
                let _e120 = i5_next;
                i5_next = (_e120 + 1i);
            }
        }
        let _e122 = l2_;
        slab_0_[(at_0_ + 2u)] = bitcast<u32>(_e122);
        continuing {
            let _e124 = i4_next;
            i4_next = (_e124 + 1i);
        }
    }
}

// routine twice, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var l0_: f32;
    var i1_next: i32;
    var i2_next: i32;
    var l1_: f32;
    var i3_next: i32;
    var i4_next: i32;
    var l2_: f32;
    var i5_next: i32;

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
        if (i0_ < 1i) {
        } else {
            break;
        }
        let _e35 = slab_0_[at_0_];
        l0_ = bitcast<f32>(_e35);
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 3i) {
            } else {
                break;
            }
            let _e42 = l0_;
            let _e44 = slab_0_[at_1_];
            let _e52 = slab_0_[(at_2_ + u32((i1_ * 4i)))];
            l0_ = (_e42 + select(0f, bitcast<f32>(_e52), (i1_ == bitcast<i32>(_e44))));
            continuing {
                let _e57 = i1_next;
                i1_next = (_e57 + 1i);
            }
        }
        let _e59 = l0_;
        slab_0_[at_0_] = bitcast<u32>(_e59);
        continuing {
            let _e61 = i0_next;
            i0_next = (_e61 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 1i) {
        } else {
            break;
        }
        let _e68 = slab_0_[(at_0_ + 1u)];
        l1_ = bitcast<f32>(_e68);
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < 3i) {
            } else {
                break;
            }
            let _e74 = l1_;
            let _e78 = slab_0_[(at_1_ + u32(i3_))];
            let _e85 = slab_0_[(at_2_ + u32((i3_ * 3i)))];
            l1_ = (_e74 + select(0f, bitcast<f32>(_e85), (i3_ == bitcast<i32>(_e78))));
            continuing {
                let _e89 = i3_next;
                i3_next = (_e89 + 1i);
            }
        }
        let _e91 = l1_;
        slab_0_[(at_0_ + 1u)] = bitcast<u32>(_e91);
        continuing {
            let _e93 = i2_next;
            i2_next = (_e93 + 1i);
        }
    }
    i4_next = 0i;
    loop {
        let i4_ = i4_next;
        if (i4_ < 1i) {
        } else {
            break;
        }
        let _e101 = slab_0_[(at_0_ + 2u)];
        l2_ = bitcast<f32>(_e101);
        i5_next = 0i;
        loop {
            let i5_ = i5_next;
            if (i5_ < 3i) {
            } else {
                break;
            }
            let _e107 = l2_;
            let _e109 = slab_0_[at_1_];
            let _e116 = slab_0_[(at_2_ + u32((i5_ * 3i)))];
            l2_ = (_e107 + select(0f, (bitcast<f32>(_e116) + f32(i5_)), (i5_ == bitcast<i32>(_e109))));
            continuing {
                let _e122 = i5_next;
                i5_next = (_e122 + 1i);
            }
        }
        let _e124 = l2_;
        slab_0_[(at_0_ + 2u)] = bitcast<u32>(_e124);
        continuing {
            let _e126 = i4_next;
            i4_next = (_e126 + 1i);
        }
    }
}
// routine twice, kernel 1, extent 3
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e34 = slab_0_[(at_0_ + u32(i0_))];
    let _e38 = slab_0_[(at_1_ + 1u)];
    let _e48 = slab_0_[(at_2_ + u32(((i0_ * 3i) + 1i)))];
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<f32>(_e34) + select(0f, bitcast<f32>(_e48), (i0_ == bitcast<i32>(_e38)))));
}
