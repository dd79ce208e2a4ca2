// routine zeros, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 3>;
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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let _e19 = table[1u];
    let at_7_ = _e19.w;
    let _e23 = table[2u];
    let at_8_ = _e23.x;
    let _e25 = table[2u];
    let at_9_ = _e25.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e47 = u32(i0_);
    let _e51 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    let _e55 = atomicLoad((&slab_0_[(at_2_ + _e47)]));
    atomicStore((&slab_0_[(at_0_ + _e47)]), bitcast<u32>((bitcast<f32>(_e51) + bitcast<f32>(_e55))));
    let _e61 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    let _e63 = atomicLoad((&slab_0_[(at_2_ + _e47)]));
    atomicStore((&slab_0_[(at_3_ + _e47)]), bitcast<u32>((bitcast<f32>(_e61) * bitcast<f32>(_e63))));
    let _e69 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    let _e71 = atomicLoad((&slab_0_[(at_2_ + _e47)]));
    atomicStore((&slab_0_[(at_4_ + _e47)]), bitcast<u32>((bitcast<f32>(_e69) - bitcast<f32>(_e71))));
    let _e77 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    atomicStore((&slab_0_[(at_5_ + _e47)]), bitcast<u32>(-(bitcast<f32>(_e77))));
    let _e83 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    atomicStore((&slab_0_[(at_6_ + _e47)]), bitcast<u32>(abs(bitcast<f32>(_e83))));
    let _e89 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    let _e90 = bitcast<f32>(_e89);
    let _e91 = atomicLoad((&slab_0_[(at_2_ + _e47)]));
    let _e92 = bitcast<f32>(_e91);
    atomicStore((&slab_0_[(at_7_ + _e47)]), bitcast<u32>(select(_e90, _e92, ((_e92 > _e90) || !(((_e91 & 2147483647u) <= 2139095040u))))));
    let _e104 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    let _e105 = bitcast<f32>(_e104);
    let _e106 = atomicLoad((&slab_0_[(at_2_ + _e47)]));
    let _e107 = bitcast<f32>(_e106);
    atomicStore((&slab_0_[(at_8_ + _e47)]), bitcast<u32>(select(_e105, _e107, ((_e107 < _e105) || !(((_e106 & 2147483647u) <= 2139095040u))))));
    let _e117 = atomicLoad((&slab_0_[(at_1_ + _e47)]));
    let _e119 = atomicLoad((&slab_0_[(at_2_ + _e47)]));
    let _e126 = ((_e47 & 3u) * 8u);
    let _e134 = atomicAnd((&slab_0_[(at_9_ + (_e47 >> 2u))]), ~((255u << _e126)));
    let _e135 = atomicOr((&slab_0_[(at_9_ + (_e47 >> 2u))]), (select(0u, 1u, (bitcast<f32>(_e117) == bitcast<f32>(_e119))) << _e126));
}

// routine nans, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 4>;
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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let _e19 = table[1u];
    let at_7_ = _e19.w;
    let _e23 = table[2u];
    let at_8_ = _e23.x;
    let _e25 = table[2u];
    let at_9_ = _e25.y;
    let _e27 = table[2u];
    let at_10_ = _e27.z;
    let _e29 = table[2u];
    let at_11_ = _e29.w;
    let _e33 = table[3u];
    let at_12_ = _e33.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e55 = u32(i0_);
    let _e59 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e63 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e67 = (_e55 >> 2u);
    let _e69 = ((_e55 & 3u) * 8u);
    let _e76 = ~((255u << _e69));
    let _e77 = atomicAnd((&slab_0_[(at_0_ + _e67)]), _e76);
    let _e78 = atomicOr((&slab_0_[(at_0_ + _e67)]), (select(0u, 1u, (bitcast<f32>(_e59) < bitcast<f32>(_e63))) << _e69));
    let _e79 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e81 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e88 = atomicAnd((&slab_0_[(at_3_ + _e67)]), _e76);
    let _e89 = atomicOr((&slab_0_[(at_3_ + _e67)]), (select(0u, 1u, (bitcast<f32>(_e79) <= bitcast<f32>(_e81))) << _e69));
    let _e90 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e92 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e99 = atomicAnd((&slab_0_[(at_4_ + _e67)]), _e76);
    let _e100 = atomicOr((&slab_0_[(at_4_ + _e67)]), (select(0u, 1u, (bitcast<f32>(_e90) == bitcast<f32>(_e92))) << _e69));
    let _e101 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e103 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e111 = atomicAnd((&slab_0_[(at_5_ + _e67)]), _e76);
    let _e112 = atomicOr((&slab_0_[(at_5_ + _e67)]), (select(0u, 1u, !((bitcast<f32>(_e101) == bitcast<f32>(_e103)))) << _e69));
    let _e113 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e114 = bitcast<f32>(_e113);
    let _e115 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e116 = bitcast<f32>(_e115);
    atomicStore((&slab_0_[(at_6_ + _e55)]), bitcast<u32>(select(_e114, _e116, ((_e116 > _e114) || !(((_e115 & 2147483647u) <= 2139095040u))))));
    let _e128 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e129 = bitcast<f32>(_e128);
    let _e130 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e131 = bitcast<f32>(_e130);
    atomicStore((&slab_0_[(at_7_ + _e55)]), bitcast<u32>(select(_e129, _e131, ((_e131 < _e129) || !(((_e130 & 2147483647u) <= 2139095040u))))));
    let _e141 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e142 = bitcast<f32>(_e141);
    atomicStore((&slab_0_[(at_8_ + _e55)]), bitcast<u32>(select(_e142, 0f, ((0f > _e142) && ((_e141 & 2147483647u) <= 2139095040u)))));
    let _e152 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e153 = bitcast<f32>(_e152);
    let _e158 = select(_e153, 0f, ((0f > _e153) && ((_e152 & 2147483647u) <= 2139095040u)));
    atomicStore((&slab_0_[(at_9_ + _e55)]), bitcast<u32>(select(_e158, 1f, ((1f < _e158) && ((bitcast<u32>(_e158) & 2147483647u) <= 2139095040u)))));
    let _e169 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    atomicStore((&slab_0_[(at_10_ + _e55)]), bitcast<u32>(select(0f, 1f, (bitcast<f32>(_e169) == 0f))));
    let _e176 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e178 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    let _e181 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    let _e183 = atomicLoad((&slab_0_[(at_2_ + _e55)]));
    atomicStore((&slab_0_[(at_11_ + _e55)]), bitcast<u32>(select(bitcast<f32>(_e183), bitcast<f32>(_e181), (bitcast<f32>(_e176) < bitcast<f32>(_e178)))));
    let _e189 = atomicLoad((&slab_0_[(at_1_ + _e55)]));
    atomicStore((&slab_0_[(at_12_ + _e55)]), bitcast<u32>(select(0f, 1f, (!((bitcast<f32>(_e189) == 0f)) | false))));
}

