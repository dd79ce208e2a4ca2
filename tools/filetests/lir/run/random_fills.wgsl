// routine uniform, kernel 0, extent 2
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i1_next: i32;
    var l156_: array<f32, 4>;
    var i2_next: i32;
    var l312_: array<f32, 2>;
    var i3_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
// … 331 lines, digest bfb556f94b061c07 …
            break;
        }
        let _e564 = l312_[i3_];
        slab_0_[(at_0_ + u32((((i0_ * 10i) + i3_) + 8i)))] = bitcast<u32>(_e564);
        continuing {
            let _e573 = i3_next;
            i3_next = (_e573 + 1i);
        }
    }
}
