// 1 workgroups, 4 words
@group(0) @binding(0) 
var<uniform> table: array<vec4<u32>, 1>;
@group(0) @binding(1) 
var<storage, read_write> slab_0_: array<u32>;
@group(0) @binding(2) 
var<storage, read_write> slab_1_: array<u32>;

@compute @workgroup_size(64, 1, 1) 
fn main(@builtin(workgroup_id) workgroup_: vec3<u32>, @builtin(num_workgroups) workgroups: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var i0_next: i32;
    var i1_next: i32;
    var bits: u32 = 2139095040u;
    var rest: u32;
    var steps: u32;
    var bits_1: u32 = 2143289344u;

    let _e3 = table[0u];
    let at_0_ = _e3.x;
    let _e5 = table[0u];
    let at_1_ = _e5.y;
    let _e7 = table[0u];
    let at_2_ = _e7.z;
    let _e9 = table[0u];
    let symbol_shift = i32(_e9.w);
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
        if (i0_ < 8i) {
        } else {
            break;
        }
        i1_next = 0i;
        loop {
            let i1_ = i1_next;
            if (i1_ < min(4i, symbol_shift)) {
            } else {
                break;
            }
            let _e43 = ((symbol_shift + i0_) + -1i);
            let _e46 = ((_e43 >= 0i) & (_e43 < 8i));
            let _e52 = slab_0_[(at_0_ + select(0u, u32(_e43), _e46))];
            let _e56 = bits;
            slab_0_[(at_2_ + u32(i0_))] = bitcast<u32>(select(bitcast<f32>(_e56), bitcast<f32>(_e52), _e46));
            continuing {
                let _e63 = i1_next;
                i1_next = (_e63 + 1i);
            }
        }
        let _e70 = slab_1_[(at_1_ + u32(i0_))];
        let _e72 = bitcast<u32>(bitcast<i32>(_e70));
        let _e75 = slab_1_[(at_1_ + u32(i0_))];
        let _e77 = bitcast<u32>(bitcast<i32>(_e75));
        let _e78 = (_e77 < 8u);
        let _e83 = slab_0_[(at_0_ + select(0u, (0u + _e77), _e78))];
        let _e86 = select(0.5f, bitcast<f32>(_e83), _e78);
        let _e88 = bitcast<u32>(_e86);
        let _e91 = (_e88 & 2147483647u);
        let _e92 = (bitcast<u32>(3f) & 2147483647u);
        let _e95 = (_e91 & 8388607u);
        let _e99 = (_e92 & 8388607u);
        let _e103 = max(select(_e99, (_e99 | 8388608u), (_e92 >= 8388608u)), 1u);
        let _e108 = max((_e92 >> 23u), 1u);
        rest = (select(_e95, (_e95 | 8388608u), (_e91 >= 8388608u)) % _e103);
        let _e112 = (_e91 < _e92);
        steps = select((max((_e91 >> 23u), 1u) - _e108), 0u, _e112);
        loop {
            let _e115 = steps;
            if (_e115 > 0u) {
            } else {
                break;
            }
            let _e117 = min(_e115, 8u);
            let _e118 = rest;
            rest = ((_e118 << _e117) % _e103);
            steps = (_e115 - _e117);
        }
        let _e122 = rest;
        let _e124 = bitcast<u32>(f32(_e122));
        let _e127 = ((_e124 >> 23u) + _e108);
        let _e146 = bits_1;
        if (_e72 < 8u) {
            slab_0_[(at_2_ + (0u + _e72))] = bitcast<u32>(select(select(bitcast<f32>((select(select((_e122 << min((_e108 - 1u), 23u)), (((_e127 - 150u) << 23u) | (_e124 & 8388607u)), (_e127 > 150u)), 0u, (_e122 == 0u)) | (_e88 & 2147483648u))), _e86, _e112), bitcast<f32>(_e146), (((_e92 == 0u) | (_e91 >= 2139095040u)) | (_e92 > 2139095040u))));
        }
        continuing {
            let _e158 = i0_next;
            i0_next = (_e158 + 1i);
        }
    }
}
