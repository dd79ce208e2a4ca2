// routine shifted, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e29 = (i0_ + -1i);
    let _e31 = (_e29 >= 0i);
    let _e33 = select(0u, u32(_e29), _e31);
    let _e41 = atomicLoad((&slab_0_[(at_1_ + (_e33 >> 1u))]));
    let _e47 = u32(i0_);
    let _e50 = ((_e47 & 1u) * 16u);
    let _e56 = atomicAnd((&slab_0_[(at_0_ + (_e47 >> 1u))]), ~((65535u << _e50)));
    let _e57 = atomicOr((&slab_0_[(at_0_ + (_e47 >> 1u))]), (select(49088u, ((_e41 >> ((_e33 & 1u) * 16u)) & 65535u), _e31) << _e50));
}
