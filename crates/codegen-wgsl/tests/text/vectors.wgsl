// 1 workgroups, 3 words
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<vec4<u32>>;

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
    if (id >= 32u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    let _e38 = u32(((i0_ * 2i) + i1_));
    let _e42 = slab_0_[((at_0_ >> 2u) + _e38)];
    let _e46 = u32(i1_);
    let _e49 = slab_0_[((at_1_ >> 2u) + _e46)];
    let _e53 = (at_1_ + _e46);
    let _e59 = slab_0_[(_e53 >> 2u)][(_e53 & 3u)];
    let _e68 = slab_0_[(_e53 >> 2u)][(_e53 & 3u)];
    let _e77 = slab_0_[(_e53 >> 2u)][(_e53 & 3u)];
    let _e86 = slab_0_[(_e53 >> 2u)][(_e53 & 3u)];
    slab_0_[((at_2_ >> 2u) + _e38)] = vec4<u32>(bitcast<u32>(((bitcast<f32>(_e42.x) * bitcast<f32>(_e49.x)) + bitcast<f32>(_e59))), bitcast<u32>(((bitcast<f32>(_e42.y) * bitcast<f32>(_e49.y)) + bitcast<f32>(_e68))), bitcast<u32>(((bitcast<f32>(_e42.z) * bitcast<f32>(_e49.z)) + bitcast<f32>(_e77))), bitcast<u32>(((bitcast<f32>(_e42.w) * bitcast<f32>(_e49.w)) + bitcast<f32>(_e86))));
}
