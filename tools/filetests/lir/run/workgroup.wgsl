// routine tree, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: array<f32, 8>;
    var l1_: array<f32, 8>;
    var l2_: array<f32, 4>;
    var i1_next: i32;
    var i2_next: i32;
    var i3_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
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
        if (i1_ < 8i) {
        } else {
            break;
        }
        let _e39 = slab_0_[(at_0_ + u32(((i0_ * 8i) + i1_)))];
        l1_[i1_] = (bitcast<f32>(_e39) * 2f);
        continuing {
            let _e45 = i1_next;
            i1_next = (_e45 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 8i) {
        } else {
            break;
        }
        let _e52 = l1_[i2_];
        l0_[i2_] = _e52;
        continuing {
            let _e55 = i2_next;
            i2_next = (_e55 + 1i);
        }
    }
    i3_next = 0i;
    loop {
        let i3_ = i3_next;
        if (i3_ < 4i) {
        } else {
            break;
        }
        let _e62 = l0_[i3_];
        let _e65 = l0_[(i3_ + 4i)];
        l2_[i3_] = (_e62 + _e65);
        continuing {
            let _e69 = i3_next;
            i3_next = (_e69 + 1i);
        }
    }
    let _e72 = l2_[0i];
    let _e74 = l2_[1i];
    let _e78 = l2_[2i];
    let _e81 = l2_[3i];
    slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(((_e72 + _e74) + (_e78 + _e81)));
}
