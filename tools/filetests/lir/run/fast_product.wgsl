// routine fast_product, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l1_: array<f32, 40>;
var<workgroup> l2_: array<f32, 56>;

@compute @workgroup_size(35, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_0_: f32;
    var i6_next: i32;
    var i16_next: i32;

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
    let _e27 = bitcast<i32>((thread / 7u));
    let _e28 = bitcast<i32>((thread % 7u));
    let _e30 = (_e27 * 7i);
    let _e31 = (_e30 + _e28);
    let _e36 = slab_0_[(at_0_ + u32(_e31))];
    let l3_ = bitcast<f32>(_e36);
    l0_0_ = l3_;
    storageBarrier();
    i6_next = 0i;
    loop {
        let i6_ = i6_next;
        if (i6_ < 5i) {
        } else {
            break;
        }
        let _e47 = bitcast<i32>((thread / 2u));
        let _e48 = bitcast<i32>((thread % 2u));
        if (thread < 10u) {
            let _e58 = (((i6_ * 8i) + (_e47 * 40i)) + (_e48 * 4i));
            let _e62 = slab_0_[(at_1_ + u32(_e58))];
            let _e66 = (_e47 + (_e48 * 20i));
            l1_[_e66] = bitcast<f32>(_e62);
            let _e74 = slab_0_[(at_1_ + u32((_e58 + 1i)))];
            l1_[(_e66 + 5i)] = bitcast<f32>(_e74);
            let _e83 = slab_0_[(at_1_ + u32((_e58 + 2i)))];
            l1_[(_e66 + 10i)] = bitcast<f32>(_e83);
            let _e93 = slab_0_[(at_1_ + u32((_e58 + 3i)))];
            l1_[(_e66 + 15i)] = bitcast<f32>(_e93);
        }
        workgroupBarrier();
        let _e101 = (((i6_ * 56i) + _e30) + _e28);
        let _e105 = slab_0_[(at_2_ + u32(_e101))];
        l2_[_e31] = bitcast<f32>(_e105);
        workgroupBarrier();
        if (thread < 21u) {
            let _e116 = slab_0_[(at_2_ + u32((_e101 + 35i)))];
            l2_[(_e31 + 35i)] = bitcast<f32>(_e116);
        }
        workgroupBarrier();
        i16_next = 0i;
        loop {
            let i16_ = i16_next;
            if (i16_ < 8i) {
            } else {
                break;
            }
            let l4_ = l1_[(_e27 + (i16_ * 5i))];
            let l5_ = l2_[(_e28 + (i16_ * 7i))];
            let _e131 = l0_0_;
            l0_0_ = fma(l4_, l5_, _e131);
            continuing {
                let _e133 = i16_next;
                i16_next = (_e133 + 1i);
            }
        }
        workgroupBarrier();
        continuing {
            let _e135 = i6_next;
            i6_next = (_e135 + 1i);
        }
    }
    let _e137 = slab_0_[(at_0_ + u32(_e31))];
    let l6_ = bitcast<f32>(_e137);
    let l6_1 = l0_0_;
    slab_0_[(at_0_ + u32(_e31))] = bitcast<u32>(l6_1);
}
