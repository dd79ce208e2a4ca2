// routine half_product, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<vec4<u32>>;
var<workgroup> l1_: array<f32, 256>;
var<workgroup> l2_: array<f32, 256>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_0_: f32;
    var l0_1_: f32;
    var l0_2_: f32;
    var l0_3_: f32;
    var i10_next: i32;

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
    l0_0_ = 0f;
    l0_1_ = 0f;
    l0_2_ = 0f;
    l0_3_ = 0f;
    let _e32 = bitcast<i32>((thread / 4u));
    let _e33 = bitcast<i32>((thread % 4u));
    let _e37 = (_e33 * 4i);
    let _e38 = ((_e32 * 16i) + _e37);
    let _e39 = u32(_e38);
    let _e41 = (_e39 >> 1u);
    let _e43 = ((_e39 & 1u) * 16u);
    let _e44 = (at_0_ + _e41);
    let _e52 = slab_0_[(_e44 >> 2u)][(_e44 & 3u)];
    let l3_ = ((_e52 >> _e43) & 65535u);
    let l4_ = (l3_ & 32767u);
    let _e78 = (_e32 + (_e33 * 64i));
    l1_[_e78] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l4_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l4_ == 31744u)), 2143289344u, (31744u < l4_)) | ((l3_ & 32768u) << 16u)));
    let _e82 = (_e38 + 1i);
    let _e83 = u32(_e82);
    let _e84 = (_e83 >> 1u);
    let _e86 = ((_e83 & 1u) * 16u);
    let _e87 = (at_0_ + _e84);
    let _e92 = slab_0_[(_e87 >> 2u)][(_e87 & 3u)];
    let l3_1 = ((_e92 >> _e86) & 65535u);
    let l4_1 = (l3_1 & 32767u);
    l1_[(_e78 + 16i)] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l4_1 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l4_1 == 31744u)), 2143289344u, (31744u < l4_1)) | ((l3_1 & 32768u) << 16u)));
    let _e111 = (_e38 + 2i);
    let _e112 = u32(_e111);
    let _e113 = (_e112 >> 1u);
    let _e115 = ((_e112 & 1u) * 16u);
    let _e116 = (at_0_ + _e113);
    let _e121 = slab_0_[(_e116 >> 2u)][(_e116 & 3u)];
    let l3_2 = ((_e121 >> _e115) & 65535u);
    let l4_2 = (l3_2 & 32767u);
    l1_[(_e78 + 32i)] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l4_2 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l4_2 == 31744u)), 2143289344u, (31744u < l4_2)) | ((l3_2 & 32768u) << 16u)));
    let _e141 = (_e38 + 3i);
    let _e142 = u32(_e141);
    let _e143 = (_e142 >> 1u);
    let _e145 = ((_e142 & 1u) * 16u);
    let _e146 = (at_0_ + _e143);
    let _e151 = slab_0_[(_e146 >> 2u)][(_e146 & 3u)];
    let l3_3 = ((_e151 >> _e145) & 65535u);
    let l4_3 = (l3_3 & 32767u);
    l1_[(_e78 + 48i)] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l4_3 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l4_3 == 31744u)), 2143289344u, (31744u < l4_3)) | ((l3_3 & 32768u) << 16u)));
    workgroupBarrier();
    let _e170 = (at_1_ + _e41);
    let _e175 = slab_0_[(_e170 >> 2u)][(_e170 & 3u)];
    let l5_ = ((_e175 >> _e43) & 65535u);
    let l6_ = (l5_ & 32767u);
    l2_[_e38] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l6_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l6_ == 31744u)), 2143289344u, (31744u < l6_)) | ((l5_ & 32768u) << 16u)));
    let _e193 = (at_1_ + _e84);
    let _e198 = slab_0_[(_e193 >> 2u)][(_e193 & 3u)];
    let l5_1 = ((_e198 >> _e86) & 65535u);
    let l6_1 = (l5_1 & 32767u);
    l2_[_e82] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l6_1 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l6_1 == 31744u)), 2143289344u, (31744u < l6_1)) | ((l5_1 & 32768u) << 16u)));
    let _e215 = (at_1_ + _e113);
    let _e220 = slab_0_[(_e215 >> 2u)][(_e215 & 3u)];
    let l5_2 = ((_e220 >> _e115) & 65535u);
    let l6_2 = (l5_2 & 32767u);
    l2_[_e111] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l6_2 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l6_2 == 31744u)), 2143289344u, (31744u < l6_2)) | ((l5_2 & 32768u) << 16u)));
    let _e237 = (at_1_ + _e143);
    let _e242 = slab_0_[(_e237 >> 2u)][(_e237 & 3u)];
    let l5_3 = ((_e242 >> _e145) & 65535u);
    let l6_3 = (l5_3 & 32767u);
    l2_[_e141] = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l6_3 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l6_3 == 31744u)), 2143289344u, (31744u < l6_3)) | ((l5_3 & 32768u) << 16u)));
    workgroupBarrier();
    i10_next = 0i;
    loop {
        let i10_ = i10_next;
        if (i10_ < 16i) {
        } else {
            break;
        }
        let _e263 = (i10_ * 16i);
        let l7_ = l1_[(_e32 + _e263)];
        let _e267 = (_e37 + _e263);
        let l8_ = l2_[_e267];
        let l8_1 = l2_[(_e267 + 1i)];
        let l8_2 = l2_[(_e267 + 2i)];
        let l8_3 = l2_[(_e267 + 3i)];
        let _e279 = l0_0_;
        l0_0_ = fma(l7_, l8_, _e279);
        let _e281 = l0_1_;
        l0_1_ = fma(l7_, l8_1, _e281);
        let _e283 = l0_2_;
        l0_2_ = fma(l7_, l8_2, _e283);
        let _e285 = l0_3_;
        l0_3_ = fma(l7_, l8_3, _e285);
        continuing {
            let _e287 = i10_next;
            i10_next = (_e287 + 1i);
        }
    }
    workgroupBarrier();
    let l9_ = l0_0_;
    let l9_1 = l0_1_;
    let l9_2 = l0_2_;
    let l9_3 = l0_3_;
    slab_0_[((at_2_ >> 2u) + u32(((_e32 * 4i) + _e33)))] = vec4<u32>(bitcast<u32>(l9_), bitcast<u32>(l9_1), bitcast<u32>(l9_2), bitcast<u32>(l9_3));
}
// routine half_product, kernel 1, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;
var<workgroup> l1_: array<u32, 256>;
var<workgroup> l2_: array<u32, 256>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_0_: u32;
    var l0_1_: u32;
    var l0_2_: u32;
    var l0_3_: u32;
    var i4_next: i32;
    var i7_next: i32;
    var i10_next: i32;

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
    l0_0_ = 0u;
    l0_1_ = 0u;
    l0_2_ = 0u;
    l0_3_ = 0u;
    let _e31 = bitcast<i32>((thread / 16u));
    let _e32 = bitcast<i32>((thread % 16u));
    i4_next = 0i;
    loop {
        let i4_ = i4_next;
        if (i4_ < 4i) {
        } else {
            break;
        }
        let _e44 = u32((((_e31 * 16i) + _e32) + (i4_ * 64i)));
        let _e51 = atomicLoad((&slab_0_[(at_0_ + (_e44 >> 1u))]));
        l1_[((_e31 + (_e32 * 16i)) + (i4_ * 4i))] = ((_e51 >> ((_e44 & 1u) * 16u)) & 65535u);
        continuing {
            let _e61 = i4_next;
            i4_next = (_e61 + 1i);
        }
    }
    workgroupBarrier();
    i7_next = 0i;
    loop {
        let i7_ = i7_next;
        if (i7_ < 4i) {
        } else {
            break;
        }
        let _e70 = (((_e31 * 16i) + _e32) + (i7_ * 64i));
        let _e71 = u32(_e70);
        let _e77 = atomicLoad((&slab_0_[(at_1_ + (_e71 >> 1u))]));
        l2_[_e70] = ((_e77 >> ((_e71 & 1u) * 16u)) & 65535u);
        continuing {
            let _e82 = i7_next;
            i7_next = (_e82 + 1i);
        }
    }
    workgroupBarrier();
    let _e87 = bitcast<i32>((thread / 4u));
    let _e88 = bitcast<i32>((thread % 4u));
    i10_next = 0i;
    loop {
        let i10_ = i10_next;
        if (i10_ < 16i) {
        } else {
            break;
        }
        let _e92 = (i10_ * 16i);
        let l3_ = l1_[(_e87 + _e92)];
        let _e97 = ((_e88 * 4i) + _e92);
        let l4_ = l2_[_e97];
        let l4_1 = l2_[(_e97 + 1i)];
        let l4_2 = l2_[(_e97 + 2i)];
        let l4_3 = l2_[(_e97 + 3i)];
        let l6_ = (l3_ & 32767u);
        let l8_ = (l4_ & 32767u);
        let l9_ = l0_0_;
        let l10_ = (l9_ & 32767u);
        let _e133 = bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l6_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l6_ == 31744u)), 2143289344u, (31744u < l6_)) | ((l3_ & 32768u) << 16u)));
        let l11_ = bitcast<u32>(fma(_e133, bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l8_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l8_ == 31744u)), 2143289344u, (31744u < l8_)) | ((l4_ & 32768u) << 16u))), bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l10_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l10_ == 31744u)), 2143289344u, (31744u < l10_)) | ((l9_ & 32768u) << 16u)))));
        let l12_ = (l11_ & 2147483647u);
        let _e176 = ((l12_ + (((l12_ >> 13u) & 1u) + 3355447295u)) >> 13u);
        l0_0_ = ((select(select(select(_e176, 31744u, (31744u < _e176)), (bitcast<u32>((bitcast<f32>(l12_) + 0.5f)) - 1056964608u), (l12_ < 947912704u)), 32256u, (2139095040u < l12_)) | ((l11_ >> 16u) & 32768u)) & 65535u);
        let l8_1 = (l4_1 & 32767u);
        let l9_1 = l0_1_;
        let l10_1 = (l9_1 & 32767u);
        let l11_1 = bitcast<u32>(fma(_e133, bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l8_1 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l8_1 == 31744u)), 2143289344u, (31744u < l8_1)) | ((l4_1 & 32768u) << 16u))), bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l10_1 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l10_1 == 31744u)), 2143289344u, (31744u < l10_1)) | ((l9_1 & 32768u) << 16u)))));
        let l12_1 = (l11_1 & 2147483647u);
        let _e226 = ((l12_1 + (((l12_1 >> 13u) & 1u) + 3355447295u)) >> 13u);
        l0_1_ = ((select(select(select(_e226, 31744u, (31744u < _e226)), (bitcast<u32>((bitcast<f32>(l12_1) + 0.5f)) - 1056964608u), (l12_1 < 947912704u)), 32256u, (2139095040u < l12_1)) | ((l11_1 >> 16u) & 32768u)) & 65535u);
        let l8_2 = (l4_2 & 32767u);
        let l9_2 = l0_2_;
        let l10_2 = (l9_2 & 32767u);
        let l11_2 = bitcast<u32>(fma(_e133, bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l8_2 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l8_2 == 31744u)), 2143289344u, (31744u < l8_2)) | ((l4_2 & 32768u) << 16u))), bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l10_2 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l10_2 == 31744u)), 2143289344u, (31744u < l10_2)) | ((l9_2 & 32768u) << 16u)))));
        let l12_2 = (l11_2 & 2147483647u);
        let _e275 = ((l12_2 + (((l12_2 >> 13u) & 1u) + 3355447295u)) >> 13u);
        l0_2_ = ((select(select(select(_e275, 31744u, (31744u < _e275)), (bitcast<u32>((bitcast<f32>(l12_2) + 0.5f)) - 1056964608u), (l12_2 < 947912704u)), 32256u, (2139095040u < l12_2)) | ((l11_2 >> 16u) & 32768u)) & 65535u);
        let l8_3 = (l4_3 & 32767u);
        let l9_3 = l0_3_;
        let l10_3 = (l9_3 & 32767u);
        let l11_3 = bitcast<u32>(fma(_e133, bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l8_3 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l8_3 == 31744u)), 2143289344u, (31744u < l8_3)) | ((l4_3 & 32768u) << 16u))), bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l10_3 << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l10_3 == 31744u)), 2143289344u, (31744u < l10_3)) | ((l9_3 & 32768u) << 16u)))));
        let l12_3 = (l11_3 & 2147483647u);
        let _e324 = ((l12_3 + (((l12_3 >> 13u) & 1u) + 3355447295u)) >> 13u);
        l0_3_ = ((select(select(select(_e324, 31744u, (31744u < _e324)), (bitcast<u32>((bitcast<f32>(l12_3) + 0.5f)) - 1056964608u), (l12_3 < 947912704u)), 32256u, (2139095040u < l12_3)) | ((l11_3 >> 16u) & 32768u)) & 65535u);
        continuing {
            let _e333 = i10_next;
            i10_next = (_e333 + 1i);
        }
    }
    workgroupBarrier();
    let l13_ = l0_0_;
    let _e338 = ((_e87 * 16i) + (_e88 * 4i));
    let _e339 = u32(_e338);
    let _e342 = ((_e339 & 1u) * 16u);
    let _e348 = atomicAnd((&slab_0_[(at_2_ + (_e339 >> 1u))]), ~((65535u << _e342)));
    let _e349 = atomicOr((&slab_0_[(at_2_ + (_e339 >> 1u))]), (l13_ << _e342));
    let l13_1 = l0_1_;
    let _e352 = u32((_e338 + 1i));
    let _e355 = ((_e352 & 1u) * 16u);
    let _e361 = atomicAnd((&slab_0_[(at_2_ + (_e352 >> 1u))]), ~((65535u << _e355)));
    let _e362 = atomicOr((&slab_0_[(at_2_ + (_e352 >> 1u))]), (l13_1 << _e355));
    let l13_2 = l0_2_;
    let _e365 = u32((_e338 + 2i));
    let _e368 = ((_e365 & 1u) * 16u);
    let _e374 = atomicAnd((&slab_0_[(at_2_ + (_e365 >> 1u))]), ~((65535u << _e368)));
    let _e375 = atomicOr((&slab_0_[(at_2_ + (_e365 >> 1u))]), (l13_2 << _e368));
    let l13_3 = l0_3_;
    let _e378 = u32((_e338 + 3i));
    let _e381 = ((_e378 & 1u) * 16u);
    let _e387 = atomicAnd((&slab_0_[(at_2_ + (_e378 >> 1u))]), ~((65535u << _e381)));
    let _e388 = atomicOr((&slab_0_[(at_2_ + (_e378 >> 1u))]), (l13_3 << _e381));
}
