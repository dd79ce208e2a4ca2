// routine transposed_twice, kernel 0, extent 64
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<vec4<u32>>;
var<workgroup> l0_: array<f32, 1056>;

@compute @workgroup_size(256, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 64u) {
        return;
    }
    let i0_ = bitcast<i32>((group / 8u));
    let i1_ = bitcast<i32>((group % 8u));
    let _e29 = bitcast<i32>((thread / 8u));
    let _e30 = bitcast<i32>((thread % 8u));
    let _e46 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2080i)) + (_e29 * 65i)) + _e30)))];
    let _e53 = ((_e29 * 33i) + (_e30 * 4i));
    l0_[_e53] = bitcast<f32>(_e46.x);
    let _e56 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2080i)) + (_e29 * 65i)) + _e30)))];
    l0_[(_e53 + 1i)] = bitcast<f32>(_e56.y);
    let _e62 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2080i)) + (_e29 * 65i)) + _e30)))];
    l0_[(_e53 + 2i)] = bitcast<f32>(_e62.z);
    let _e68 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2080i)) + (_e29 * 65i)) + _e30)))];
    l0_[(_e53 + 3i)] = bitcast<f32>(_e68.w);
    workgroupBarrier();
    let _e76 = (_e29 + (_e30 * 132i));
    let _e78 = l0_[_e76];
    let _e82 = l0_[(_e76 + 33i)];
    let _e87 = l0_[(_e76 + 66i)];
    let _e92 = l0_[(_e76 + 99i)];
    slab_0_[((at_1_ >> 2u) + u32(((((i0_ * 2048i) + (i1_ * 8i)) + (_e29 * 64i)) + _e30)))] = vec4<u32>(bitcast<u32>(_e78), bitcast<u32>(_e82), bitcast<u32>(_e87), bitcast<u32>(_e92));
}
// routine transposed_twice, kernel 1, extent 1024
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
    if (group >= 16u) {
        return;
    }
    let id = ((group * 64u) + thread);
    let i0_ = bitcast<i32>((id / 256u));
    let i1_ = bitcast<i32>((id % 256u));
    let _e39 = slab_0_[(at_1_ + u32(((i0_ + (i1_ * 260i)) + 256i)))];
    slab_0_[(at_0_ + u32((((i0_ * 256i) + i1_) + 65536i)))] = _e39;
}
// routine transposed_twice, kernel 2, extent 64
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<vec4<u32>>;
var<workgroup> l0_: array<f32, 1056>;

@compute @workgroup_size(256, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 64u) {
        return;
    }
    let i0_ = bitcast<i32>((group / 8u));
    let i1_ = bitcast<i32>((group % 8u));
    let _e29 = bitcast<i32>((thread / 8u));
    let _e30 = bitcast<i32>((thread % 8u));
    let _e46 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2048i)) + (_e29 * 64i)) + _e30)))];
    let _e53 = ((_e29 * 33i) + (_e30 * 4i));
    l0_[_e53] = bitcast<f32>(_e46.x);
    let _e56 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2048i)) + (_e29 * 64i)) + _e30)))];
    l0_[(_e53 + 1i)] = bitcast<f32>(_e56.y);
    let _e62 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2048i)) + (_e29 * 64i)) + _e30)))];
    l0_[(_e53 + 2i)] = bitcast<f32>(_e62.z);
    let _e68 = slab_0_[((at_0_ >> 2u) + u32(((((i0_ * 8i) + (i1_ * 2048i)) + (_e29 * 64i)) + _e30)))];
    l0_[(_e53 + 3i)] = bitcast<f32>(_e68.w);
    workgroupBarrier();
    let _e76 = (_e29 + (_e30 * 132i));
    let _e78 = l0_[_e76];
    let _e82 = l0_[(_e76 + 33i)];
    let _e87 = l0_[(_e76 + 66i)];
    let _e92 = l0_[(_e76 + 99i)];
    slab_0_[((at_1_ >> 2u) + u32(((((i0_ * 2080i) + (i1_ * 8i)) + (_e29 * 65i)) + _e30)))] = vec4<u32>(bitcast<u32>(_e78), bitcast<u32>(_e82), bitcast<u32>(_e87), bitcast<u32>(_e92));
}
// routine transposed_twice, kernel 3, extent 1024
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
    if (group >= 16u) {
        return;
    }
    let id = ((group * 64u) + thread);
    let i0_ = bitcast<i32>((id / 4u));
    let i1_ = bitcast<i32>((id % 4u));
    let _e39 = slab_0_[(at_1_ + u32(((i0_ + (i1_ * 256i)) + 65536i)))];
    slab_0_[(at_0_ + u32((((i0_ * 260i) + i1_) + 256i)))] = _e39;
}
