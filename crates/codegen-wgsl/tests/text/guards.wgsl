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
        let _e74 = slab_1_[(at_1_ + u32(i0_))];
        let _e76 = (_e74 < 8u);
        let _e81 = slab_0_[(at_0_ + select(0u, (0u + _e74), _e76))];
        let _e84 = select(0.5f, bitcast<f32>(_e81), _e76);
        let _e86 = bitcast<u32>(_e84);
        let _e89 = (_e86 & 2147483647u);
        let _e90 = (bitcast<u32>(3f) & 2147483647u);
        let _e93 = (_e89 & 8388607u);
        let _e97 = (_e90 & 8388607u);
        let _e101 = max(select(_e97, (_e97 | 8388608u), (_e90 >= 8388608u)), 1u);
        let _e106 = max((_e90 >> 23u), 1u);
        rest = (select(_e93, (_e93 | 8388608u), (_e89 >= 8388608u)) % _e101);
        let _e110 = (_e89 < _e90);
        steps = select((max((_e89 >> 23u), 1u) - _e106), 0u, _e110);
        loop {
            let _e113 = steps;
            if (_e113 > 0u) {
            } else {
                break;
            }
            let _e115 = min(_e113, 8u);
            let _e116 = rest;
            rest = ((_e116 << _e115) % _e101);
            steps = (_e113 - _e115);
        }
        let _e120 = rest;
        let _e122 = bitcast<u32>(f32(_e120));
        let _e125 = ((_e122 >> 23u) + _e106);
        let _e144 = bits_1;
        if (_e70 < 8u) {
            slab_0_[(at_2_ + (0u + _e70))] = bitcast<u32>(select(select(bitcast<f32>((select(select((_e120 << min((_e106 - 1u), 23u)), (((_e125 - 150u) << 23u) | (_e122 & 8388607u)), (_e125 > 150u)), 0u, (_e120 == 0u)) | (_e86 & 2147483648u))), _e84, _e110), bitcast<f32>(_e144), (((_e90 == 0u) | (_e89 >= 2139095040u)) | (_e90 > 2139095040u))));
        }
        continuing {
            let _e156 = i0_next;
            i0_next = (_e156 + 1i);
        }
    }
}
