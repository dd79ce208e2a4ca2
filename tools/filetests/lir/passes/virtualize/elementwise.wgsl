// routine relu, kernel 0, extent 6
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
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    let _e39 = slab_0_[(at_1_ + u32((i0_ + (i1_ * 3i))))];
    let _e44 = ((bitcast<f32>(_e39) * 2f) + 1f);
    slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>(select(_e44, 0f, ((0f > _e44) && ((bitcast<u32>(_e44) & 2147483647u) <= 2139095040u))));
}
