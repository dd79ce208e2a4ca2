// routine shifted_rows, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
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
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(6i, symbol_n)) {
        } else {
            break;
        }
        let _e40 = u32((i0_ + (i1_ * 2i)));
        let _e44 = slab_0_[(at_1_ + _e40)];
        let _e45 = bitcast<i32>(_e44);
        slab_0_[(at_0_ + _e40)] = bitcast<u32>((_e45 + _e45));
        continuing {
            let _e50 = i1_next;
            i1_next = (_e50 + 1i);
        }
    }
}
// routine shifted_rows, kernel 1, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
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
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(6i, symbol_n)) {
        } else {
            break;
        }
        let _e40 = u32((i0_ + (i1_ * 2i)));
        let _e44 = slab_0_[(at_1_ + _e40)];
        let _e53 = slab_0_[(at_1_ + u32((((symbol_n * 2i) + i0_) + -2i)))];
        slab_0_[(at_0_ + _e40)] = bitcast<u32>((bitcast<i32>(_e44) + bitcast<i32>(_e53)));
        continuing {
            let _e59 = i1_next;
            i1_next = (_e59 + 1i);
        }
    }
}

// routine outer_products, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;
    var l0_: i32;
    var i2_next: i32;
    var i3_next: i32;
    var l1_: i32;
    var i4_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let symbol_m = i32(_e9.w);
    let _e14 = table[1u];
    let symbol_n = i32(_e14.x);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    let _e36 = min(3i, symbol_m);
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < _e36) {
        } else {
            break;
        }
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < _e36) {
            } else {
                break;
            }
            l0_ = 0i;
            i2_next = 0i;
            loop {
                let i2_ = i2_next;
                if (i2_ < min(4i, symbol_n)) {
                } else {
                    break;
                }
                let _e50 = l0_;
                let _e51 = (i2_ * 3i);
                let _e57 = slab_0_[(at_0_ + u32((i0_ + _e51)))];
                let _e63 = slab_0_[(at_0_ + u32((i1_ + _e51)))];
                l0_ = (_e50 + (bitcast<i32>(_e57) * bitcast<i32>(_e63)));
                continuing {
                    let _e67 = i2_next;
                    i2_next = (_e67 + 1i);
                }
            }
            let _e70 = l0_;
            slab_0_[(at_1_ + u32(((i0_ * 3i) + i1_)))] = bitcast<u32>(_e70);
            continuing {
                let _e77 = i1_next;
                i1_next = (_e77 + 1i);
            }
        }
        continuing {
            let _e79 = i0_next;
            i0_next = (_e79 + 1i);
        }
    }
    i3_next = 0i;
    loop {
        let i3_ = i3_next;
        if (i3_ < _e36) {
        } else {
            break;
        }
        l1_ = 0i;
        i4_next = 0i;
        loop {
            let i4_ = i4_next;
            if (i4_ < _e36) {
            } else {
                break;
            }
            let _e88 = l1_;
            let _e94 = slab_0_[(at_1_ + u32(((i3_ * 3i) + i4_)))];
            l1_ = (_e88 + bitcast<i32>(_e94));
            continuing {
                let _e97 = i4_next;
                i4_next = (_e97 + 1i);
            }
        }
        let _e99 = l1_;
        slab_0_[(at_2_ + u32(i3_))] = bitcast<u32>(_e99);
        continuing {
            let _e104 = i3_next;
            i3_next = (_e104 + 1i);
        }
    }
}
