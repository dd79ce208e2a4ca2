// routine guards, kernel 0, extent 6
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
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e29 = (i0_ + -1i);
    let _e34 = ((_e29 >= 0i) & (_e29 < 4i));
    let _e40 = slab_0_[(at_1_ + select(0u, u32(_e29), _e34))];
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(select(-1f, bitcast<f32>(_e40), _e34));
}
// routine guards, kernel 1, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2143289344u;

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
    let _e29 = bits;
    slab_0_[(at_0_ + u32(i0_))] = _e29;
}
// routine guards, kernel 2, extent 8
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
    if (id >= 8u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 4u));
    let i1_ = bitcast<i32>((id % 4u));
    let _e36 = (((i0_ * 2i) + i1_) + -1i);
    let _e41 = ((_e36 >= 0i) & (_e36 < 4i));
    let _e47 = slab_0_[(at_1_ + select(0u, u32(_e36), _e41))];
    slab_0_[(at_0_ + u32(((i0_ * 4i) + i1_)))] = bitcast<u32>(select(0.5f, bitcast<f32>(_e47), _e41));
}
// routine guards, kernel 3, extent 20
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
    let _e33 = (i0_ + -1i);
    let _e39 = (i1_ + -1i);
    let _e44 = (((_e33 >= 0i) & (_e33 < 2i)) & ((_e39 >= 0i) & (_e39 < 3i)));
    let _e54 = slab_0_[(at_1_ + select(0u, u32((((i0_ * 3i) + i1_) + -4i)), _e44))];
    slab_0_[(at_0_ + u32(((i0_ * 5i) + i1_)))] = bitcast<u32>(select(9i, bitcast<i32>(_e54), _e44));
}
