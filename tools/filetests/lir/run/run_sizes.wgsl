// routine shifted_rows, kernel 0, extent 12
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i2_next: i32;

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
    if (id >= 12u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < min(1i, (symbol_n + (i0_ * -1i)))) {
        } else {
            break;
        }
        let _e47 = u32(((i0_ * 2i) + i1_));
        let _e51 = slab_0_[(at_1_ + _e47)];
        let _e52 = bitcast<i32>(_e51);
        slab_0_[(at_0_ + _e47)] = bitcast<u32>((_e52 + _e52));
        continuing {
            let _e57 = i2_next;
            i2_next = (_e57 + 1i);
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

// routine outer_products, kernel 0, extent 9
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i2_next: i32;
    var l0_: i32;
    var i3_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let symbol_m = i32(_e7.z);
    let _e10 = table[0u];
    let symbol_n = i32(_e10.w);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 9u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 3u));
    let i1_ = bitcast<i32>((id % 3u));
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < min(min(1i, (symbol_m + (i0_ * -1i))), (symbol_m + (i1_ * -1i)))) {
        } else {
            break;
        }
        l0_ = 0i;
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < min(4i, symbol_n)) {
            } else {
                break;
            }
            let _e56 = l0_;
            let _e58 = (i3_ * 3i);
            let _e64 = slab_0_[(at_0_ + u32((i0_ + _e58)))];
            let _e70 = slab_0_[(at_0_ + u32((i1_ + _e58)))];
            l0_ = (_e56 + (bitcast<i32>(_e64) * bitcast<i32>(_e70)));
            continuing {
                let _e74 = i3_next;
                i3_next = (_e74 + 1i);
            }
        }
        let _e76 = l0_;
        slab_0_[(at_1_ + u32(((i0_ * 3i) + i1_)))] = bitcast<u32>(_e76);
        continuing {
            let _e83 = i2_next;
            i2_next = (_e83 + 1i);
        }
    }
}
// routine outer_products, kernel 1, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i1_next: i32;
    var l0_: i32;
    var i2_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let symbol_m = i32(_e7.z);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(1i, (symbol_m + (i0_ * -1i)))) {
        } else {
            break;
        }
        l0_ = 0i;
        i2_next = 0i;
        loop {
            let i2_ = i2_next;
            if (i2_ < min(3i, symbol_m)) {
            } else {
                break;
            }
            let _e46 = l0_;
            let _e53 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i2_)))];
            l0_ = (_e46 + bitcast<i32>(_e53));
            continuing {
                let _e56 = i2_next;
                i2_next = (_e56 + 1i);
            }
        }
        let _e58 = l0_;
        slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e58);
        continuing {
            let _e63 = i1_next;
            i1_next = (_e63 + 1i);
        }
    }
}
