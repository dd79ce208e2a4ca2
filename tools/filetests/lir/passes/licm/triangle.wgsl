// routine bounded_region, kernel 0, extent 4
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;
    var i2_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 4u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < min(4i, (i0_ + 1i))) {
        } else {
            break;
        }
        let _e38 = l0_;
        let _e43 = slab_0_[(at_0_ + u32(i1_))];
        l0_ = (_e38 + bitcast<f32>(_e43));
        continuing {
            let _e46 = i1_next;
            i1_next = (_e46 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e52 = l0_;
        slab_0_[(at_1_ + u32(((i0_ * 3i) + i2_)))] = bitcast<u32>(_e52);
        continuing {
            let _e59 = i2_next;
            i2_next = (_e59 + 1i);
        }
    }
}
