// routine lower_triangle, kernel 0, extent 4
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(4i, (i0_ + 1i))) {
        } else {
            break;
        }
        let _e43 = slab_0_[(at_1_ + u32((i0_ + (i1_ * -1i))))];
        slab_0_[(at_0_ + u32(((i0_ * 4i) + i1_)))] = _e43;
        continuing {
            let _e50 = i1_next;
            i1_next = (_e50 + 1i);
        }
    }
}

// routine upper_triangle, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: i32;
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0i;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(3i, ((i0_ * -1i) + 3i))) {
        } else {
            break;
        }
        let _e38 = l0_;
        let _e46 = slab_0_[(at_0_ + u32(((i0_ * 4i) + i1_)))];
        l0_ = (_e38 + bitcast<i32>(_e46));
        continuing {
            let _e49 = i1_next;
            i1_next = (_e49 + 1i);
        }
    }
    let _e52 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e52);
}

// routine several_ends, kernel 0, extent 5
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: i32;
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
    if (id >= 5u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0i;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(min(min(6i, ((i0_ * -1i) + 6i)), ((i0_ * 2i) + -1i)), symbol_n)) {
        } else {
            break;
        }
        let _e46 = l0_;
        let _e51 = slab_0_[(at_0_ + u32(i1_))];
        l0_ = (_e46 + bitcast<i32>(_e51));
        continuing {
            let _e54 = i1_next;
            i1_next = (_e54 + 1i);
        }
    }
    let _e57 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e57);
}

// routine simplex, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var l0_: i32;
    var i1_next: i32;
    var i2_next: i32;
    var i3_next: i32;

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
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 1i) {
        } else {
            break;
        }
        l0_ = 0i;
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 5i) {
            } else {
                break;
            }
            i2_next = 0i;
            loop {
                let i2_ = i2_next;
                if (i2_ < min(5i, (i1_ + 1i))) {
                } else {
                    break;
                }
                i3_next = 0i;
                loop {
                    let i3_ = i3_next;
                    if (i3_ < min(5i, (i2_ + 1i))) {
                    } else {
                        break;
                    }
                    let _e44 = l0_;
                    l0_ = (_e44 + 1i);
                    continuing {
                        let _e46 = i3_next;
                        i3_next = (_e46 + 1i);
                    }
                }
                continuing {
                    let _e48 = i2_next;
                    i2_next = (_e48 + 1i);
                }
            }
            continuing {
                let _e50 = i1_next;
                i1_next = (_e50 + 1i);
            }
        }
        let _e52 = l0_;
        slab_0_[at_0_] = bitcast<u32>(_e52);
        continuing {
            let _e56 = i0_next;
            i0_next = (_e56 + 1i);
        }
    }
}
