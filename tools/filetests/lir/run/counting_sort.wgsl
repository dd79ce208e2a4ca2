// routine counting_sort, kernel 0, extent 8
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 8u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 4u));
    let i1_ = bitcast<i32>((id % 4u));
    slab_0_[(at_0_ + u32(((i0_ * 4i) + i1_)))] = 0u;
}
// routine counting_sort, kernel 1, extent 14
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 14u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 7u));
    let i1_ = bitcast<i32>((id % 7u));
    slab_0_[(at_0_ + u32(((i0_ * 7i) + i1_)))] = bitcast<u32>(0i);
}
// routine counting_sort, kernel 2, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i1_next: i32;
    var l1_: u32;
    var i2_next: i32;
    var i3_next: i32;

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
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 7i) {
        } else {
            break;
        }
        let _e41 = slab_0_[(at_0_ + u32(((i0_ * 7i) + i1_)))];
        let _e43 = (_e41 & 3u);
        let l0_ = bitcast<i32>(_e43);
        let _e46 = (_e43 < 4u);
        let _e50 = (u32((i0_ * 4i)) + _e43);
        let _e54 = slab_0_[(at_1_ + select(0u, _e50, _e46))];
        if _e46 {
            slab_0_[(at_1_ + _e50)] = (select(0u, _e54, _e46) + 1u);
        }
        continuing {
            let _e59 = i1_next;
            i1_next = (_e59 + 1i);
        }
    }
    l1_ = 0u;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 4i) {
        } else {
            break;
        }
        let l2_ = slab_0_[(at_1_ + u32(((i0_ * 4i) + i2_)))];
        let _e72 = l1_;
        slab_0_[(at_1_ + u32(((i0_ * 4i) + i2_)))] = _e72;
        let _e73 = l1_;
        l1_ = (_e73 + l2_);
        continuing {
            let _e75 = i2_next;
            i2_next = (_e75 + 1i);
        }
    }
    i3_next = 0i;
    loop {
        let i3_ = i3_next;
        if (i3_ < 7i) {
        } else {
            break;
        }
        let _e80 = (i0_ * 7i);
        let _e85 = slab_0_[(at_0_ + u32((_e80 + i3_)))];
        let _e86 = (_e85 & 3u);
        let _e88 = (_e86 < 4u);
        let _e90 = u32((i0_ * 4i));
        let _e95 = slab_0_[(at_1_ + select(0u, (_e90 + _e86), _e88))];
        let l3_ = select(0u, _e95, _e88);
        if (l3_ < 7u) {
            slab_0_[(at_2_ + (u32(_e80) + l3_))] = bitcast<u32>(i3_);
        }
        let _e105 = slab_0_[(at_0_ + u32((_e80 + i3_)))];
        let _e106 = (_e105 & 3u);
        let l4_ = bitcast<i32>(_e106);
        let _e108 = (_e106 < 4u);
        let _e109 = (_e90 + _e106);
        let _e113 = slab_0_[(at_1_ + select(0u, _e109, _e108))];
        if _e108 {
            slab_0_[(at_1_ + _e109)] = (select(0u, _e113, _e108) + 1u);
        }
        continuing {
            let _e118 = i3_next;
            i3_next = (_e118 + 1i);
        }
    }
}