// routine conversions, kernel 0, extent 8
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 3>;
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
    let _e17 = table[1u];
    let at_6_ = _e17.z;
    let _e19 = table[1u];
    let at_7_ = _e19.w;
    let _e23 = table[2u];
    let at_8_ = _e23.x;
    let _e25 = table[2u];
    let at_9_ = _e25.y;
    let _e27 = table[2u];
    let at_10_ = _e27.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 8u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e49 = u32(i0_);
    let _e53 = atomicLoad((&slab_0_[(at_1_ + _e49)]));
    let _e54 = bitcast<f32>(_e53);
    atomicStore((&slab_0_[(at_0_ + _e49)]), bitcast<u32>(select(select(i32(select(0f, _e54, ((_e54 < 2147483600f) & (_e54 > -2147483600f)))), 2147483647i, (_e54 >= 2147483600f)), i32(-2147483648), (_e54 <= -2147483600f))));
    let _e72 = atomicLoad((&slab_0_[(at_1_ + _e49)]));
    let _e77 = (_e49 >> 2u);
    let _e79 = ((_e49 & 3u) * 8u);
    let _e86 = ~((255u << _e79));
    let _e87 = atomicAnd((&slab_0_[(at_2_ + _e77)]), _e86);
    let _e88 = atomicOr((&slab_0_[(at_2_ + _e77)]), (select(0u, 1u, !((bitcast<f32>(_e72) == 0f))) << _e79));
    let _e91 = atomicLoad((&slab_0_[(at_4_ + _e49)]));
    atomicStore((&slab_0_[(at_3_ + _e49)]), bitcast<u32>(f32(bitcast<i32>(_e91))));
    let _e97 = atomicLoad((&slab_0_[(at_4_ + _e49)]));
    let _e105 = atomicAnd((&slab_0_[(at_5_ + _e77)]), _e86);
    let _e106 = atomicOr((&slab_0_[(at_5_ + _e77)]), (select(0u, 1u, (bitcast<i32>(_e97) != 0i)) << _e79));
    let _e109 = atomicLoad((&slab_0_[(at_7_ + _e77)]));
    atomicStore((&slab_0_[(at_6_ + _e49)]), bitcast<u32>(select(0f, 1f, (((_e109 >> _e79) & 255u) != 0u))));
    let _e118 = atomicLoad((&slab_0_[(at_7_ + _e77)]));
    atomicStore((&slab_0_[(at_8_ + _e49)]), bitcast<u32>(select(0i, 1i, (((_e118 >> _e79) & 255u) != 0u))));
    let _e127 = atomicLoad((&slab_0_[(at_1_ + _e49)]));
    let _e128 = bitcast<f32>(_e127);
    let _e130 = atomicLoad((&slab_0_[(at_1_ + _e49)]));
    atomicStore((&slab_0_[(at_9_ + _e49)]), bitcast<u32>(bitcast<i32>(select(1f, bitcast<f32>(_e130), (_e128 == _e128)))));
    let _e137 = atomicLoad((&slab_0_[(at_4_ + _e49)]));
    atomicStore((&slab_0_[(at_10_ + _e49)]), bitcast<u32>(bitcast<f32>((bitcast<i32>(_e137) & 8388607i))));
}
