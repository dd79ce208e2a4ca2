// routine half, kernel 0, extent 4
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
    let l4_ = bitcast<u32>((bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l1_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l1_ == 31744u)), 2143289344u, (31744u < l1_)) | ((l0_ & 32768u) << 16u))) + bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l3_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l3_ == 31744u)), 2143289344u, (31744u < l3_)) | ((l2_ & 32768u) << 16u)))));
    let l5_ = (l4_ & 2147483647u);
    let _e100 = ((l5_ + (((l5_ >> 13u) & 1u) + 3355447295u)) >> 13u);
    let l6_ = ((select(select(select(_e100, 31744u, (31744u < _e100)), (bitcast<u32>((bitcast<f32>(l5_) + 0.5f)) - 1056964608u), (l5_ < 947912704u)), 32256u, (2139095040u < l5_)) | ((l4_ >> 16u) & 32768u)) & 65535u);
    let l7_ = (l6_ & 32767u);
    let _e111 = atomicLoad((&slab_0_[(at_1_ + _e34)]));
    let l8_ = ((_e111 >> _e36) & 65535u);
    let l9_ = (l8_ & 32767u);
    let l10_ = bitcast<u32>((bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l7_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l7_ == 31744u)), 2143289344u, (31744u < l7_)) | ((l6_ & 32768u) << 16u))) - bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l9_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l9_ == 31744u)), 2143289344u, (31744u < l9_)) | ((l8_ & 32768u) << 16u)))));
    let l11_ = (l10_ & 2147483647u);
    let _e152 = ((l11_ + (((l11_ >> 13u) & 1u) + 3355447295u)) >> 13u);
    let _e165 = ~((65535u << _e36));
    let _e166 = atomicAnd((&slab_0_[(at_2_ + _e34)]), _e165);
    let _e167 = atomicOr((&slab_0_[(at_2_ + _e34)]), (((select(select(select(_e152, 31744u, (31744u < _e152)), (bitcast<u32>((bitcast<f32>(l11_) + 0.5f)) - 1056964608u), (l11_ < 947912704u)), 32256u, (2139095040u < l11_)) | ((l10_ >> 16u) & 32768u)) & 65535u) << _e36));
    let _e168 = atomicLoad((&slab_0_[(at_0_ + _e34)]));
    let l12_ = ((_e168 >> _e36) & 65535u);
    let l13_ = (l12_ & 32767u);
    let _e172 = atomicLoad((&slab_0_[(at_1_ + _e34)]));
    let l14_ = ((_e172 >> _e36) & 65535u);
    let l15_ = (l14_ & 32767u);
    let l16_ = bitcast<u32>(fma(bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l13_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l13_ == 31744u)), 2143289344u, (31744u < l13_)) | ((l12_ & 32768u) << 16u))), bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l15_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l15_ == 31744u)), 2143289344u, (31744u < l15_)) | ((l14_ & 32768u) << 16u))), 1f));
    let l17_ = (l16_ & 2147483647u);
    let _e214 = ((l17_ + (((l17_ >> 13u) & 1u) + 3355447295u)) >> 13u);
    let _e226 = atomicAnd((&slab_0_[(at_3_ + _e34)]), _e165);
    let _e227 = atomicOr((&slab_0_[(at_3_ + _e34)]), (((select(select(select(_e214, 31744u, (31744u < _e214)), (bitcast<u32>((bitcast<f32>(l17_) + 0.5f)) - 1056964608u), (l17_ < 947912704u)), 32256u, (2139095040u < l17_)) | ((l16_ >> 16u) & 32768u)) & 65535u) << _e36));
}
