// routine extents, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let _e13 = table[1u];
    let symbol_n = i32(_e13.x);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    slab_0_[at_0_] = bitcast<u32>(7f);
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 4i) {
        } else {
            break;
        }
        let _e45 = u32((i0_ + 1i));
        let _e48 = slab_0_[(at_1_ + _e45)];
        let _e53 = slab_0_[(at_0_ + u32(i0_))];
        slab_0_[(at_0_ + _e45)] = bitcast<u32>((bitcast<f32>(_e48) + bitcast<f32>(_e53)));
        continuing {
            let _e59 = i0_next;
            i0_next = (_e59 + 1i);
        }
    }
    slab_0_[at_2_] = bitcast<u32>(0f);
    slab_0_[at_3_] = bitcast<u32>(0i);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(5i, symbol_n)) {
        } else {
            break;
        }
        let _e71 = slab_0_[at_2_];
        let _e76 = slab_0_[(at_1_ + u32(i1_))];
        slab_0_[at_2_] = bitcast<u32>((bitcast<f32>(_e71) + bitcast<f32>(_e76)));
        slab_0_[at_3_] = bitcast<u32>((i1_ + 1i));
        continuing {
            let _e82 = i1_next;
            i1_next = (_e82 + 1i);
        }
    }
}

// routine locals, kernel 0, extent 3
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
        if (i1_ < 2i) {
        } else {
            break;
        }
        let _e34 = l0_;
        let _e43 = slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))];
        l0_ = ((_e34 * 10i) + bitcast<i32>(_e43));
        continuing {
            let _e46 = i1_next;
            i1_next = (_e46 + 1i);
        }
    }
    let _e49 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e49);
}

// routine sums, kernel 0, extent 3
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 4i) {
        } else {
            break;
        }
        let _e35 = l0_;
        let _e42 = slab_0_[(at_0_ + u32(((i0_ * 4i) + i1_)))];
        l0_ = (_e35 + bitcast<f32>(_e42));
        continuing {
            let _e45 = i1_next;
            i1_next = (_e45 + 1i);
        }
    }
    let _e48 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e48);
}
// routine sums, kernel 1, extent 4
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
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
        let _e35 = l0_;
        let _e43 = slab_0_[(at_0_ + u32((i0_ + (i1_ * 4i))))];
        l0_ = (_e35 + -(bitcast<f32>(_e43)));
        continuing {
            let _e47 = i1_next;
            i1_next = (_e47 + 1i);
        }
    }
    let _e50 = l0_;
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e50);
}
