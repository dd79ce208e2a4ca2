// routine stays, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;
    var i2_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let symbol_n = i32(_e7.z);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 1u) {
        return;
    }
    i0_next = 0i;
    loop {
        let i0_ = i0_next;
        if (i0_ < 2i) {
        } else {
            break;
        }
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 3i) {
            } else {
                break;
            }
            let _e40 = slab_0_[at_1_];
            slab_0_[(at_0_ + u32(((i0_ * 3i) + i1_)))] = bitcast<u32>(sqrt(bitcast<f32>(_e40)));
            let _e49 = slab_0_[at_1_];
            slab_0_[at_1_] = bitcast<u32>((bitcast<f32>(_e49) + 3f));
            continuing {
                let _e54 = i1_next;
                i1_next = (_e54 + 1i);
            }
        }
        i2_next = 0i;
        loop {
            let i2_ = i2_next;
            if (i2_ < min(3i, symbol_n)) {
            } else {
                break;
            }
            let _e65 = slab_0_[(at_0_ + u32((i0_ * 3i)))];
            slab_0_[at_1_] = bitcast<u32>(sqrt(bitcast<f32>(_e65)));
            continuing {
                let _e70 = i2_next;
                i2_next = (_e70 + 1i);
            }
        }
        continuing {
            let _e72 = i0_next;
            i0_next = (_e72 + 1i);
        }
    }
}
