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
        l1_ = select(_e52, _e51, ((_e51 > _e52) & ((bitcast<u32>(_e52) & 2147483647u) <= 2139095040u)));
        continuing {
            let _e61 = i2_next;
            i2_next = (_e61 + 1i);
        }
    }
    if (thread < 232u) {
        let _e73 = slab_0_[(at_1_ + u32((((i0_ * 1000i) + _e31) + 768i)))];
        let _e74 = bitcast<f32>(_e73);
        let _e75 = l1_;
        l1_ = select(_e75, _e74, ((_e74 > _e75) & ((bitcast<u32>(_e75) & 2147483647u) <= 2139095040u)));
    }
    let _e82 = l1_;
    l0_[_e31] = _e82;
    workgroupBarrier();
    if (thread < 64u) {
        let _e90 = l0_[(_e31 + 192i)];
        let _e94 = l0_[(_e31 + 64i)];
        let _e100 = select(_e94, _e90, ((_e90 > _e94) & ((bitcast<u32>(_e94) & 2147483647u) <= 2139095040u)));
        let _e104 = l0_[(_e31 + 128i)];
        let _e105 = l0_[_e31];
        let _e111 = select(_e105, _e104, ((_e104 > _e105) & ((bitcast<u32>(_e105) & 2147483647u) <= 2139095040u)));
        l2_[_e31] = select(_e111, _e100, ((_e100 > _e111) & ((bitcast<u32>(_e111) & 2147483647u) <= 2139095040u)));
    }
    workgroupBarrier();
    if (thread < 16u) {
        let _e125 = l2_[(_e31 + 48i)];
        let _e129 = l2_[(_e31 + 16i)];
        let _e135 = select(_e129, _e125, ((_e125 > _e129) & ((bitcast<u32>(_e129) & 2147483647u) <= 2139095040u)));
        let _e139 = l2_[(_e31 + 32i)];
        let _e141 = l2_[_e31];
        let _e147 = select(_e141, _e139, ((_e139 > _e141) & ((bitcast<u32>(_e141) & 2147483647u) <= 2139095040u)));
        l3_[_e31] = select(_e147, _e135, ((_e135 > _e147) & ((bitcast<u32>(_e147) & 2147483647u) <= 2139095040u)));
    }
    workgroupBarrier();
    if (thread < 4u) {
        let _e161 = l3_[(_e31 + 12i)];
        let _e165 = l3_[(_e31 + 4i)];
        let _e171 = select(_e165, _e161, ((_e161 > _e165) & ((bitcast<u32>(_e165) & 2147483647u) <= 2139095040u)));
        let _e175 = l3_[(_e31 + 8i)];
        let _e177 = l3_[_e31];
        let _e183 = select(_e177, _e175, ((_e175 > _e177) & ((bitcast<u32>(_e177) & 2147483647u) <= 2139095040u)));
        l4_[_e31] = select(_e183, _e171, ((_e171 > _e183) & ((bitcast<u32>(_e183) & 2147483647u) <= 2139095040u)));
    }
    workgroupBarrier();
    let _e193 = (thread < 1u);
    if _e193 {
        let _e195 = l4_[3i];
        let _e197 = l4_[1i];
        let _e203 = select(_e197, _e195, ((_e195 > _e197) & ((bitcast<u32>(_e197) & 2147483647u) <= 2139095040u)));
        let _e206 = l4_[2i];
        let _e208 = l4_[0i];
        let _e214 = select(_e208, _e206, ((_e206 > _e208) & ((bitcast<u32>(_e208) & 2147483647u) <= 2139095040u)));
        l5_[0i] = select(_e214, _e203, ((_e203 > _e214) & ((bitcast<u32>(_e214) & 2147483647u) <= 2139095040u)));
    }
    workgroupBarrier();
    let _e224 = l5_[0i];
    let l6_1 = select(l6_, _e224, ((_e224 > l6_) & ((_e29 & 2147483647u) <= 2139095040u)));
    storageBarrier();
    if _e193 {
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(l6_1);
    }
}

// routine fast_product, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l1_: array<f32, 40>;
var<workgroup> l2_: array<f32, 56>;

