// routine composite, kernel 0, extent 3
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
    let _e34 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let l0_ = bitcast<f32>(_e34);
    let _e36 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let _e37 = bitcast<f32>(_e36);
    let _e40 = select(0f, _e37, (_e37 > 0f));
    let _e44 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let _e56 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    atomicStore((&slab_0_[(at_1_ + _e30)]), bitcast<u32>(((((select(1f, _e40, (_e40 < 1f)) + select(0f, 10f, (0f < bitcast<f32>(_e44)))) + select(0f, 100f, ((0f < l0_) & (l0_ < 1f)))) + select(0f, 1f, (bitcast<f32>(_e56) == 0f))) + 0.5f)));
    let _e66 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let l1_ = (0f <= bitcast<f32>(_e66));
    let _e69 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let l2_ = !((bitcast<f32>(_e69) == 0f));
    let _e73 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let _e85 = ((_e30 & 3u) * 8u);
    let _e93 = atomicAnd((&slab_0_[(at_2_ + (_e30 >> 2u))]), ~((255u << _e85)));
    let _e94 = atomicOr((&slab_0_[(at_2_ + (_e30 >> 2u))]), (select(0u, 1u, select(true, l2_, select((l1_ == false), l1_, (bitcast<f32>(_e73) < 1f)))) << _e85));
}
