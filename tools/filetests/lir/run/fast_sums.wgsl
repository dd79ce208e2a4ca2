// routine fast_sums, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 256>;
var<workgroup> l2_: array<f32, 64>;
var<workgroup> l3_: array<f32, 16>;
var<workgroup> l4_: array<f32, 4>;
var<workgroup> l5_: array<f32, 1>;

@compute @workgroup_size(256, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;
    var i2_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(group);
    l1_ = 0f;
    let _e29 = slab_0_[(at_0_ + u32(i0_))];
    let l6_ = bitcast<f32>(_e29);
    let _e31 = bitcast<i32>(thread);
    l1_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e37 = l1_;
        let _e47 = slab_0_[(at_1_ + u32((((i0_ * 1000i) + _e31) + (i2_ * 256i))))];
        l1_ = (_e37 + bitcast<f32>(_e47));
        continuing {
            let _e50 = i2_next;
            i2_next = (_e50 + 1i);
        }
    }
    if (thread < 232u) {
        let _e55 = l1_;
        let _e63 = slab_0_[(at_1_ + u32((((i0_ * 1000i) + _e31) + 768i)))];
        l1_ = (_e55 + bitcast<f32>(_e63));
    }
    let _e66 = l1_;
    l0_[_e31] = _e66;
    workgroupBarrier();
    if (thread < 64u) {
        let _e71 = l0_[_e31];
        let _e75 = l0_[(_e31 + 128i)];
        let _e80 = l0_[(_e31 + 64i)];
        let _e84 = l0_[(_e31 + 192i)];
        l2_[_e31] = ((_e71 + _e75) + (_e80 + _e84));
    }
    workgroupBarrier();
    if (thread < 16u) {
        let _e92 = l2_[_e31];
        let _e96 = l2_[(_e31 + 32i)];
        let _e101 = l2_[(_e31 + 16i)];
        let _e105 = l2_[(_e31 + 48i)];
        l3_[_e31] = ((_e92 + _e96) + (_e101 + _e105));
    }
    workgroupBarrier();
    if (thread < 4u) {
        let _e113 = l3_[_e31];
        let _e117 = l3_[(_e31 + 8i)];
        let _e122 = l3_[(_e31 + 4i)];
        let _e126 = l3_[(_e31 + 12i)];
        l4_[_e31] = ((_e113 + _e117) + (_e122 + _e126));
    }
    workgroupBarrier();
    let _e132 = (thread < 1u);
    if _e132 {
        let _e134 = l4_[0i];
        let _e137 = l4_[2i];
        let _e140 = l4_[1i];
        let _e142 = l4_[3i];
        l5_[0i] = ((_e134 + _e137) + (_e140 + _e142));
    }
    workgroupBarrier();
    let _e148 = l5_[0i];
    let l6_1 = (l6_ + _e148);
    storageBarrier();
    if _e132 {
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(l6_1);
    }
}
// routine fast_sums, kernel 1, extent 1000
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 16u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1000u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    let _e32 = slab_0_[(at_0_ + u32(i0_))];
    l0_ = bitcast<f32>(_e32);
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e40 = l0_;
        let _e47 = slab_0_[(at_1_ + u32((i0_ + (i1_ * 1000i))))];
        l0_ = (_e40 + bitcast<f32>(_e47));
        continuing {
            let _e50 = i1_next;
            i1_next = (_e50 + 1i);
        }
    }
    let _e53 = l0_;
    slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(_e53);
}
// routine fast_sums, kernel 2, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 256>;
var<workgroup> l2_: array<f32, 64>;
var<workgroup> l3_: array<f32, 16>;
var<workgroup> l4_: array<f32, 4>;
var<workgroup> l5_: array<f32, 1>;

