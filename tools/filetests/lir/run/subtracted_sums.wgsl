// routine difference, kernel 0, extent 3
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
    let _e29 = slab_0_[(at_0_ + u32(i0_))];
    let l5_ = bitcast<f32>(_e29);
    let _e31 = bitcast<i32>(thread);
    l1_ = 0f;
    let _e32 = l1_;
    let _e35 = ((i0_ * 70i) + _e31);
    let _e39 = slab_0_[(at_1_ + u32(_e35))];
    l1_ = (_e32 + -(bitcast<f32>(_e39)));
    if (thread < 6u) {
        let _e45 = l1_;
        let _e51 = slab_0_[(at_1_ + u32((_e35 + 64i)))];
        l1_ = (_e45 + -(bitcast<f32>(_e51)));
    }
    let _e55 = l1_;
    l0_[_e31] = _e55;
    workgroupBarrier();
    if (thread < 16u) {
        let _e60 = l0_[_e31];
        let _e64 = l0_[(_e31 + 32i)];
        let _e69 = l0_[(_e31 + 16i)];
        let _e73 = l0_[(_e31 + 48i)];
        l2_[_e31] = ((_e60 + _e64) + (_e69 + _e73));
    }
    workgroupBarrier();
    if (thread < 4u) {
        let _e81 = l2_[_e31];
        let _e85 = l2_[(_e31 + 8i)];
        let _e90 = l2_[(_e31 + 4i)];
        let _e94 = l2_[(_e31 + 12i)];
        l3_[_e31] = ((_e81 + _e85) + (_e90 + _e94));
    }
    workgroupBarrier();
    let _e100 = (thread < 1u);
    if _e100 {
        let _e103 = l3_[0i];
        let _e106 = l3_[2i];
        let _e110 = l3_[1i];
        let _e113 = l3_[3i];
        l4_[0i] = ((_e103 + _e106) + (_e110 + _e113));
    }
    workgroupBarrier();
    let _e119 = l4_[0i];
    let l5_1 = (l5_ + _e119);
    storageBarrier();
    if _e100 {
        slab_0_[(at_0_ + u32(i0_))] = bitcast<u32>(l5_1);
    }
}
