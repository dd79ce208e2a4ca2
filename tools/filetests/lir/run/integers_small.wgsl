// routine small, kernel 0, extent 3
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
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = u32(i0_);
    let _e35 = ((_e30 & 3u) * 8u);
    let _e39 = atomicLoad((&slab_0_[(at_0_ + (_e30 >> 2u))]));
    let _e58 = atomicAnd((&slab_0_[(at_0_ + (_e30 >> 2u))]), ~((255u << _e35)));
    let _e59 = atomicOr((&slab_0_[(at_0_ + (_e30 >> 2u))]), ((bitcast<u32>((((((-(((bitcast<i32>((_e39 >> _e35)) << 24u) >> 24u)) << 24u) >> 24u) + -1i) << 24u) >> 24u)) & 255u) << _e35));
    let _e63 = ((_e30 & 1u) * 16u);
    let _e66 = atomicLoad((&slab_0_[(at_1_ + (_e30 >> 1u))]));
    let _e75 = atomicAnd((&slab_0_[(at_1_ + (_e30 >> 1u))]), ~((65535u << _e63)));
    let _e76 = atomicOr((&slab_0_[(at_1_ + (_e30 >> 1u))]), (((((_e66 >> _e63) & 65535u) + 65535u) & 65535u) << _e63));
    let _e79 = atomicLoad((&slab_0_[(at_2_ + _e30)]));
    atomicStore((&slab_0_[(at_2_ + _e30)]), (select(_e79, 7u, (7u > _e79)) + 4294967288u));
}