@compute @workgroup_size(35, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_0_: f32;
    var i6_next: i32;
    var i16_next: i32;

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
    let _e27 = bitcast<i32>((thread / 7u));
    let _e28 = bitcast<i32>((thread % 7u));
    let _e30 = (_e27 * 7i);
    let _e31 = (_e30 + _e28);
    let _e36 = slab_0_[(at_0_ + u32(_e31))];
    let l3_ = bitcast<f32>(_e36);
    l0_0_ = l3_;
    storageBarrier();
    i6_next = 0i;
    loop {
        let i6_ = i6_next;
        if (i6_ < 5i) {
        } else {
            break;
        }
        let _e47 = bitcast<i32>((thread / 2u));
        let _e48 = bitcast<i32>((thread % 2u));
        if (thread < 10u) {
            let _e58 = (((i6_ * 8i) + (_e47 * 40i)) + (_e48 * 4i));
            let _e62 = slab_0_[(at_1_ + u32(_e58))];
            let _e66 = (_e47 + (_e48 * 20i));
            l1_[_e66] = bitcast<f32>(_e62);
            let _e74 = slab_0_[(at_1_ + u32((_e58 + 1i)))];
            l1_[(_e66 + 5i)] = bitcast<f32>(_e74);
            let _e83 = slab_0_[(at_1_ + u32((_e58 + 2i)))];
            l1_[(_e66 + 10i)] = bitcast<f32>(_e83);
            let _e93 = slab_0_[(at_1_ + u32((_e58 + 3i)))];
            l1_[(_e66 + 15i)] = bitcast<f32>(_e93);
        }
        workgroupBarrier();
        let _e101 = (((i6_ * 56i) + _e30) + _e28);
        let _e105 = slab_0_[(at_2_ + u32(_e101))];
        l2_[_e31] = bitcast<f32>(_e105);
        workgroupBarrier();
        if (thread < 21u) {
            let _e116 = slab_0_[(at_2_ + u32((_e101 + 35i)))];
            l2_[(_e31 + 35i)] = bitcast<f32>(_e116);
        }
        workgroupBarrier();
        i16_next = 0i;
        loop {
            let i16_ = i16_next;
            if (i16_ < 8i) {
            } else {
                break;
            }
            let l4_ = l1_[(_e27 + (i16_ * 5i))];
            let l5_ = l2_[(_e28 + (i16_ * 7i))];
            let _e131 = l0_0_;
            l0_0_ = fma(l4_, l5_, _e131);
            continuing {
                let _e133 = i16_next;
                i16_next = (_e133 + 1i);
            }
        }
        workgroupBarrier();
        continuing {
            let _e135 = i6_next;
            i6_next = (_e135 + 1i);
        }
    }
    let _e137 = slab_0_[(at_0_ + u32(_e31))];
    let l6_ = bitcast<f32>(_e137);
    let l6_1 = l0_0_;
    slab_0_[(at_0_ + u32(_e31))] = bitcast<u32>(l6_1);
}

// routine normalised, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 256>;
var<workgroup> l2_: array<f32, 64>;
var<workgroup> l3_: array<f32, 16>;
var<workgroup> l4_: array<f32, 4>;
var<workgroup> l5_: array<f32, 1>;
var<workgroup> l6_: array<f32, 256>;
var<workgroup> l8_: array<f32, 64>;
var<workgroup> l9_: array<f32, 16>;
var<workgroup> l10_: array<f32, 4>;
var<workgroup> l11_: array<f32, 1>;

