// routine brain, kernel 0, extent 4
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
    let _e9 = table[0u];
    let at_3_ = _e9.w;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = u32(i0_);
    let _e34 = (_e32 >> 1u);
    let _e36 = ((_e32 & 1u) * 16u);
    let _e40 = atomicLoad((&slab_0_[(at_0_ + _e34)]));
    let l0_ = ((_e40 >> _e36) & 65535u);
    let l1_ = (l0_ & 32767u);
    let _e48 = atomicLoad((&slab_0_[(at_1_ + _e34)]));
    let l2_ = ((_e48 >> _e36) & 65535u);
    let l3_ = (l2_ & 32767u);
    let l4_ = bitcast<u32>((bitcast<f32>((select((l1_ << 16u), 2143289344u, (32640u < l1_)) | ((l0_ & 32768u) << 16u))) * bitcast<f32>((select((l3_ << 16u), 2143289344u, (32640u < l3_)) | ((l2_ & 32768u) << 16u)))));
    let l5_ = (l4_ & 2147483647u);
    let _e79 = ((l5_ + (((l5_ >> 16u) & 1u) + 32767u)) >> 16u);
    let l6_ = ((select(select(_e79, 32640u, (32640u < _e79)), 32704u, (2139095040u < l5_)) | ((l4_ >> 16u) & 32768u)) & 65535u);
    let l7_ = (l6_ & 32767u);
    let _e89 = atomicLoad((&slab_0_[(at_0_ + _e34)]));
    let l8_ = ((_e89 >> _e36) & 65535u);
    let l9_ = (l8_ & 32767u);
    let l10_ = bitcast<u32>((bitcast<f32>((select((l7_ << 16u), 2143289344u, (32640u < l7_)) | ((l6_ & 32768u) << 16u))) + bitcast<f32>((select((l9_ << 16u), 2143289344u, (32640u < l9_)) | ((l8_ & 32768u) << 16u)))));
    let l11_ = (l10_ & 2147483647u);
    let _e115 = ((l11_ + (((l11_ >> 16u) & 1u) + 32767u)) >> 16u);
    let _e128 = atomicAnd((&slab_0_[(at_2_ + _e34)]), ~((65535u << _e36)));
    let _e129 = atomicOr((&slab_0_[(at_2_ + _e34)]), (((select(select(_e115, 32640u, (32640u < _e115)), 32704u, (2139095040u < l11_)) | ((l10_ >> 16u) & 32768u)) & 65535u) << _e36));
    let _e130 = atomicLoad((&slab_0_[(at_0_ + _e34)]));
    let l12_ = ((_e130 >> _e36) & 65535u);
    let l13_ = (l12_ & 32767u);
    let _e134 = atomicLoad((&slab_0_[(at_1_ + _e34)]));
    let l14_ = ((_e134 >> _e36) & 65535u);
    let l15_ = (l14_ & 32767u);
    atomicStore((&slab_0_[(at_3_ + _e32)]), bitcast<u32>((bitcast<f32>((select((l13_ << 16u), 2143289344u, (32640u < l13_)) | ((l12_ & 32768u) << 16u))) * bitcast<f32>((select((l15_ << 16u), 2143289344u, (32640u < l15_)) | ((l14_ & 32768u) << 16u))))));
}
