// routine vectors, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

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
    if (id >= 1u) {
        return;
    }
    let _e30 = vec4<u32>(2624366954u, 3783175782u, 4228967636u, 1381410776u);
    slab_0_[at_0_] = _e30.x;
    slab_0_[(at_0_ + 1u)] = _e30.y;
    slab_0_[(at_0_ + 2u)] = _e30.z;
    slab_0_[(at_0_ + 3u)] = _e30.w;
    let _e45 = slab_0_[at_0_];
    let _e46 = slab_0_[(at_0_ + 1u)];
    let _e47 = slab_0_[(at_0_ + 2u)];
    let _e48 = slab_0_[(at_0_ + 3u)];
    slab_0_[at_1_] = vec4<u32>(_e45, _e46, _e47, _e48).x;
    let _e52 = slab_0_[at_0_];
    let _e53 = slab_0_[(at_0_ + 1u)];
    let _e54 = slab_0_[(at_0_ + 2u)];
    let _e55 = slab_0_[(at_0_ + 3u)];
    slab_0_[(at_1_ + 1u)] = vec4<u32>(_e52, _e53, _e54, _e55).y;
    let _e60 = slab_0_[at_0_];
    let _e61 = slab_0_[(at_0_ + 1u)];
    let _e62 = slab_0_[(at_0_ + 2u)];
    let _e63 = slab_0_[(at_0_ + 3u)];
    slab_0_[(at_1_ + 2u)] = vec4<u32>(_e60, _e61, _e62, _e63).z;
    let _e68 = slab_0_[at_0_];
    let _e69 = slab_0_[(at_0_ + 1u)];
    let _e70 = slab_0_[(at_0_ + 2u)];
    let _e71 = slab_0_[(at_0_ + 3u)];
    slab_0_[(at_1_ + 3u)] = vec4<u32>(_e68, _e69, _e70, _e71).w;
    let _e80 = vec4<u32>(1506614715u, 3095893369u, 2260062220u, 2894818692u);
    slab_0_[at_0_] = _e80.x;
    slab_0_[(at_0_ + 1u)] = _e80.y;
    slab_0_[(at_0_ + 2u)] = _e80.z;
    slab_0_[(at_0_ + 3u)] = _e80.w;
}
// routine vectors, kernel 1, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

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
    if (id >= 1u) {
        return;
    }
    let _e30 = slab_0_[at_1_];
    let _e33 = slab_0_[(at_1_ + 1u)];
    let _e37 = slab_0_[(at_1_ + 2u)];
    let _e41 = slab_0_[(at_1_ + 3u)];
    slab_0_[(at_0_ + 4u)] = vec4<u32>(_e30, _e33, _e37, _e41).x;
    let _e47 = slab_0_[at_1_];
    let _e48 = slab_0_[(at_1_ + 1u)];
    let _e49 = slab_0_[(at_1_ + 2u)];
    let _e50 = slab_0_[(at_1_ + 3u)];
    slab_0_[(at_0_ + 5u)] = vec4<u32>(_e47, _e48, _e49, _e50).y;
    let _e56 = slab_0_[at_1_];
    let _e57 = slab_0_[(at_1_ + 1u)];
    let _e58 = slab_0_[(at_1_ + 2u)];
    let _e59 = slab_0_[(at_1_ + 3u)];
    slab_0_[(at_0_ + 6u)] = vec4<u32>(_e56, _e57, _e58, _e59).z;
    let _e65 = slab_0_[at_1_];
    let _e66 = slab_0_[(at_1_ + 1u)];
    let _e67 = slab_0_[(at_1_ + 2u)];
    let _e68 = slab_0_[(at_1_ + 3u)];
    slab_0_[(at_0_ + 7u)] = vec4<u32>(_e65, _e66, _e67, _e68).w;
    let _e78 = vec4<u32>(1991995768u, 3145903183u, 2408600875u, 2175982096u);
    slab_0_[at_2_] = _e78.x;
    slab_0_[(at_2_ + 1u)] = _e78.y;
    slab_0_[(at_2_ + 2u)] = _e78.z;
    slab_0_[(at_2_ + 3u)] = _e78.w;
    let _e90 = slab_0_[at_2_];
    let _e91 = slab_0_[(at_2_ + 1u)];
    let _e92 = slab_0_[(at_2_ + 2u)];
    let _e93 = slab_0_[(at_2_ + 3u)];
    slab_0_[(at_0_ + 8u)] = vec4<u32>(_e90, _e91, _e92, _e93).x;
    let _e99 = slab_0_[at_2_];
    let _e100 = slab_0_[(at_2_ + 1u)];
    let _e101 = slab_0_[(at_2_ + 2u)];
    let _e102 = slab_0_[(at_2_ + 3u)];
    slab_0_[(at_0_ + 9u)] = vec4<u32>(_e99, _e100, _e101, _e102).y;
    let _e108 = slab_0_[at_2_];
    let _e109 = slab_0_[(at_2_ + 1u)];
    let _e110 = slab_0_[(at_2_ + 2u)];
    let _e111 = slab_0_[(at_2_ + 3u)];
    slab_0_[(at_0_ + 10u)] = vec4<u32>(_e108, _e109, _e110, _e111).z;
    slab_0_[(at_0_ + 11u)] = 4275387773u;
}

// routine three_factors, kernel 0, extent 2
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
    if (id >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e30 = u32(i0_);
    let _e32 = (_e30 >> 1u);
    let _e34 = ((_e30 & 1u) * 16u);
    let _e38 = atomicLoad((&slab_0_[(at_0_ + _e32)]));
    let l0_ = ((_e38 >> _e34) & 65535u);
    let l1_ = (l0_ & 32767u);
    let _e44 = atomicLoad((&slab_0_[(at_0_ + _e32)]));
    let l2_ = ((_e44 >> _e34) & 65535u);
    let l3_ = (l2_ & 32767u);
    let l4_ = bitcast<u32>(((bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l1_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l1_ == 31744u)), 2143289344u, (31744u < l1_)) | ((l0_ & 32768u) << 16u))) * bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l3_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l3_ == 31744u)), 2143289344u, (31744u < l3_)) | ((l2_ & 32768u) << 16u)))) * 0.099975586f));
    let l5_ = (l4_ & 2147483647u);
    let _e98 = ((l5_ + (((l5_ >> 13u) & 1u) + 3355447295u)) >> 13u);
    let _e113 = atomicAnd((&slab_0_[(at_1_ + _e32)]), ~((65535u << _e34)));
    let _e114 = atomicOr((&slab_0_[(at_1_ + _e32)]), (((select(select(select(_e98, 31744u, (31744u < _e98)), (bitcast<u32>((bitcast<f32>(l5_) + 0.5f)) - 1056964608u), (l5_ < 947912704u)), 32256u, (2139095040u < l5_)) | ((l4_ >> 16u) & 32768u)) & 65535u) << _e34));
    atomicStore((&slab_0_[(at_2_ + _e30)]), bitcast<u32>((((i0_ * 1000000i) + 2000000i) * 3000i)));
}
