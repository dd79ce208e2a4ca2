// routine product, kernel 0, extent 1
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 2>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
var<workgroup> l1_: array<f32, 96>;
var<workgroup> l2_: array<f32, 96>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var l0_0_: f32;
    var i2_next: i32;
    var i15_next: i32;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let symbol_n = i32(_e9.w);
    let _e14 = table[1u];
    let symbol_k = i32(_e14.x);
    let group = (workgroup_.x + (workgroups.x * (workgroup_.y + (workgroups.y * workgroup_.z))));
    if (group >= 1u) {
        return;
    }
    l0_0_ = 0f;
    i2_next = 0i;
    loop {
        let i2_ = i2_next;
        if (i2_ < min(1i, symbol_n)) {
        } else {
            break;
        }
        let _e42 = bitcast<i32>((thread / 8u));
        let _e43 = bitcast<i32>((thread % 8u));
        let _e51 = slab_0_[(at_0_ + u32(((_e42 * 8i) + _e43)))];
        let l3_ = bitcast<f32>(_e51);
        l0_0_ = l3_;
        storageBarrier();
        let _e56 = bitcast<i32>((thread / 3u));
        let _e57 = bitcast<i32>((thread % 3u));
        let _e59 = (thread < 24u);
        if _e59 {
            let _e62 = (symbol_k + (_e57 * -4i));
            let _e68 = ((_e56 * 12i) + (_e57 * 4i));
            let _e72 = slab_0_[(at_1_ + u32(_e68))];
            let _e77 = (_e56 + (_e57 * 32i));
            l1_[_e77] = select(0f, bitcast<f32>(_e72), (0i < _e62));
            let _e87 = slab_0_[(at_1_ + u32((_e68 + 1i)))];
            l1_[(_e77 + 8i)] = select(0f, bitcast<f32>(_e87), (0i < (_e62 + -1i)));
            let _e100 = slab_0_[(at_1_ + u32((_e68 + 2i)))];
            l1_[(_e77 + 16i)] = select(0f, bitcast<f32>(_e100), (0i < (_e62 + -2i)));
            let _e114 = slab_0_[(at_1_ + u32((_e68 + 3i)))];
            l1_[(_e77 + 24i)] = select(0f, bitcast<f32>(_e114), (0i < (_e62 + -3i)));
        }
        workgroupBarrier();
        let _e123 = bitcast<i32>((thread / 2u));
        if _e59 {
            let _e127 = (0i < (symbol_k + (_e123 * -1i)));
            let _e130 = ((_e123 * 8i) + (bitcast<i32>((thread % 2u)) * 4i));
            let _e134 = slab_0_[(at_2_ + u32(_e130))];
            l2_[_e130] = select(0f, bitcast<f32>(_e134), _e127);
            let _e139 = (_e130 + 1i);
            let _e143 = slab_0_[(at_2_ + u32(_e139))];
            l2_[_e139] = select(0f, bitcast<f32>(_e143), _e127);
            let _e147 = (_e130 + 2i);
            let _e151 = slab_0_[(at_2_ + u32(_e147))];
            l2_[_e147] = select(0f, bitcast<f32>(_e151), _e127);
            let _e155 = (_e130 + 3i);
            let _e159 = slab_0_[(at_2_ + u32(_e155))];
            l2_[_e155] = select(0f, bitcast<f32>(_e159), _e127);
        }
        workgroupBarrier();
        i15_next = 0i;
        loop {
            let i15_ = i15_next;
            if (i15_ < 12i) {
            } else {
                break;
            }
            let _e166 = (i15_ * 8i);
            let l4_ = l1_[(_e42 + _e166)];
            let l5_ = l2_[(_e43 + _e166)];
            let _e173 = l0_0_;
            l0_0_ = fma(l4_, l5_, _e173);
            continuing {
                let _e175 = i15_next;
                i15_next = (_e175 + 1i);
            }
        }
        workgroupBarrier();
        let _e177 = slab_0_[(at_0_ + u32(((_e42 * 8i) + _e43)))];
        let l6_ = bitcast<f32>(_e177);
        let l6_1 = l0_0_;
        let _e183 = slab_0_[(at_0_ + u32(((_e42 * 8i) + _e43)))];
        slab_0_[(at_0_ + u32(((_e42 * 8i) + _e43)))] = bitcast<u32>(select(bitcast<f32>(_e183), l6_1, (0i < (symbol_n + (_e42 * -1i)))));
        storageBarrier();
        continuing {
            let _e187 = i2_next;
            i2_next = (_e187 + 1i);
        }
    }
}
