// routine rows_in_vectors, kernel 0, extent 240
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
    if (group >= 4u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 240u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 40u));
    let i1_ = bitcast<i32>((id % 40u));
    l0_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < min(6i, (i0_ + 1i))) {
        } else {
            break;
        }
        let _e44 = l0_;
        let _e51 = slab_0_[(at_0_ + u32(((i0_ * 6i) + i2_)))];
        let _e59 = slab_0_[(at_1_ + u32((i1_ + (i2_ * 40i))))];
        l0_ = (_e44 + (bitcast<f32>(_e51) * bitcast<f32>(_e59)));
        continuing {
            let _e63 = i2_next;
            i2_next = (_e63 + 1i);
        }
    }
    let _e65 = l0_;
    slab_0_[(at_2_ + u32(((i0_ * 40i) + i1_)))] = bitcast<u32>(_e65);
}

// routine fast_rows, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 64>;
var<workgroup> l2_: array<f32, 16>;
var<workgroup> l3_: array<f32, 4>;
var<workgroup> l4_: array<f32, 1>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;

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
    let _e25 = bitcast<i32>(thread);
    l1_ = 0f;
    let _e26 = l1_;
    let _e31 = ((i0_ * 33i) + (_e25 * -1i));
    let _e38 = ((i0_ * 70i) + _e25);
    let _e43 = slab_0_[(at_0_ + u32(_e38))];
    l1_ = (_e26 + select(0f, bitcast<f32>(_e43), (0i < (_e31 + 1i))));
    if (thread < 6u) {
        let _e49 = l1_;
        let _e58 = slab_0_[(at_0_ + u32((_e38 + 64i)))];
        l1_ = (_e49 + select(0f, bitcast<f32>(_e58), (0i < (_e31 + -63i))));
    }
    let _e62 = l1_;
    l0_[_e25] = _e62;
    workgroupBarrier();
    if (thread < 16u) {
        let _e67 = l0_[_e25];
        let _e71 = l0_[(_e25 + 32i)];
        let _e76 = l0_[(_e25 + 16i)];
        let _e80 = l0_[(_e25 + 48i)];
        l2_[_e25] = ((_e67 + _e71) + (_e76 + _e80));
    }
    workgroupBarrier();
    if (thread < 4u) {
        let _e88 = l2_[_e25];
        let _e92 = l2_[(_e25 + 8i)];
        let _e97 = l2_[(_e25 + 4i)];
        let _e101 = l2_[(_e25 + 12i)];
        l3_[_e25] = ((_e88 + _e92) + (_e97 + _e101));
    }
    workgroupBarrier();
    let _e107 = (thread < 1u);
    if _e107 {
        let _e109 = l3_[0i];
        let _e112 = l3_[2i];
        let _e115 = l3_[1i];
        let _e118 = l3_[3i];
        l4_[0i] = ((_e109 + _e112) + (_e115 + _e118));
    }
    workgroupBarrier();
    let _e124 = l4_[0i];
    let l5_ = (0f + _e124);
    if _e107 {
        slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(l5_);
    }
}
