// routine twice, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;
    var l1_: f32;
    var i2_next: i32;

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
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e37 = l0_;
        let _e44 = slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))];
        l0_ = (_e37 + bitcast<f32>(_e44));
        continuing {
            let _e47 = i1_next;
            i1_next = (_e47 + 1i);
        }
    }
    let _e50 = l0_;
    let _e51 = u32(i0_);
    slab_0_[(at_1_ + _e51)] = bitcast<u32>(_e50);
    let _e55 = l0_;
    slab_0_[(at_2_ + _e51)] = bitcast<u32>((_e55 * 2f));
    let _e61 = (i0_ * 3i);
    slab_0_[(at_0_ + u32(_e61))] = bitcast<u32>(100f);
    l1_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 3i) {
        } else {
            break;
        }
        let _e71 = l1_;
        let _e76 = slab_0_[(at_0_ + u32((_e61 + i2_)))];
        l1_ = (_e71 + bitcast<f32>(_e76));
        continuing {
            let _e79 = i2_next;
            i2_next = (_e79 + 1i);
        }
    }
    let _e81 = l1_;
    slab_0_[(at_0_ + u32((_e61 + 1i)))] = bitcast<u32>(_e81);
}
