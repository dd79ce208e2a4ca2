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
    let _e45 = select(_e37, 0f, ((0f > _e37) && ((_e36 & 2147483647u) <= 2139095040u)));
    let _e53 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let _e65 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    atomicStore((&slab_0_[(at_1_ + _e30)]), bitcast<u32>(((((select(_e45, 1f, ((1f < _e45) && ((bitcast<u32>(_e45) & 2147483647u) <= 2139095040u))) + select(0f, 10f, (0f < bitcast<f32>(_e53)))) + select(0f, 100f, ((0f < l0_) & (l0_ < 1f)))) + select(0f, 1f, (bitcast<f32>(_e65) == 0f))) + 0.5f)));
    let _e75 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let l1_ = (0f <= bitcast<f32>(_e75));
    let _e78 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let l2_ = !((bitcast<f32>(_e78) == 0f));
    let _e82 = atomicLoad((&slab_0_[(at_0_ + _e30)]));
    let _e94 = ((_e30 & 3u) * 8u);
    let _e102 = atomicAnd((&slab_0_[(at_2_ + (_e30 >> 2u))]), ~((255u << _e94)));
    let _e103 = atomicOr((&slab_0_[(at_2_ + (_e30 >> 2u))]), (select(0u, 1u, select(true, l2_, select((l1_ == false), l1_, (bitcast<f32>(_e82) < 1f)))) << _e94));
}
