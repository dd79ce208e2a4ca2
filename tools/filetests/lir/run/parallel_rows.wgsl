// routine normalize, kernel 0, extent 3
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: f32;
    var i1_next: i32;
    var i2_next: i32;
    var bits: u32 = 2139095040u;
    var bits_1: u32 = 4286578688u;
    var bits_2: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    let id = ((group * 64u) + thread);
    if (id >= 3u) {
        return;
    }
    let i0_ = bitcast<i32>(id);
    l0_ = 0f;
    i1_next = 0i;
    loop {
        let i1_ = i1_next;
        if (i1_ < 4i) {
        } else {
            break;
        }
        let _e41 = slab_0_[(at_0_ + u32(((i0_ * 4i) + i1_)))];
        let _e42 = bitcast<f32>(_e41);
        let _e43 = l0_;
        l0_ = select(_e42, _e43, ((_e43 > _e42) || !(((bitcast<u32>(_e43) & 2147483647u) <= 2139095040u))));
        continuing {
            let _e53 = i1_next;
            i1_next = (_e53 + 1i);
        }
    }
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < 4i) {
        } else {
            break;
        }
        let _e61 = u32(((i0_ * 4i) + i2_));
        let _e64 = slab_0_[(at_0_ + _e61)];
        let _e66 = l0_;
        let _e67 = (_e64 & 2147483647u);
        let _e72 = bits;
        let _e76 = bits_1;
        let _e78 = bitcast<u32>(_e66);
        let _e84 = bits_2;
        slab_0_[(at_1_ + _e61)] = bitcast<u32>(select((bitcast<f32>(_e64) / _e66), select(bitcast<f32>(_e84), select(bitcast<f32>(_e76), bitcast<f32>(_e72), ((_e64 ^ _e78) <= 2147483647u)), ((_e67 != 0u) & (_e67 <= 2139095040u))), ((_e78 & 2147483647u) == 0u)));
        continuing {
            let _e94 = i2_next;
            i2_next = (_e94 + 1i);
        }
    }
}
