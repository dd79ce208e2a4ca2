// routine product_and_sum, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
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
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e37 = u32(i0_);
    let _e41 = slab_0_[(at_1_ + _e37)];
    let _e45 = slab_0_[(at_2_ + _e37)];
    let _e50 = slab_0_[(at_3_ + _e37)];
    slab_0_[(at_0_ + _e37)] = bitcast<u32>(((bitcast<f32>(_e41) * bitcast<f32>(_e45)) + bitcast<f32>(_e50)));
    let _e56 = slab_0_[(at_3_ + _e37)];
    let _e58 = slab_0_[(at_1_ + _e37)];
    let _e60 = slab_0_[(at_2_ + _e37)];
    slab_0_[(at_4_ + _e37)] = bitcast<u32>((bitcast<f32>(_e56) - (bitcast<f32>(_e58) * bitcast<f32>(_e60))));
    let _e67 = slab_0_[(at_1_ + _e37)];
    let _e69 = slab_0_[(at_2_ + _e37)];
    let _e71 = slab_0_[(at_3_ + _e37)];
    slab_0_[(at_5_ + _e37)] = bitcast<u32>(fma(bitcast<f32>(_e67), bitcast<f32>(_e69), bitcast<f32>(_e71)));
}

// routine contraction, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

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
    slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>(0f);
    let _e43 = slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))];
    l0_ = bitcast<f32>(_e43);
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e51 = l0_;
        let _e57 = slab_0_[(at_1_ + u32(((i0_ * 3i) + i2_)))];
        let _e64 = slab_0_[(at_2_ + u32((i1_ + (i2_ * 2i))))];
        l0_ = (_e51 + (bitcast<f32>(_e57) * bitcast<f32>(_e64)));
        continuing {
            let _e68 = i2_next;
            i2_next = (_e68 + 1i);
        }
    }
    let _e71 = l0_;
    slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>(_e71);
}

// routine subnormals, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 1u;

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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e39 = u32(i0_);
    let _e43 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    atomicStore((&slab_0_[(at_0_ + _e39)]), bitcast<u32>((bitcast<f32>(_e43) * 0.5f)));
    let _e50 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    atomicStore((&slab_0_[(at_2_ + _e39)]), bitcast<u32>((bitcast<f32>(_e50) * 2f)));
    let _e57 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    let _e60 = bits;
    atomicStore((&slab_0_[(at_3_ + _e39)]), bitcast<u32>((bitcast<f32>(_e57) + bitcast<f32>(_e60))));
    let _e66 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    let _e75 = ((_e39 & 3u) * 8u);
    let _e83 = atomicAnd((&slab_0_[(at_4_ + (_e39 >> 2u))]), ~((255u << _e75)));
    let _e84 = atomicOr((&slab_0_[(at_4_ + (_e39 >> 2u))]), (select(0u, 1u, (bitcast<f32>(_e66) == 0f)) << _e75));
    let _e85 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    atomicStore((&slab_0_[(at_5_ + _e39)]), bitcast<u32>((bitcast<f32>(_e85) * 100000000000000000000000000000000000000f)));
    let _e92 = atomicLoad((&slab_0_[(at_1_ + _e39)]));
    atomicStore((&slab_0_[(at_6_ + _e39)]), _e92);
}

// routine quotients, kernel 0, extent 6
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

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
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e35 = u32(i0_);
    let _e39 = slab_0_[(at_1_ + _e35)];
    let _e43 = slab_0_[(at_2_ + _e35)];
    let _e47 = (_e39 & 2147483647u);
    let _e52 = bits;
    let _e53 = bitcast<f32>(_e52);
    let _e56 = bits_1;
    let _e57 = bitcast<f32>(_e56);
    let _e63 = bits_2;
    let _e64 = bitcast<f32>(_e63);
    slab_0_[(at_0_ + _e35)] = bitcast<u32>(select((bitcast<f32>(_e39) / bitcast<f32>(_e43)), select(_e64, select(_e57, _e53, ((_e39 ^ _e43) <= 2147483647u)), ((_e47 != 0u) & (_e47 <= 2139095040u))), ((_e43 & 2147483647u) == 0u)));
    let _e73 = slab_0_[(at_1_ + _e35)];
    slab_0_[(at_3_ + _e35)] = bitcast<u32>(sqrt(bitcast<f32>(_e73)));
    let _e79 = slab_0_[(at_2_ + _e35)];
    let _e82 = bitcast<u32>(1f);
    let _e83 = (_e82 & 2147483647u);
    slab_0_[(at_4_ + _e35)] = bitcast<u32>(select((1f / bitcast<f32>(_e79)), select(_e64, select(_e57, _e53, ((_e82 ^ _e79) <= 2147483647u)), ((_e83 != 0u) & (_e83 <= 2139095040u))), ((_e79 & 2147483647u) == 0u)));
}
