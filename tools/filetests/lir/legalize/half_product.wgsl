// routine half_product, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i2_next: i32;

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
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    l0_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e43 = u32(((i0_ * 3i) + i2_));
        let _e51 = atomicLoad((&slab_0_[(at_0_ + (_e43 >> 1u))]));
        let l1_ = ((_e51 >> ((_e43 & 1u) * 16u)) & 65535u);
        let l2_ = (l1_ & 32767u);
        let _e60 = u32((i1_ + (i2_ * 2i)));
        let _e66 = atomicLoad((&slab_0_[(at_1_ + (_e60 >> 1u))]));
        let l3_ = ((_e66 >> ((_e60 & 1u) * 16u)) & 65535u);
        let l4_ = (l3_ & 32767u);
        let _e96 = l0_;
        l0_ = fma(bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l2_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l2_ == 31744u)), 2143289344u, (31744u < l2_)) | ((l1_ & 32768u) << 16u))), bitcast<f32>((select((l4_ << 16u), 2143289344u, (32640u < l4_)) | ((l3_ & 32768u) << 16u))), _e96);
        continuing {
            let _e98 = i2_next;
            i2_next = (_e98 + 1i);
        }
    }
    let _e101 = l0_;
    let l5_ = bitcast<u32>(_e101);
    let l6_ = (l5_ & 2147483647u);
    let _e119 = ((l6_ + (((l6_ >> 13u) & 1u) + 3355447295u)) >> 13u);
    let _e131 = u32(((i0_ * 2i) + i1_));
    let _e134 = ((_e131 & 1u) * 16u);
    let _e140 = atomicAnd((&slab_0_[(at_2_ + (_e131 >> 1u))]), ~((65535u << _e134)));
    let _e141 = atomicOr((&slab_0_[(at_2_ + (_e131 >> 1u))]), (((select(select(select(_e119, 31744u, (31744u < _e119)), (bitcast<u32>((bitcast<f32>(l6_) + 0.5f)) - 1056964608u), (l6_ < 947912704u)), 32256u, (2139095040u < l6_)) | ((l5_ >> 16u) & 32768u)) & 65535u) << _e134));
}
