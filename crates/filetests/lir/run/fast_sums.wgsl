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
