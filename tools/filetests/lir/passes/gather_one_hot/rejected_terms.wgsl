// routine affine, kernel 0, extent 1
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
            let _e54 = slab_0_[(at_2_ + u32(((i1_ * -1i) + 2i)))];
            l0_ = (_e42 + select(0f, bitcast<f32>(_e54), (i1_ == bitcast<i32>(_e44))));
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
            if (i3_ < 3i) {
            } else {
                break;
            }
            let _e76 = l1_;
            let _e79 = slab_0_[at_1_];
            let _e85 = slab_0_[(at_2_ + u32(i3_))];
            l1_ = (_e76 + select(0f, bitcast<f32>(_e85), ((i3_ + 1i) == bitcast<i32>(_e79))));
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
}

// routine others, kernel 0, extent 1
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
            let _e45 = slab_0_[(at_1_ + u32(i1_))];
            let _e47 = slab_0_[(at_1_ + u32(i1_))];
            let _e49 = l0_;
            l0_ = fma(bitcast<f32>(_e45), bitcast<f32>(_e47), _e49);
            continuing {
                let _e51 = i1_next;
                i1_next = (_e51 + 1i);
            }
        }
        let _e53 = l0_;
        slab_0_[at_0_] = bitcast<u32>(_e53);
        continuing {
            let _e55 = i0_next;
            i0_next = (_e55 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 1i) {
        } else {
            break;
        }
        let _e62 = slab_0_[(at_0_ + 1u)];
        l1_ = bitcast<f32>(_e62);
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < 3i) {
            } else {
                break;
            }
            let _e68 = l1_;
            let _e70 = slab_0_[at_2_];
            let _e76 = slab_0_[(at_1_ + u32(i3_))];
            l1_ = (_e68 + select(1f, bitcast<f32>(_e76), (i3_ == bitcast<i32>(_e70))));
            continuing {
                let _e81 = i3_next;
                i3_next = (_e81 + 1i);
            }
        }
        let _e83 = l1_;
        slab_0_[(at_0_ + 1u)] = bitcast<u32>(_e83);
        continuing {
            let _e85 = i2_next;
            i2_next = (_e85 + 1i);
        }
    }
    i4_next = 0i;
    loop {
        let i4_ = i4_next;
        if (i4_ < 3i) {
        } else {
            break;
        }
        let _e92 = slab_0_[(at_1_ + 1u)];
        let _e95 = slab_0_[at_2_];
        let _e101 = slab_0_[(at_1_ + u32(i4_))];
        slab_0_[(at_1_ + 1u)] = bitcast<u32>((bitcast<f32>(_e92) + select(0f, bitcast<f32>(_e101), (i4_ == bitcast<i32>(_e95)))));
        continuing {
            let _e107 = i4_next;
            i4_next = (_e107 + 1i);
        }
    }
}

// routine strict_products, kernel 0, extent 1
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
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
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
        let _e37 = slab_0_[at_0_];
        l0_ = bitcast<f32>(_e37);
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 3i) {
            } else {
                break;
            }
            let _e44 = l0_;
            let _e46 = slab_0_[at_1_];
            let _e55 = slab_0_[(at_2_ + u32(i1_))];
            l0_ = (_e44 + (select(0f, 1f, (i1_ == bitcast<i32>(_e46))) * bitcast<f32>(_e55)));
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
    let _e67 = slab_0_[(at_0_ + 1u)];
    let _e70 = slab_0_[at_1_];
    let _e74 = slab_0_[at_3_];
    slab_0_[(at_0_ + 1u)] = bitcast<u32>((bitcast<f32>(_e67) + select(0f, bitcast<f32>(_e74), (0i == bitcast<i32>(_e70)))));
}
