// routine eight_bits, kernel 0, extent 4
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
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e35 = u32(i0_);
    let _e39 = (_e35 >> 2u);
    let _e41 = ((_e35 & 3u) * 8u);
    let _e45 = atomicLoad((&slab_0_[(at_0_ + _e39)]));
    let l0_ = ((_e45 >> _e41) & 255u);
    let l1_ = (l0_ & 127u);
    let _e69 = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l1_ << 21u)) * 5192297000000000000000000000000000f)), 2139095040u, (l1_ == 124u)), 2143289344u, (124u < l1_)) | ((l0_ & 128u) << 24u)));
    let l2_ = bitcast<u32>((_e69 + _e69));
    let l3_ = (l2_ & 2147483647u);
    let _e88 = ((l3_ + (((l3_ >> 21u) & 1u) + 3356491775u)) >> 21u);
    let _e102 = ~((255u << _e41));
    let _e103 = atomicAnd((&slab_0_[(at_1_ + _e39)]), _e102);
    let _e104 = atomicOr((&slab_0_[(at_1_ + _e39)]), (((select(select(select(_e88, 124u, (124u < _e88)), (bitcast<u32>((bitcast<f32>(l3_) + 128f)) - 1124073472u), (l3_ < 947912704u)), 126u, (2139095040u < l3_)) | ((l2_ >> 24u) & 128u)) & 255u) << _e41));
    let _e107 = atomicLoad((&slab_0_[(at_2_ + _e39)]));
    let l4_ = ((_e107 >> _e41) & 255u);
    let l5_ = (l4_ & 127u);
    let _e122 = bitcast<f32>((select(bitcast<u32>((bitcast<f32>((l5_ << 20u)) * 1329228000000000000000000000000000000f)), 2143289344u, (l5_ == 127u)) | ((l4_ & 128u) << 24u)));
    let l6_ = bitcast<u32>((_e122 * _e122));
    let l7_ = (l6_ & 2147483647u);
    let _e140 = ((l7_ + (((l7_ >> 20u) & 1u) + 3288858623u)) >> 20u);
    let _e152 = atomicAnd((&slab_0_[(at_3_ + _e39)]), _e102);
    let _e153 = atomicOr((&slab_0_[(at_3_ + _e39)]), (((select(select(select(_e140, 127u, (127u < _e140)), (bitcast<u32>((bitcast<f32>(l7_) + 16384f)) - 1182793728u), (l7_ < 1015021568u)), 127u, (2139095040u < l7_)) | ((l6_ >> 24u) & 128u)) & 255u) << _e41));
    let _e154 = atomicLoad((&slab_0_[(at_0_ + _e39)]));
    let l8_ = ((_e154 >> _e41) & 255u);
    let l9_ = (l8_ & 127u);
    let _e158 = atomicLoad((&slab_0_[(at_2_ + _e39)]));
    let l10_ = ((_e158 >> _e41) & 255u);
    let l11_ = (l10_ & 127u);
    atomicStore((&slab_0_[(at_4_ + _e35)]), bitcast<u32>((bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l9_ << 21u)) * 5192297000000000000000000000000000f)), 2139095040u, (l9_ == 124u)), 2143289344u, (124u < l9_)) | ((l8_ & 128u) << 24u))) + bitcast<f32>((select(bitcast<u32>((bitcast<f32>((l11_ << 20u)) * 1329228000000000000000000000000000000f)), 2143289344u, (l11_ == 127u)) | ((l10_ & 128u) << 24u))))));
}
