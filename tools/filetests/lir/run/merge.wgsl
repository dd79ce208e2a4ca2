// routine add_merged, kernel 0, extent 3
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
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_0_ + _e28)];
    let _e36 = slab_0_[(at_1_ + _e28)];
    slab_0_[(at_0_ + _e28)] = bitcast<u32>((bitcast<f32>(_e32) + bitcast<f32>(_e36)));
}

// routine read_merged, kernel 0, extent 20
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
    if (id >= 20u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 5u));
    let i1_ = bitcast<i32>((id % 5u));
    let _e39 = slab_0_[(at_1_ + u32((i0_ + (i1_ * 4i))))];
    slab_0_[(at_0_ + u32(((i0_ * 5i) + i1_)))] = bitcast<u32>((bitcast<f32>(_e39) * 2f));
}
// routine read_merged, kernel 1, extent 5
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
    if (id >= 5u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(0f);
    let _e34 = slab_0_[(at_0_ + u32(i0_))];
    l0_ = bitcast<f32>(_e34);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 4i) {
        } else {
            break;
        }
        let _e42 = l0_;
        let _e48 = slab_0_[(at_1_ + u32(((i0_ * 4i) + i1_)))];
        l0_ = (_e42 + bitcast<f32>(_e48));
        continuing {
            let _e51 = i1_next;
            i1_next = (_e51 + 1i);
        }
    }
    let _e54 = l0_;
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(_e54);
}
// routine read_merged, kernel 2, extent 20
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
    if (id >= 20u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 4u));
    let i1_ = bitcast<i32>((id % 4u));
    let _e43 = slab_0_[(at_1_ + u32((((i0_ * -4i) + i1_) + 16i)))];
    let _e48 = u32(((i0_ * 4i) + i1_));
    let _e51 = slab_0_[(at_2_ + _e48)];
    slab_0_[(at_0_ + _e48)] = bitcast<u32>((bitcast<f32>(_e43) - bitcast<f32>(_e51)));
}

// routine slice_of_merged, kernel 0, extent 2
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
    let symbol_at = i32(_e7.z);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e34 = u32(((symbol_at * 2i) + i0_));
    let _e43 = slab_0_[(at_1_ + (_e34 >> 2u))];
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>((bitcast<i32>(((_e43 >> ((_e34 & 3u) * 8u)) & 255u)) * 100i));
}

// routine add_many, kernel 0, extent 1027
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
    if (group >= 17u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1027u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e28 = u32(i0_);
    let _e32 = slab_0_[(at_0_ + _e28)];
    let _e38 = slab_0_[(at_1_ + _e28)];
    slab_0_[(at_0_ + _e28)] = bitcast<u32>(((bitcast<f32>(_e32) * 0.5f) + bitcast<f32>(_e38)));
}
