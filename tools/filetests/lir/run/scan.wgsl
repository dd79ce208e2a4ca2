// routine prefix_sums, kernel 0, extent 3
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
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 5i) {
        } else {
            break;
        }
        let _e35 = l0_;
        let _e38 = u32(((i0_ * 5i) + i1_));
        let _e42 = slab_0_[(at_0_ + _e38)];
        l0_ = (_e35 + bitcast<f32>(_e42));
        let _e45 = l0_;
        slab_0_[(at_1_ + _e38)] = bitcast<u32>(_e45);
        continuing {
            let _e49 = i1_next;
            i1_next = (_e49 + 1i);
        }
    }
}
// routine prefix_sums, kernel 1, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: i32;
    var i0_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    l0_ = 0i;
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 5i) {
        } else {
            break;
        }
        let _e32 = l0_;
        let _e34 = (i0_ * -1i);
        let _e41 = slab_0_[(at_0_ + u32((_e34 + 14i)))];
        let _e42 = bitcast<f32>(_e41);
        l0_ = (_e32 + select(select(i32(select(0f, _e42, ((_e42 < 2147483600f) & (_e42 > -2147483600f)))), 2147483647i, (_e42 >= 2147483600f)), i32(-2147483648), (_e42 <= -2147483600f)));
        let _e58 = l0_;
        slab_0_[(at_1_ + u32((_e34 + 4i)))] = bitcast<u32>(_e58);
        continuing {
            let _e65 = i0_next;
            i0_next = (_e65 + 1i);
        }
    }
}
