// routine half_sum, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<atomic<u32>>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_: u32;
    var i0_next: i32;
    var l1_: u32;
    var i1_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
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
        if (i0_ < 1i) {
        } else {
            break;
        }
        l1_ = 0u;
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < 4i) {
            } else {
                break;
            }
            let l2_ = l1_;
            let l3_ = (l2_ & 32767u);
            let _e39 = u32(i1_);
            let _e47 = atomicLoad((&slab_0_[(at_0_ + (_e39 >> 1u))]));
            let l4_ = ((_e47 >> ((_e39 & 1u) * 16u)) & 65535u);
            let l5_ = (l4_ & 32767u);
            let l6_ = bitcast<u32>((bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l3_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l3_ == 31744u)), 2143289344u, (31744u < l3_)) | ((l2_ & 32768u) << 16u))) + bitcast<f32>((select(select(bitcast<u32>((bitcast<f32>((l5_ << 13u)) * 5192297000000000000000000000000000f)), 2139095040u, (l5_ == 31744u)), 2143289344u, (31744u < l5_)) | ((l4_ & 32768u) << 16u)))));
            let l7_ = (l6_ & 2147483647u);
            let _e100 = ((l7_ + (((l7_ >> 13u) & 1u) + 3355447295u)) >> 13u);
            l1_ = ((select(select(select(_e100, 31744u, (31744u < _e100)), (bitcast<u32>((bitcast<f32>(l7_) + 0.5f)) - 1056964608u), (l7_ < 947912704u)), 32256u, (2139095040u < l7_)) | ((l6_ >> 16u) & 32768u)) & 65535u);
            continuing {
                let _e110 = i1_next;
                i1_next = (_e110 + 1i);
            }
        }
        let _e112 = l1_;
        l0_ = _e112;
        continuing {
            let _e114 = i0_next;
            i0_next = (_e114 + 1i);
        }
    }
    let _e116 = l0_;
    let _e121 = atomicAnd((&slab_0_[at_1_]), ~((65535u << 0u)));
    let _e122 = atomicOr((&slab_0_[at_1_]), (_e116 << 0u));
}
