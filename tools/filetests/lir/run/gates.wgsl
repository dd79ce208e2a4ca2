// routine gates, kernel 0, extent 4
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = u32(i0_);
    let _e34 = slab_0_[(at_1_ + _e30)];
    slab_0_[(at_0_ + _e30)] = bitcast<u32>(select(0f, 3f, (0f < bitcast<f32>(_e34))));
    let _e43 = slab_0_[(at_1_ + _e30)];
    let l0_ = bitcast<f32>(_e43);
    slab_0_[(at_2_ + _e30)] = bitcast<u32>(select(0f, 3f, ((0f < l0_) & (l0_ < 1f))));
}
