// 2 workgroups, 2 words
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l0_: array<f32, 8>;

@compute @workgroup_size(8, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l1_: f32;
    var i2_next: i32;

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
    let _e25 = bitcast<i32>(thread);
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 4i) {
        } else {
            break;
        }
        let _e31 = l1_;
        let _e39 = slab_0_[(at_0_ + u32(((i0_ * 8i) + _e25)))];
        l1_ = (_e31 + (bitcast<f32>(_e39) * 2f));
        continuing {
            let _e44 = i2_next;
            i2_next = (_e44 + 1i);
        }
    }
    let _e47 = l1_;
    l0_[_e25] = _e47;
    workgroupBarrier();
    if (thread < 1u) {
        let _e53 = l0_[0i];
        let _e55 = l0_[1i];
        slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>((_e53 + _e55));
    }
}
