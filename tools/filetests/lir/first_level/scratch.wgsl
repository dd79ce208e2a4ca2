// routine long_parts, kernel 0, extent 8
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: array<i32, 64>;
    var i1_next: i32;
    var i2_next: i32;
    var l1_: i32;
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
    if (id >= 8u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = array<i32, 64>();
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 16i) {
        } else {
            break;
        }
        i2_next = 0i;
        loop {
            let i2_ = i2_next;
            if (i2_ < 64i) {
            } else {
                break;
            }
            let _e40 = l0_[i2_];
            let _e47 = slab_0_[(at_0_ + u32(i0_))];
            l0_[i2_] = (((_e40 * 3i) + bitcast<i32>(_e47)) + i2_);
            continuing {
                let _e51 = i2_next;
                i2_next = (_e51 + 1i);
            }
        }
        let _e57 = slab_0_[(at_1_ + u32(i0_))];
        l1_ = bitcast<i32>(_e57);
        i3_next = 0i;
        loop {
            let i3_ = i3_next;
            if (i3_ < 64i) {
            } else {
                break;
            }
            let _e63 = l1_;
            let _e69 = l0_[((i3_ * -1i) + 63i)];
            l1_ = (_e63 + _e69);
            continuing {
                let _e71 = i3_next;
                i3_next = (_e71 + 1i);
            }
        }
        let _e73 = l1_;
        slab_0_[(at_1_ + u32(i0_))] = bitcast<u32>(_e73);
        continuing {
            let _e75 = i1_next;
            i1_next = (_e75 + 1i);
        }
    }
}
