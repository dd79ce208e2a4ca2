// routine layers, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;
    var i2_next: i32;
    var i3_next: i32;
    var i4_next: i32;
    var i5_next: i32;
    var i6_next: i32;
    var l0_: i32;
    var i7_next: i32;
    var i8_next: i32;
    var i9_next: i32;
    var i10_next: i32;
    var i11_next: i32;
// … 236 lines, digest 70ad1e91684d7a88 …
            }
        }
        let _e225 = l2_;
        slab_0_[(at_2_ + 2u)] = bitcast<u32>(_e225);
        continuing {
            let _e227 = i13_next;
            i13_next = (_e227 + 1i);
        }
    }
}
