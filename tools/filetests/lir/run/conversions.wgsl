// routine conversions, kernel 0, extent 5
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
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
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let _e13 = table[1u];
    let at_4_ = _e13.x;
    let _e15 = table[1u];
    let at_5_ = _e15.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 5u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e37 = u32(i0_);
    let _e41 = atomicLoad((&slab_0_[(at_1_ + _e37)]));
    let _e42 = bitcast<f32>(_e41);
    atomicStore((&slab_0_[(at_0_ + _e37)]), bitcast<u32>(select(select(i32(select(0f, _e42, ((_e42 < 2147483600f) & (_e42 > -2147483600f)))), 2147483647i, (_e42 >= 2147483600f)), i32(-2147483648), (_e42 <= -2147483600f))));
    let _e60 = atomicLoad((&slab_0_[(at_1_ + _e37)]));
    let _e61 = bitcast<f32>(_e60);
    let _e70 = select(select(i32(select(0f, _e61, ((_e61 < 2147483600f) & (_e61 > -2147483600f)))), 2147483647i, (_e61 >= 2147483600f)), i32(-2147483648), (_e61 <= -2147483600f));
    let _e73 = select(_e70, 0i, (0i > _e70));
    let _e83 = (_e37 >> 2u);
    let _e85 = ((_e37 & 3u) * 8u);
    let _e90 = ~((255u << _e85));
    let _e91 = atomicAnd((&slab_0_[(at_2_ + _e83)]), _e90);
    let _e92 = atomicOr((&slab_0_[(at_2_ + _e83)]), ((bitcast<u32>(select(_e73, 255i, (255i < _e73))) & 255u) << _e85));
    let _e93 = atomicLoad((&slab_0_[(at_1_ + _e37)]));
    let _e101 = atomicAnd((&slab_0_[(at_3_ + _e83)]), _e90);
    let _e102 = atomicOr((&slab_0_[(at_3_ + _e83)]), (select(0u, 1u, !((bitcast<f32>(_e93) == 0f))) << _e85));
    let _e103 = atomicLoad((&slab_0_[(at_1_ + _e37)]));
    atomicStore((&slab_0_[(at_4_ + _e37)]), _e103);
    let _e107 = atomicLoad((&slab_0_[(at_1_ + _e37)]));
    let _e108 = bitcast<f32>(_e107);
    let _e123 = atomicAnd((&slab_0_[(at_5_ + _e83)]), _e90);
    let _e124 = atomicOr((&slab_0_[(at_5_ + _e83)]), ((bitcast<u32>(select(select(i32(select(0f, _e108, ((_e108 < 2147483600f) & (_e108 > -2147483600f)))), 2147483647i, (_e108 >= 2147483600f)), i32(-2147483648), (_e108 <= -2147483600f))) & 255u) << _e85));
}
