// 2 workgroups, 2 words
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;
@group(0) @binding(2) 
var<storage, read_write> slab_1_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 2u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 100u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e31 = u32(i0_);
    let _e36 = ((_e31 & 3u) * 8u);
    let _e46 = atomicAnd((&slab_0_[(at_0_ + (_e31 >> 2u))]), ~((255u << _e36)));
    let _e47 = atomicOr((&slab_0_[(at_0_ + (_e31 >> 2u))]), ((bitcast<u32>(((i0_ << 24u) >> 24u)) & 255u) << _e36));
    let _e52 = u32(((i0_ * -1i) + 99i));
    let _e58 = ((_e52 & 1u) * 16u);
    let _e66 = atomicAnd((&slab_1_[(at_1_ + (_e52 >> 1u))]), ~((65535u << _e58)));
    let _e67 = atomicOr((&slab_1_[(at_1_ + (_e52 >> 1u))]), (16256u << _e58));
}
