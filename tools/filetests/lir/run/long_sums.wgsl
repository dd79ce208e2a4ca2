// routine long_sums, kernel 0, extent 132
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i4_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 3u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 132u) {
        return;
    }
    let _e31 = (id / 2u);
    let _e34 = (_e31 / 11u);
    let i0_ = bitcast<i32>((_e34 / 3u));
    let i1_ = bitcast<i32>((_e34 % 3u));
    let i2_ = bitcast<i32>((_e31 % 11u));
    let i3_ = bitcast<i32>((id % 2u));
    l0_ = 0f;
    i4_next = 0i;
    loop {
        let i4_ = i4_next;
        if (i4_ < 136i) {
        } else {
            break;
        }
        let _e60 = slab_0_[(at_0_ + u32(((((i0_ * 4503i) + (i1_ * 1501i)) + (i2_ * 136i)) + i4_)))];
        let _e74 = slab_0_[(at_1_ + u32(((((i1_ * 3002i) + (i2_ * 272i)) + i3_) + (i4_ * 2i))))];
        let _e76 = l0_;
        l0_ = fma(bitcast<f32>(_e60), bitcast<f32>(_e74), _e76);
        continuing {
            let _e78 = i4_next;
            i4_next = (_e78 + 1i);
        }
    }
    let _e81 = l0_;
    slab_0_[(at_2_ + u32(((((i0_ * 2i) + (i1_ * 48i)) + (i2_ * 4i)) + i3_)))] = bitcast<u32>(_e81);
}
// routine long_sums, kernel 1, extent 12
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i4_next: i32;

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
    if (id >= 12u) {
        return;
    }
    let _e31 = (id / 2u);
    let i0_ = bitcast<i32>((_e31 / 3u));
    let i1_ = bitcast<i32>((_e31 % 3u));
    let i3_ = bitcast<i32>((id % 2u));
    l0_ = 0f;
    i4_next = 0i;
    loop {
        let i4_ = i4_next;
        if (i4_ < 5i) {
        } else {
            break;
        }
        let _e57 = slab_0_[(at_0_ + u32(((((i0_ * 4503i) + (i1_ * 1501i)) + i4_) + 1496i)))];
        let _e70 = slab_0_[(at_1_ + u32(((((i1_ * 3002i) + i3_) + (i4_ * 2i)) + 2992i)))];
        let _e72 = l0_;
        l0_ = fma(bitcast<f32>(_e57), bitcast<f32>(_e70), _e72);
        continuing {
            let _e74 = i4_next;
            i4_next = (_e74 + 1i);
        }
    }
    let _e77 = l0_;
    slab_0_[(at_2_ + u32(((((i0_ * 2i) + (i1_ * 48i)) + i3_) + 44i)))] = bitcast<u32>(_e77);
}
// routine long_sums, kernel 2, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 64>;
var<workgroup> l2_: array<f32, 16>;
var<workgroup> l3_: array<f32, 4>;
var<workgroup> l4_: array<f32, 2>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 2u) {
        return;
    }
    let i0_ = bitcast<i32>(group);
    l1_ = 0f;
    let _e27 = bitcast<i32>((thread / 2u));
    let _e28 = bitcast<i32>((thread % 2u));
    l1_ = 0f;
    let _e29 = l1_;
    let _e31 = (i0_ * 2i);
    let _e35 = ((_e31 + (_e27 * 4i)) + _e28);
    let _e40 = slab_0_[(at_0_ + u32(_e35))];
    l1_ = (_e29 + bitcast<f32>(_e40));
    if (thread < 8u) {
        let _e45 = l1_;
        let _e51 = slab_0_[(at_0_ + u32((_e35 + 128i)))];
        l1_ = (_e45 + bitcast<f32>(_e51));
    }
    let _e54 = l1_;
    let _e56 = ((_e27 * 2i) + _e28);
    l0_[_e56] = _e54;
    workgroupBarrier();
    if (thread < 16u) {
        let _e61 = l0_[_e56];
        let _e65 = l0_[(_e56 + 32i)];
        let _e70 = l0_[(_e56 + 16i)];
        let _e74 = l0_[(_e56 + 48i)];
        l2_[_e56] = ((_e61 + _e65) + (_e70 + _e74));
    }
    workgroupBarrier();
    if (thread < 4u) {
        let _e82 = l2_[_e56];
        let _e86 = l2_[(_e56 + 8i)];
        let _e90 = l2_[(_e56 + 4i)];
        let _e94 = l2_[(_e56 + 12i)];
        l3_[_e56] = ((_e82 + _e86) + (_e90 + _e94));
    }
    workgroupBarrier();
    let _e99 = bitcast<i32>(thread);
    let _e100 = (thread < 2u);
    if _e100 {
        let _e102 = l3_[_e99];
        let _e105 = l3_[(_e99 + 2i)];
        l4_[_e99] = (_e102 + _e105);
    }
    workgroupBarrier();
    if _e100 {
        let _e113 = slab_0_[(at_1_ + u32((_e31 + _e99)))];
        let l5_ = bitcast<f32>(_e113);
        let _e116 = l4_[_e99];
        let l5_1 = (l5_ + _e116);
        slab_0_[(at_1_ + u32((_e31 + _e99)))] = bitcast<u32>(l5_1);
    }
}