@compute @workgroup_size(256, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;
    var l7_: f32;
    var i9_next: i32;
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
    if (group >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(group);
    l1_ = 0f;
    l7_ = 0f;
    let _e34 = u32(i0_);
    let _e38 = slab_0_[(at_0_ + _e34)];
    let l12_ = bitcast<f32>(_e38);
    let _e40 = bitcast<i32>(thread);
    l1_ = 0f;
    let _e41 = l1_;
    let _e43 = (i0_ * 300i);
    let _e44 = (_e43 + _e40);
    let _e45 = u32(_e44);
    let _e48 = slab_0_[(at_1_ + _e45)];
    l1_ = (_e41 + bitcast<f32>(_e48));
    let _e52 = (thread < 44u);
    if _e52 {
        let _e53 = l1_;
        let _e59 = slab_0_[(at_1_ + u32((_e44 + 256i)))];
        l1_ = (_e53 + bitcast<f32>(_e59));
    }
    let _e62 = l1_;
    l0_[_e40] = _e62;
    workgroupBarrier();
    let _e66 = (thread < 64u);
    if _e66 {
        let _e67 = l0_[_e40];
        let _e71 = l0_[(_e40 + 128i)];
        let _e76 = l0_[(_e40 + 64i)];
        let _e80 = l0_[(_e40 + 192i)];
        l2_[_e40] = ((_e67 + _e71) + (_e76 + _e80));
    }
    workgroupBarrier();
    let _e86 = (thread < 16u);
    if _e86 {
        let _e88 = l2_[_e40];
        let _e92 = l2_[(_e40 + 32i)];
        let _e97 = l2_[(_e40 + 16i)];
        let _e101 = l2_[(_e40 + 48i)];
        l3_[_e40] = ((_e88 + _e92) + (_e97 + _e101));
    }
    workgroupBarrier();
    let _e106 = (thread < 4u);
    if _e106 {
        let _e108 = l3_[_e40];
        let _e112 = l3_[(_e40 + 8i)];
        let _e117 = l3_[(_e40 + 4i)];
        let _e121 = l3_[(_e40 + 12i)];
        l4_[_e40] = ((_e108 + _e112) + (_e117 + _e121));
    }
    workgroupBarrier();
    let _e126 = (thread < 1u);
    if _e126 {
        let _e129 = l4_[0i];
        let _e132 = l4_[2i];
        let _e136 = l4_[1i];
        let _e139 = l4_[3i];
        l5_[0i] = ((_e129 + _e132) + (_e136 + _e139));
    }
    workgroupBarrier();
    let _e145 = l5_[0i];
    let l12_1 = (l12_ + _e145);
    storageBarrier();
    if _e126 {
        slab_0_[(at_0_ + _e34)] = bitcast<u32>(l12_1);
    }
    storageBarrier();
    let _e148 = slab_0_[(at_0_ + _e34)];
    let l13_ = (bitcast<f32>(_e148) / 300f);
    i9_next = 0i;
    loop {
        let i9_ = i9_next;
        if (i9_ < 300i) {
        } else {
            break;
        }
        let _e159 = slab_0_[(at_1_ + u32((_e43 + i9_)))];
        let l14_ = (bitcast<f32>(_e159) - l13_);
        if _e126 {
            let _e164 = slab_0_[(at_2_ + _e34)];
            slab_0_[(at_2_ + _e34)] = bitcast<u32>(fma(l14_, l14_, bitcast<f32>(_e164)));
        }
        storageBarrier();
        continuing {
            let _e168 = i9_next;
            i9_next = (_e168 + 1i);
        }
    }
    let _e172 = slab_0_[(at_2_ + _e34)];
    let _e177 = sqrt(((bitcast<f32>(_e172) / 300f) + 0.00001f));
    let _e179 = bitcast<u32>(1f);
    let _e182 = (_e179 & 2147483647u);
    let _e187 = bits;
    let _e191 = bits_1;
    let _e193 = bitcast<u32>(_e177);
    let _e199 = bits_2;
    let l15_ = select((1f / _e177), select(bitcast<f32>(_e199), select(bitcast<f32>(_e191), bitcast<f32>(_e187), ((_e179 ^ _e193) <= 2147483647u)), ((_e182 != 0u) & (_e182 <= 2139095040u))), ((_e193 & 2147483647u) == 0u));
    let _e206 = slab_0_[(at_1_ + _e45)];
    slab_0_[(at_3_ + _e45)] = bitcast<u32>(((bitcast<f32>(_e206) - l13_) * l15_));
    storageBarrier();
    if _e52 {
        let _e214 = u32((_e44 + 256i));
        let _e217 = slab_0_[(at_1_ + _e214)];
        slab_0_[(at_3_ + _e214)] = bitcast<u32>(((bitcast<f32>(_e217) - l13_) * l15_));
    }
    storageBarrier();
    let _e226 = slab_0_[(at_4_ + _e34)];
    let l16_ = bitcast<f32>(_e226);
    l7_ = 0f;
    let _e228 = l7_;
    let _e229 = slab_0_[(at_3_ + _e45)];
    l7_ = (_e228 + bitcast<f32>(_e229));
    storageBarrier();
    if _e52 {
        let _e232 = l7_;
        let _e237 = slab_0_[(at_3_ + u32((_e44 + 256i)))];
        l7_ = (_e232 + bitcast<f32>(_e237));
    }
    storageBarrier();
    let _e240 = l7_;
    l6_[_e40] = _e240;
    workgroupBarrier();
    if _e66 {
        let _e243 = l6_[_e40];
        let _e246 = l6_[(_e40 + 128i)];
        let _e250 = l6_[(_e40 + 64i)];
        let _e253 = l6_[(_e40 + 192i)];
        l8_[_e40] = ((_e243 + _e246) + (_e250 + _e253));
    }
    workgroupBarrier();
    if _e86 {
        let _e259 = l8_[_e40];
        let _e262 = l8_[(_e40 + 32i)];
        let _e266 = l8_[(_e40 + 16i)];
        let _e269 = l8_[(_e40 + 48i)];
        l9_[_e40] = ((_e259 + _e262) + (_e266 + _e269));
    }
    workgroupBarrier();
    if _e106 {
        let _e275 = l9_[_e40];
        let _e278 = l9_[(_e40 + 8i)];
        let _e282 = l9_[(_e40 + 4i)];
        let _e285 = l9_[(_e40 + 12i)];
        l10_[_e40] = ((_e275 + _e278) + (_e282 + _e285));
    }
    workgroupBarrier();
    if _e126 {
        let _e291 = l10_[0i];
        let _e293 = l10_[2i];
        let _e296 = l10_[1i];
        let _e298 = l10_[3i];
        l11_[0i] = ((_e291 + _e293) + (_e296 + _e298));
    }
    workgroupBarrier();
    let _e304 = l11_[0i];
    let l16_1 = (l16_ + _e304);
    if _e126 {
        slab_0_[(at_4_ + _e34)] = bitcast<u32>(l16_1);
    }
}
