// routine histogram, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: array<i32, 3>;
    var i1_next: i32;
    var l1_: i32;
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
    l0_ = array<i32, 3>();
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 3i) {
        } else {
            break;
        }
        let _e36 = l0_[i1_];
        l1_ = _e36;
        i2_next = 0i;
        loop {
            let i2_ = i2_next;
            if (i2_ < 4i) {
            } else {
                break;
            }
            let _e42 = l1_;
            let _e49 = slab_0_[(at_0_ + u32(((i0_ * 4i) + i2_)))];
            l1_ = (_e42 + select(0i, 1i, (bitcast<i32>(_e49) == i1_)));
            continuing {
                let _e55 = i2_next;
                i2_next = (_e55 + 1i);
            }
        }
        let _e57 = l1_;
        l0_[i1_] = _e57;
        continuing {
            let _e58 = i1_next;
            i1_next = (_e58 + 1i);
        }
    }
    i3_next = 0i;
    loop {
        let i3_ = i3_next;
        if (i3_ < 3i) {
        } else {
            break;
        }
        let _e64 = l0_[i3_];
        slab_0_[(at_1_ + u32(((i0_ * 3i) + i3_)))] = bitcast<u32>(_e64);
        continuing {
            let _e71 = i3_next;
            i3_next = (_e71 + 1i);
        }
    }
}