@compute @workgroup_size(256, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;
    var bits: u32 = 4286578688u;
    var i2_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(group);
    l1_ = 0f;
    let _e29 = slab_0_[(at_0_ + u32(i0_))];
    let l6_ = bitcast<f32>(_e29);
    let _e31 = bitcast<i32>(thread);
    let _e34 = bits;
    l1_ = bitcast<f32>(_e34);
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e50 = slab_0_[(at_1_ + u32((((i0_ * 1000i) + _e31) + (i2_ * 256i))))];
        let _e51 = bitcast<f32>(_e50);
        let _e52 = l1_;
        l1_ = select(_e51, _e52, ((_e52 > _e51) || !(((bitcast<u32>(_e52) & 2147483647u) <= 2139095040u))));
        continuing {
            let _e62 = i2_next;
            i2_next = (_e62 + 1i);
        }
    }
    if (thread < 232u) {
        let _e74 = slab_0_[(at_1_ + u32((((i0_ * 1000i) + _e31) + 768i)))];
        let _e75 = bitcast<f32>(_e74);
        let _e76 = l1_;
        l1_ = select(_e75, _e76, ((_e76 > _e75) || !(((bitcast<u32>(_e76) & 2147483647u) <= 2139095040u))));
    }
    let _e84 = l1_;
    l0_[_e31] = _e84;
    workgroupBarrier();
    if (thread < 64u) {
        let _e92 = l0_[(_e31 + 192i)];
        let _e96 = l0_[(_e31 + 64i)];
        let _e103 = select(_e92, _e96, ((_e96 > _e92) || !(((bitcast<u32>(_e96) & 2147483647u) <= 2139095040u))));
        let _e107 = l0_[(_e31 + 128i)];
        let _e108 = l0_[_e31];
        let _e115 = select(_e107, _e108, ((_e108 > _e107) || !(((bitcast<u32>(_e108) & 2147483647u) <= 2139095040u))));
        l2_[_e31] = select(_e103, _e115, ((_e115 > _e103) || !(((bitcast<u32>(_e115) & 2147483647u) <= 2139095040u))));
    }
    workgroupBarrier();
    if (thread < 16u) {
        let _e130 = l2_[(_e31 + 48i)];
        let _e134 = l2_[(_e31 + 16i)];
        let _e141 = select(_e130, _e134, ((_e134 > _e130) || !(((bitcast<u32>(_e134) & 2147483647u) <= 2139095040u))));
        let _e145 = l2_[(_e31 + 32i)];
        let _e147 = l2_[_e31];
        let _e154 = select(_e145, _e147, ((_e147 > _e145) || !(((bitcast<u32>(_e147) & 2147483647u) <= 2139095040u))));
        l3_[_e31] = select(_e141, _e154, ((_e154 > _e141) || !(((bitcast<u32>(_e154) & 2147483647u) <= 2139095040u))));
    }
    workgroupBarrier();
    if (thread < 4u) {
        let _e169 = l3_[(_e31 + 12i)];
        let _e173 = l3_[(_e31 + 4i)];
        let _e180 = select(_e169, _e173, ((_e173 > _e169) || !(((bitcast<u32>(_e173) & 2147483647u) <= 2139095040u))));
        let _e184 = l3_[(_e31 + 8i)];
        let _e186 = l3_[_e31];
        let _e193 = select(_e184, _e186, ((_e186 > _e184) || !(((bitcast<u32>(_e186) & 2147483647u) <= 2139095040u))));
        l4_[_e31] = select(_e180, _e193, ((_e193 > _e180) || !(((bitcast<u32>(_e193) & 2147483647u) <= 2139095040u))));
    }
    workgroupBarrier();
    let _e204 = (thread < 1u);
    if _e204 {
        let _e206 = l4_[3i];
        let _e208 = l4_[1i];
        let _e215 = select(_e206, _e208, ((_e208 > _e206) || !(((bitcast<u32>(_e208) & 2147483647u) <= 2139095040u))));
        let _e218 = l4_[2i];
        let _e220 = l4_[0i];
        let _e227 = select(_e218, _e220, ((_e220 > _e218) || !(((bitcast<u32>(_e220) & 2147483647u) <= 2139095040u))));
        l5_[0i] = select(_e215, _e227, ((_e227 > _e215) || !(((bitcast<u32>(_e227) & 2147483647u) <= 2139095040u))));
    }
    workgroupBarrier();
    let _e238 = l5_[0i];
    let l6_1 = select(_e238, l6_, ((l6_ > _e238) || !(((_e29 & 2147483647u) <= 2139095040u))));
    storageBarrier();
    if _e204 {
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(l6_1);
    }
}
