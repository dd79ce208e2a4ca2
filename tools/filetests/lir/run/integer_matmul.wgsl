// routine integer_matmul, kernel 0, extent 6
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: i32;
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
    if (id >= 6u) {
        return;
    }
    let i0_ = bitcast<i32>((id / 2u));
    let i1_ = bitcast<i32>((id % 2u));
    let _e41 = slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))];
    l0_ = bitcast<i32>(_e41);
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 5i) {
        } else {
            break;
        }
        let _e49 = l0_;
        let _e52 = u32(((i0_ * 5i) + i2_));
        let _e60 = slab_0_[(at_1_ + (_e52 >> 2u))];
        let _e69 = u32((i1_ + (i2_ * 2i)));
        let _e75 = slab_0_[(at_2_ + (_e69 >> 2u))];
        l0_ = (_e49 + (((bitcast<i32>((_e60 >> ((_e52 & 3u) * 8u))) << 24u) >> 24u) * bitcast<i32>(((_e75 >> ((_e69 & 3u) * 8u)) & 255u))));
        continuing {
            let _e81 = i2_next;
            i2_next = (_e81 + 1i);
        }
    }
    let _e84 = l0_;
    slab_0_[(at_0_ + u32(((i0_ * 2i) + i1_)))] = bitcast<u32>(_e84);
}
